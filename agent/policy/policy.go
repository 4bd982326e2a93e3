package policy

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
	"time"

	"github.com/bursar/bursar/label"
)

// Action is what is done about an engine in over-use. Each shows it; the zero Action is none of
// them.
type Action uint8

// The actions.
const (
	// Observe does nothing else.
	Observe Action = iota + 1
	// Warn has the agent's log warn of it.
	Warn
	// Limit has the kernel keep the engine to its entitlement, by its cgroup.
	Limit
	// Kill stops the engine when over-use of memory has gone on for the grace.
	Kill
)

// Actions lists them.
func Actions() []Action { return []Action{Observe, Warn, Limit, Kill} }

// String returns the name, as ParseAction reads it.
func (a Action) String() string {
	switch a {
	case Observe:
		return "observe"
	case Warn:
		return "warn"
	case Limit:
		return "limit"
	case Kill:
		return "kill"
	default:
		return fmt.Sprintf("action %d", uint8(a))
	}
}

// ParseAction reads the name of an action.
func ParseAction(text string) (Action, error) {
	var names []string
	for _, action := range Actions() {
		if action.String() == text {
			return action, nil
		}
		names = append(names, action.String())
	}
	return 0, fmt.Errorf("%q: want one of %s", text, strings.Join(names, ", "))
}

// Defaults of a Policy.
const (
	DefaultAction    = Warn
	DefaultTolerance = 100
	DefaultGrace     = 30 * time.Second
	DefaultStopGrace = 10 * time.Second
)

// Policy is what is done about some engines.
type Policy struct {
	// Match selects them by labels, as the selector of a quota does; the zero Selector matches
	// every engine.
	Match  label.Selector
	Action Action
	// Tolerance is how much more than its entitlement an engine may use, in thousandths of it.
	Tolerance int64
	// Grace is how long over-use of memory goes on before Kill stops the engine.
	Grace time.Duration
	// StopGrace is the time between SIGTERM and SIGKILL then.
	StopGrace time.Duration
	// Cgroup says whether the engine gets a cgroup of its own if a launcher has started it. Limit
	// needs one.
	Cgroup Cgroup
	// OnLeaderEnd is what is done if the engine's main process ends and others of it live on.
	OnLeaderEnd LeaderEnd
}

// Cgroup says whether an engine that runs is moved to a cgroup of its own.
type Cgroup uint8

const (
	// CgroupIfFree moves it unless it would leave a limit or a container behind.
	CgroupIfFree Cgroup = iota
	// CgroupAlways moves it in any case.
	CgroupAlways
	// CgroupNever leaves it where it is.
	CgroupNever
)

// Default is the policy of an engine that no other matches.
func Default() Policy {
	return Policy{Action: DefaultAction, Tolerance: DefaultTolerance, Grace: DefaultGrace, StopGrace: DefaultStopGrace}
}

// Bound is the most that is no over-use: the entitlement and the tolerance. It is 0 if the
// entitlement limits nothing.
func (p Policy) Bound(entitled int64) int64 {
	if entitled <= 0 || p.Tolerance <= 0 {
		return max(0, entitled)
	}
	high, low := bits.Mul64(uint64(entitled), uint64(p.Tolerance))
	if high >= 1000 {
		return math.MaxInt64 // more than 64 bits hold
	}
	extra, _ := bits.Div64(high, low, 1000)
	if extra > math.MaxInt64 || int64(extra) > math.MaxInt64-entitled {
		return math.MaxInt64
	}
	return entitled + int64(extra)
}

// Limited is the policy of an engine whose launcher has asked for a hard cap: the kernel keeps it
// to its entitlement. What is stricter stays: Kill still stops it.
func (p Policy) Limited() Policy {
	if p.Action != Kill {
		p.Action = Limit
	}
	p.Cgroup = CgroupAlways
	return p
}

// Set is policies in their order: the first that matches counts. Nil is the default for every
// engine.
type Set []Policy

// For returns the policy of an engine with these labels.
func (s Set) For(labels map[string]string) Policy {
	set, err := label.FromMap(labels)
	if err != nil {
		return Default() // no coordinator grants anything for such labels
	}
	for _, p := range s {
		if p.Match.Matches(set) {
			return p
		}
	}
	return Default()
}
