package policy_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/agent/policy"
)

// sample is one observation: the terms and the use.
type sample struct {
	terms policy.Terms
	use   policy.Use
}

// exceeds reports whether the sample shows memory above the entitlement.
func (s sample) exceeds() bool {
	return s.terms.MemoryBytes > 0 && s.use.MemoryBytes > s.terms.MemoryBytes
}

func drawSample(t *rapid.T, now time.Time) sample {
	s := sample{
		terms: policy.Terms{
			Policy: policy.Policy{
				Action:    rapid.SampledFrom([]policy.Action{policy.Kill, policy.Kill, policy.Kill, policy.Warn}).Draw(t, "action"),
				Tolerance: rapid.SampledFrom([]int64{0, 100, 1000}).Draw(t, "tolerance"),
				Grace:     rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Second, 30 * time.Second}).Draw(t, "grace"),
			},
			MemoryBytes: rapid.SampledFrom([]int64{0, 90, 100, 100, 100}).Draw(t, "entitled"),
			CPUMillis:   rapid.SampledFrom([]int64{0, 1000, 1000}).Draw(t, "entitled cpu"),
			Tick:        tick,
		},
		use: policy.Use{
			Time:        now,
			MemoryBytes: rapid.SampledFrom([]int64{0, 50, 90, 100, 105, 111, 150, 150, 150, 300}).Draw(t, "memory"),
			CPUMillis:   rapid.SampledFrom([]int64{0, 1000, 1200, 4000}).Draw(t, "cpu"),
			AtLeast:     rapid.IntRange(0, 9).Draw(t, "partial") == 0,
		},
	}
	return s
}

// The test compares each judgement with all samples before it. Reported over-use of memory began
// with a sample above the tolerance, and every whole sample since then, the last included, exceeds
// the entitlement. A stop is due only if over-use has lasted for a grace under the policy kill,
// without a break or a gap, up to a sample that shows it.
func TestNoEngineIsFlaggedOrStoppedWithoutCause(t *testing.T) {
	flagged, stopped := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		var j policy.Judgement
		var past []sample
		now := start
		for range rapid.IntRange(1, 80).Draw(t, "samples") {
			now = now.Add(rapid.SampledFrom([]time.Duration{
				250 * time.Millisecond, tick, tick, tick, tick, tick, 30 * time.Second, 31 * time.Second,
			}).Draw(t, "gap"))
			s := drawSample(t, now)
			if rapid.IntRange(0, 19).Draw(t, "missed") == 0 {
				j.Missed(s.terms, now)
				checkFlag(t, &j, past)
				continue
			}
			past = append(past, s)
			j.Observe(s.terms, s.use)
			if checkFlag(t, &j, past) {
				flagged++
			}
			if _, due := j.StopDue(now); due {
				stopped++
				checkStop(t, &j, past)
				j.Asked(now)
				if _, again := j.StopDue(now); again {
					t.Fatal("due right after it was asked for")
				}
			}
		}
	})
	if flagged == 0 || stopped == 0 {
		t.Errorf("%d flagged and %d stopped: nothing was tried", flagged, stopped)
	}
}

func checkFlag(t *rapid.T, j *policy.Judgement, past []sample) bool {
	list := j.OverUses()
	at := slices.IndexFunc(list, func(o policy.OverUse) bool { return o.Dimension == "memory" })
	if at < 0 {
		return false
	}
	since := list[at].Since
	first := slices.IndexFunc(past, func(s sample) bool { return s.use.Time.Equal(since) })
	if first < 0 {
		t.Fatalf("since %s, when there was no sample", since.Sub(start))
	}
	if s := past[first]; s.use.MemoryBytes <= s.terms.Policy.Bound(s.terms.MemoryBytes) {
		t.Fatalf("it began with %+v", s)
	}
	for _, s := range past[first:] {
		if !s.exceeds() && (!s.use.AtLeast || s.terms.MemoryBytes == 0) {
			t.Fatalf("it goes on after %+v", s)
		}
	}
	return true
}

func checkStop(t *rapid.T, j *policy.Judgement, past []sample) {
	o := j.OverUses()[0]
	last := past[len(past)-1]
	if !last.exceeds() || o.StopTime.IsZero() || last.use.Time.Before(o.StopTime) {
		t.Fatalf("due with %+v, before %s", last, o.StopTime.Sub(start))
	}
	from := last.use.Time.Add(-last.terms.Policy.Grace)
	if o.Since.After(from) {
		t.Fatalf("due %s after it began", last.use.Time.Sub(o.Since))
	}
	before := o.Since
	for _, s := range past {
		switch {
		case s.use.Time.Before(o.Since):
			continue
		case s.use.Time.After(from) && s.terms.Policy.Action != policy.Kill:
			t.Fatalf("within the grace another policy counted: %+v", s)
		case s.exceeds():
			if s.use.Time.Sub(before) > 30*time.Second {
				t.Fatalf("there is a gap of %s", s.use.Time.Sub(before))
			}
			before = s.use.Time
		}
	}
}

// Over-use ends with the first whole sample within the entitlement, whatever the earlier samples
// showed.
func TestOverUseClears(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var j policy.Judgement
		now := start
		for range rapid.IntRange(0, 40).Draw(t, "samples") {
			now = now.Add(tick)
			s := drawSample(t, now)
			j.Observe(s.terms, s.use)
		}
		quiet := drawSample(t, now)
		quiet.use.MemoryBytes, quiet.use.CPUMillis, quiet.use.AtLeast = 90, 1000, false
		quiet.terms.MemoryBytes = 90
		for range 4 { // after four ticks the CPU mean is within the entitlement, too
			now = now.Add(tick)
			quiet.use.Time = now
			j.Observe(quiet.terms, quiet.use)
			for _, o := range j.OverUses() {
				if o.Dimension == "memory" {
					t.Fatalf("not cleared: %+v", o)
				}
			}
		}
		if list := j.OverUses(); len(list) != 0 {
			t.Fatalf("not cleared: %+v", list)
		}
	})
}
