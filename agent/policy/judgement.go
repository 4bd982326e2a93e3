package policy

import (
	"time"

	"github.com/bursar/bursar/resource"
)

const (
	// windowTicks is the number of ticks over which the CPU use is averaged: a short burst is no
	// over-use.
	windowTicks = 3
	// staleTicks and staleLeast bound the gap between two measurements; the longer one counts.
	// After a longer gap, the Judgement forgets the over-use, and it begins anew. The bound is more
	// than one tick because a machine that is short of memory measures late.
	staleTicks = 3
	staleLeast = 30 * time.Second
)

// Terms are the policy and the entitlement that apply to an engine at the time of a sample.
type Terms struct {
	Policy Policy
	// MemoryBytes and CPUMillis are the engine's entitlement; 0 means no limit.
	MemoryBytes, CPUMillis int64
	// Tick is the regular time between two samples. An event can bring a sample forward.
	Tick time.Duration
}

func (t Terms) stale() time.Duration { return max(staleTicks*t.Tick, staleLeast) }

// Use is one sample of an engine.
type Use struct {
	Time time.Time
	// MemoryBytes is the memory that the kernel cannot reclaim. Reclaimable memory does not count.
	MemoryBytes int64
	// CPUMillis is the mean since the sample before, in thousandths of a core.
	CPUMillis int64
	// AtLeast is set if a part of the engine could not be measured: the figures are lower bounds.
	AtLeast bool
	// MemoryAtLeast is set if MemoryBytes alone is a lower bound.
	MemoryAtLeast bool
}

// OverUse describes an engine's use of a dimension beyond its entitlement.
type OverUse struct {
	// Dimension is resource.Memory or resource.CPU.
	Dimension string
	// Used and Entitled are the engine's use and entitlement when the over-use was noticed, or when
	// the entitlement last changed. They are in bytes, or in thousandths of a core.
	Used, Entitled int64
	// Since is the time of the first sample of the unbroken series that shows the over-use.
	Since  time.Time
	Action Action
	// StopTime is when the engine will be stopped if the over-use goes on; zero means never.
	StopTime time.Time
}

// Equal reports whether o and p are the same; it compares times as instants.
func (o OverUse) Equal(p OverUse) bool {
	return o.Dimension == p.Dimension && o.Used == p.Used && o.Entitled == p.Entitled && o.Action == p.Action &&
		o.Since.Equal(p.Since) && o.StopTime.Equal(p.StopTime)
}

// Judgement tracks the over-use of one engine. Over-use begins with the first sample above the
// entitlement plus the policy's tolerance. It ends with the first sample at or below the
// entitlement. The zero Judgement has seen no sample.
type Judgement struct {
	memory, cpu excess
	window      window
	at          time.Time // of the last sample
	stop        stop
}

// excess is the over-use of one dimension.
type excess struct {
	over           bool
	used, entitled int64
	last           int64 // what the last sample showed
	since, seen    time.Time
}

// stop holds the times of an engine's stop for over-use of memory.
type stop struct {
	policy Policy
	// from is when the grace began: when the over-use began, or when a policy that kills came into
	// force.
	from  time.Time
	asked time.Time // when a stop was last requested for this over-use; zero: not yet
}

// Observe takes a sample. Times must not go back.
func (j *Judgement) Observe(terms Terms, use Use) {
	j.Missed(terms, use.Time)
	j.memory.observe(use.Time, use.MemoryBytes, use.AtLeast || use.MemoryAtLeast, terms.MemoryBytes, terms.Policy)
	mean, known := j.window.add(terms.Tick, use, j.at)
	j.cpu.observe(use.Time, mean, !known, terms.CPUMillis, terms.Policy)
	j.at = use.Time
	switch kills := terms.Policy.Action == Kill; {
	case !j.memory.over || !kills:
		j.stop = stop{}
	case j.stop.from.IsZero() || j.stop.from.Before(j.memory.since):
		j.stop = stop{from: use.Time}
	}
	j.stop.policy = terms.Policy
}

// Missed notes that the measurement at this time failed.
func (j *Judgement) Missed(terms Terms, now time.Time) {
	for _, e := range []*excess{&j.memory, &j.cpu} {
		if e.over && now.Sub(e.seen) > terms.stale() {
			*e = excess{}
		}
	}
	if !j.at.IsZero() && now.Sub(j.at) > terms.stale() {
		j.window, j.at = window{}, time.Time{}
	}
}

// observe takes the use of one dimension. If atLeast is set, used is a lower bound.
func (e *excess) observe(now time.Time, used int64, atLeast bool, entitled int64, p Policy) {
	bound := p.Bound(entitled)
	switch {
	case entitled <= 0:
		*e = excess{}
	case !e.over:
		if used > bound {
			*e = excess{over: true, used: used, entitled: entitled, last: used, since: now, seen: now}
		}
	case used <= entitled, entitled > e.entitled && used <= bound:
		// If the entitlement was raised, the tolerance has grown too.
		if !atLeast {
			*e = excess{}
		}
	default:
		if entitled != e.entitled {
			e.used, e.entitled = used, entitled
		}
		e.last, e.seen = used, now
	}
}

// OverUses returns the current over-use of each dimension; nil if there is none.
func (j *Judgement) OverUses() []OverUse {
	var list []OverUse
	if j.memory.over {
		o := j.memory.overUse(resource.Memory, j.stop.policy.Action)
		if !j.stop.from.IsZero() {
			o.StopTime = j.stop.from.Add(j.stop.policy.Grace)
		}
		list = append(list, o)
	}
	if j.cpu.over {
		list = append(list, j.cpu.overUse(resource.CPU, j.stop.policy.Action))
	}
	return list
}

func (e *excess) overUse(dimension string, action Action) OverUse {
	return OverUse{Dimension: dimension, Used: e.used, Entitled: e.entitled, Since: e.since, Action: action}
}

// Stop describes the stop of an engine for over-use of memory.
type Stop struct {
	// UsedBytes is the use in the last sample.
	UsedBytes, EntitledBytes int64
	// For is how long the over-use has lasted without a break.
	For time.Duration
	// Grace is the time between SIGTERM and SIGKILL.
	Grace time.Duration
}

// StopDue reports whether the engine must be stopped now. It must if its policy kills, the last
// sample shows over-use of memory that has lasted for the grace, and no stop was requested within
// the last grace.
func (j *Judgement) StopDue(now time.Time) (Stop, bool) {
	m, s := &j.memory, &j.stop
	if !m.over || s.from.IsZero() || !m.seen.Equal(j.at) || j.at.Sub(s.from) < s.policy.Grace ||
		!s.asked.IsZero() && now.Sub(s.asked) < s.policy.Grace {
		return Stop{}, false
	}
	return Stop{UsedBytes: m.last, EntitledBytes: m.entitled, For: j.at.Sub(m.since), Grace: s.policy.StopGrace}, true
}

// Asked notes when the stop was requested; the zero time means that no coordinator received the
// request.
func (j *Judgement) Asked(now time.Time) { j.stop.asked = now }
