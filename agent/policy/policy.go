package policy

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
	"time"

	"github.com/bursar/bursar/label"
)

// Action is the host's reaction to an engine in over-use. Every action shows the over-use. The zero
// Action is invalid.
type Action uint8

// The actions.
const (
	// Observe only shows the over-use.
	Observe Action = iota + 1
	// Warn also writes a warning to the agent's log.
	Warn
	// Limit makes the kernel hold the engine to its entitlement, by the limits of its cgroup.
	Limit
	// Kill stops the engine when over-use of memory has lasted for the grace.
	Kill
)

// Actions lists all actions.
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

// Policy says how the host treats the engines that Match selects.
type Policy struct {
	// Match selects engines by labels, as the selector of a quota does. The zero Selector matches
	// every engine.
	Match  label.Selector
	Action Action
	// Tolerance is the tolerated use beyond the entitlement, in thousandths of the entitlement.
	Tolerance int64
	// Grace is how long over-use of memory must last before Kill stops the engine.
	Grace time.Duration
	// StopGrace is the time between SIGTERM and SIGKILL of that stop.
	StopGrace time.Duration
	// Cgroup says whether the agent moves an engine that a launcher has started to a cgroup of its
	// own. Limit needs such a cgroup.
	Cgroup Cgroup
	// OnLeaderEnd is the treatment of the engine's other processes when its main process ends.
	OnLeaderEnd LeaderEnd
}

// Cgroup says whether a running engine is moved to a cgroup of its own.
type Cgroup uint8

const (
	// CgroupIfFree moves the engine unless it would leave a limit or a container behind.
	CgroupIfFree Cgroup = iota
	// CgroupAlways always moves the engine.
	CgroupAlways
	// CgroupNever leaves the engine in its current cgroup.
	CgroupNever
)

// Default returns the policy of an engine that no policy of the Set matches.
func Default() Policy {
	return Policy{Action: DefaultAction, Tolerance: DefaultTolerance, Grace: DefaultGrace, StopGrace: DefaultStopGrace}
}

// Bound returns the highest use that does not begin over-use: the entitlement plus the tolerance.
// It returns 0 if the entitlement sets no limit.
func (p Policy) Bound(entitled int64) int64 {
	if entitled <= 0 || p.Tolerance <= 0 {
		return max(0, entitled)
	}
	high, low := bits.Mul64(uint64(entitled), uint64(p.Tolerance))
	if high >= 1000 {
		return math.MaxInt64 // does not fit into 64 bits
	}
	extra, _ := bits.Div64(high, low, 1000)
	if extra > math.MaxInt64 || int64(extra) > math.MaxInt64-entitled {
		return math.MaxInt64
	}
	return entitled + int64(extra)
}

// Limited returns the policy of an engine whose launcher has requested a hard cap: the kernel holds
// the engine to its entitlement. A stricter policy stays: Kill still stops the engine.
func (p Policy) Limited() Policy {
	if p.Action != Kill {
		p.Action = Limit
	}
	p.Cgroup = CgroupAlways
	return p
}

// Set is an ordered list of policies; the first match applies. A nil Set gives every engine the
// default policy.
type Set []Policy

// For returns the policy for an engine with these labels.
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
