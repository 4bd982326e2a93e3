package policy

import (
	"time"

	"github.com/bursar/bursar/resource"
)

const (
	// windowTicks is over how many ticks the use of CPU is averaged: a moment of it is no
	// over-use.
	windowTicks = 3
	// staleTicks and staleLeast are after how long without a measurement nothing is known of an
	// engine any more, whichever is longer. Then over-use begins from the start. A machine that is
	// short of memory measures late, so it is not just a tick.
	staleTicks = 3
	staleLeast = 30 * time.Second
)

// Terms are what an engine is judged by, at the time of a sample.
type Terms struct {
	Policy Policy
	// MemoryBytes and CPUMillis are what it is entitled to; 0 limits nothing.
	MemoryBytes, CPUMillis int64
	// Tick is the time between two samples, when nothing brings one forward.
	Tick time.Duration
}

func (t Terms) stale() time.Duration { return max(staleTicks*t.Tick, staleLeast) }

// Use is one sample of an engine.
type Use struct {
	Time time.Time
	// MemoryBytes is what the kernel cannot reclaim. What it can reclaim does not count.
	MemoryBytes int64
	// CPUMillis is the mean since the sample before, in thousandths of a core.
	CPUMillis int64
	// AtLeast says that a part of the engine could not be measured: it used that much or more.
	AtLeast bool
	// MemoryAtLeast says the same of MemoryBytes alone.
	MemoryAtLeast bool
}

// OverUse is that an engine uses more of a dimension than it is entitled to.
type OverUse struct {
	// Dimension is resource.Memory or resource.CPU.
	Dimension string
	// Used is what it used when that was noticed, or its entitlement last changed, and Entitled
	// the entitlement then. Bytes, or thousandths of a core.
	Used, Entitled int64
	// Since is the first sample of those without a break that showed it.
	Since  time.Time
	Action Action
	// StopTime is when the engine is to be stopped if it goes on; zero: not at all.
	StopTime time.Time
}

// Equal reports whether both say the same.
func (o OverUse) Equal(p OverUse) bool {
	return o.Dimension == p.Dimension && o.Used == p.Used && o.Entitled == p.Entitled && o.Action == p.Action &&
		o.Since.Equal(p.Since) && o.StopTime.Equal(p.StopTime)
}

// Judgement is what is known of one engine's over-use. It begins with the first sample above the
// entitlement and the policy's tolerance, and ends with the first at or below the entitlement. The
// zero Judgement knows nothing.
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

// stop is when an engine is to be stopped for over-use of memory.
type stop struct {
	policy Policy
	// from is when the grace began: with the over-use, or with the policy that kills for it.
	from  time.Time
	asked time.Time // when a stop was asked for, for this over-use; zero: not yet
}

// Observe takes a sample. Times do not go back.
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

// Missed notes that there is no sample at this time.
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

// observe takes what was used of one dimension, or if atLeast is set, what of that is known.
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

// OverUses returns what the engine uses beyond its entitlement; nil: nothing.
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

// Stop is that an engine is to be stopped for over-use of memory.
type Stop struct {
	// UsedBytes is what the last sample showed.
	UsedBytes, EntitledBytes int64
	// For is how long it has gone on without a break.
	For time.Duration
	// Grace is the time between SIGTERM and SIGKILL.
	Grace time.Duration
}

// StopDue reports whether the engine is to be stopped now: its policy kills, the last sample shows
// over-use of memory that has gone on for the grace, and no stop was asked for within the last
// grace.
func (j *Judgement) StopDue(now time.Time) (Stop, bool) {
	m, s := &j.memory, &j.stop
	if !m.over || s.from.IsZero() || !m.seen.Equal(j.at) || j.at.Sub(s.from) < s.policy.Grace ||
		!s.asked.IsZero() && now.Sub(s.asked) < s.policy.Grace {
		return Stop{}, false
	}
	return Stop{UsedBytes: m.last, EntitledBytes: m.entitled, For: j.at.Sub(m.since), Grace: s.policy.StopGrace}, true
}

// Asked notes that the stop was asked for; the zero time says that no coordinator heard.
func (j *Judgement) Asked(now time.Time) { j.stop.asked = now }
