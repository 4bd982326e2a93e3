package tracker

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/bursar/bursar/agent/policy"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// Notice says that an engine's over-use of a dimension has begun or ended.
type Notice struct {
	ID      string
	OverUse policy.OverUse
	// Ended: the over-use has ended, and OverUse is its last state.
	Ended bool
}

// DueStop is an engine to stop by its policy: for over-use, or because its main process has ended.
type DueStop struct {
	ID     string
	Grace  time.Duration // between SIGTERM and SIGKILL
	Reason string

	AtLeaderEnd bool // because its main process has ended
}

// SetPolicies sets the policies from the next measurement on, and the time between measurements.
// Before that every engine has the default policy, and its use of CPU is not judged.
func (t *Tracker) SetPolicies(policies policy.Set, tick time.Duration) {
	t.policies, t.tick = policies, tick
}

// Policy returns the policy of an engine with these labels.
func (t *Tracker) Policy(labels map[string]string) policy.Policy { return t.policies.For(labels) }

// policyOf returns the policy of an entry. Its launcher may have asked for a limit.
func (t *Tracker) policyOf(e *entry) policy.Policy {
	p := t.policies.For(e.grant.GetLabels())
	if t.identified(e) && e.grant.GetProcess().GetLimit() {
		return p.Limited()
	}
	return p
}

// Notices returns the changes by the last measurement.
func (t *Tracker) Notices() []Notice { return t.notices }

// DueStops returns the engines to stop now, by id, according to the last measurement. It omits
// engines that are stopping already, and those that this agent has not identified.
func (t *Tracker) DueStops(now time.Time) []DueStop {
	var list []DueStop
	for _, e := range t.inOrder() {
		if !e.tracked() || e.grant.GetStopping() || !t.identified(e) {
			continue
		}
		if stop, due := e.judgement.StopDue(now); due {
			list = append(list, DueStop{ID: e.grant.GetId(), Grace: stop.Grace, Reason: reasonOf(stop)})
		} else if stop, due := t.leaderStop(e, now); due {
			list = append(list, stop)
		}
	}
	return list
}

func reasonOf(s policy.Stop) string {
	return fmt.Sprintf("uses %s of memory, is entitled to %s, for %s (policy kill)",
		resource.ApproximateMemory(s.UsedBytes), resource.ApproximateMemory(s.EntitledBytes), s.For.Round(time.Second))
}

// StopAsked notes when a coordinator was asked for a stop; zero means that none was reached.
func (t *Tracker) StopAsked(stop DueStop, at time.Time) {
	switch e := t.entries[stop.ID]; {
	case e == nil:
	case stop.AtLeaderEnd:
		e.over.asked = at
	default:
		e.judgement.Asked(at)
	}
}

// OverUses counts the engines in over-use.
func (t *Tracker) OverUses() map[OverUseKind]int {
	counts := make(map[OverUseKind]int)
	for _, e := range t.entries {
		if e.usage != nil {
			for _, o := range e.usage.over {
				counts[OverUseKind{o.Dimension, o.Action}]++
			}
		}
	}
	return counts
}

// OverUseKind is the key by which OverUses counts.
type OverUseKind struct {
	Dimension string
	Action    policy.Action
}

// judge compares a sample with the engine's current entitlement. A nil usage means that there is no
// sample.
func (t *Tracker) judge(now time.Time, e *entry, usage *Usage) {
	entitled := e.grant.GetEntitled()
	terms := policy.Terms{
		Policy: t.policyOf(e), MemoryBytes: entitled.GetMemoryBytes(), CPUMillis: entitled.GetCpuMillis(), Tick: t.tick,
	}
	if r := e.rule; r.GetPolicy() != overUsePolicy(terms.Policy.Action) || int64(r.GetTolerance()) != terms.Policy.Tolerance ||
		terms.Policy.Action == policy.Kill && r.GetGrace().AsDuration() != terms.Policy.Grace {
		e.rule = overUseRule(terms.Policy)
	}
	var before []policy.OverUse
	if e.usage != nil {
		before = e.usage.over
	}
	if usage != nil {
		e.judgement.Observe(terms, policy.Use{
			Time: now, MemoryBytes: usage.UnreclaimableBytes - usage.UnsureBytes, CPUMillis: usage.CPUMillis, AtLeast: usage.Partial,
			MemoryAtLeast: usage.UnsureBytes > 0,
		})
		e.usage = usage
		t.count(e)
	} else {
		e.judgement.Missed(terms, now)
	}
	after := e.judgement.OverUses()
	t.noteOverUse(now, e, usage, after)
	if e.usage != nil && !slices.EqualFunc(e.usage.over, after, policy.OverUse.Equal) {
		changed := *e.usage // the coordinator may have the old one
		changed.over = after
		e.usage = &changed
	}
	t.notice(e.grant.GetId(), before, after, false)
	t.notice(e.grant.GetId(), after, before, true)
}

// notice adds a Notice for each dimension in after that is not in before.
func (t *Tracker) notice(id string, before, after []policy.OverUse, ended bool) {
	for _, o := range after {
		if !slices.ContainsFunc(before, func(b policy.OverUse) bool { return b.Dimension == o.Dimension }) {
			t.notices = append(t.notices, Notice{ID: id, OverUse: o, Ended: ended})
			t.urgent = true
		}
	}
}

// overUses converts over-uses to messages of the contract.
func overUses(list []policy.OverUse) []*bursarv1.OverUse {
	var messages []*bursarv1.OverUse
	for _, o := range list {
		m := &bursarv1.OverUse{
			Dimension: o.Dimension, Used: o.Used, Entitled: o.Entitled, Since: timestamppb.New(o.Since), Policy: overUsePolicy(o.Action),
		}
		if !o.StopTime.IsZero() {
			m.StopTime = timestamppb.New(o.StopTime)
		}
		messages = append(messages, m)
	}
	return messages
}

func overUseRule(p policy.Policy) *bursarv1.OverUseRule {
	rule := &bursarv1.OverUseRule{Policy: overUsePolicy(p.Action), Tolerance: int32(p.Tolerance)} //nolint:gosec // at most 10,000
	if p.Action == policy.Kill {
		rule.Grace = durationpb.New(p.Grace)
	}
	return rule
}

func overUsePolicy(action policy.Action) bursarv1.OverUsePolicy {
	switch action {
	case policy.Observe:
		return bursarv1.OverUsePolicy_OVER_USE_POLICY_OBSERVE
	case policy.Warn:
		return bursarv1.OverUsePolicy_OVER_USE_POLICY_WARN
	case policy.Limit:
		return bursarv1.OverUsePolicy_OVER_USE_POLICY_LIMIT
	case policy.Kill:
		return bursarv1.OverUsePolicy_OVER_USE_POLICY_KILL
	default:
		return bursarv1.OverUsePolicy_OVER_USE_POLICY_UNSPECIFIED
	}
}
