package policy_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/agent/policy"
)

const (
	gib  = int64(1 << 30)
	tick = 5 * time.Second
)

// start is the time at which every test begins.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// watched is an engine of 4 GiB and 2 cores that is measured every tick.
type watched struct {
	t         *testing.T
	judgement policy.Judgement
	terms     policy.Terms
	now       time.Time
}

func watch(t *testing.T, action policy.Action) *watched {
	t.Helper()
	p := policy.Default()
	p.Action = action
	return &watched{t: t, terms: policy.Terms{Policy: p, MemoryBytes: 4 * gib, CPUMillis: 2000, Tick: tick}, now: start}
}

// use observes one tick with this use.
func (w *watched) use(memory, cpu int64) {
	w.now = w.now.Add(w.terms.Tick)
	w.judgement.Observe(w.terms, policy.Use{Time: w.now, MemoryBytes: memory, CPUMillis: cpu})
}

// atLeast observes one tick in which a part of the engine could not be measured.
func (w *watched) atLeast(memory int64) {
	w.now = w.now.Add(w.terms.Tick)
	w.judgement.Observe(w.terms, policy.Use{Time: w.now, MemoryBytes: memory, AtLeast: true})
}

func (w *watched) want(what string, want ...policy.OverUse) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.judgement.OverUses()); diff != "" {
		w.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func (w *watched) stops() bool {
	_, due := w.judgement.StopDue(w.now)
	return due
}

// memory returns over-use of memory under the policy warn. It began since ticks after the start.
func memory(used, entitled int64, since int) policy.OverUse {
	return policy.OverUse{Dimension: "memory", Used: used, Entitled: entitled, Since: start.Add(time.Duration(since) * tick), Action: policy.Warn}
}

func TestOverUseOfMemoryBeginsAboveTheToleranceAndEndsAtTheEntitlement(t *testing.T) {
	w := watch(t, policy.Warn)
	bound := w.terms.Policy.Bound(4 * gib)
	w.use(bound, 0)
	w.want("at the tolerance")
	w.use(bound+1, 0)
	over := memory(bound+1, 4*gib, 2)
	w.want("above it", over)
	w.use(9*gib, 0)
	w.want("what it used is that of the beginning", over)
	w.use(4*gib+1, 0)
	w.want("within the tolerance again", over)
	w.use(4*gib, 0)
	w.want("at the entitlement")
	w.use(4*gib+1, 0)
	w.want("within the tolerance after that")
	w.use(bound+1, 0)
	w.want("again", memory(bound+1, 4*gib, 7))
}

func TestWhatIsNotLimitedIsNotOverused(t *testing.T) {
	w := watch(t, policy.Kill)
	w.terms.MemoryBytes, w.terms.CPUMillis = 0, 0
	for range 20 {
		w.use(900*gib, 64_000)
		w.want("nothing is limited")
	}
	w.terms.MemoryBytes = gib
	w.use(900*gib, 64_000)
	if len(w.judgement.OverUses()) != 1 {
		t.Error("memory is limited now")
	}
	w.terms.MemoryBytes = 0
	w.use(900*gib, 64_000)
	w.want("and is not any more")
}

func TestUseOfCPUIsThatOfThreeTicks(t *testing.T) {
	w := watch(t, policy.Kill)
	w.use(0, 0) // the start of the covered time is unknown
	w.use(0, 9000)
	w.use(0, 0)
	w.want("two ticks say nothing")
	w.use(0, 0)
	w.want("3000 of 2000 in the mean of three", policy.OverUse{
		Dimension: "cpu", Used: 3000, Entitled: 2000, Since: start.Add(4 * tick), Action: policy.Kill,
	})
	w.use(0, 2000)
	w.want("a mean of 666")
	for range 20 {
		w.use(0, 2200)
		w.want("within the tolerance")
	}
	for range 20 {
		w.use(0, 8000)
	}
	if len(w.judgement.OverUses()) != 1 || w.stops() {
		t.Errorf("nothing is killed for CPU: %v", w.judgement.OverUses())
	}
}

// A measurement that was brought forward does not count as a tick: the window counts time.
func TestBurstOfMeasurementsIsNoThreeTicks(t *testing.T) {
	w := watch(t, policy.Warn)
	w.use(0, 0)
	for range 3 {
		w.use(0, 100)
	}
	w.terms.Tick = 5 * time.Second
	for range 8 {
		w.now = w.now.Add(250 * time.Millisecond)
		w.judgement.Observe(w.terms, policy.Use{Time: w.now, CPUMillis: 8000})
		w.want("two seconds of 15")
	}
	w.use(0, 8000)
	if len(w.judgement.OverUses()) != 1 {
		t.Error("seven seconds of 8 cores are more than 2 in the mean of 17")
	}
}

func TestKillHasAGraceAndIsAskedForOnceAGrace(t *testing.T) {
	w := watch(t, policy.Kill)
	w.use(5*gib, 0)
	over := memory(5*gib, 4*gib, 1)
	over.Action, over.StopTime = policy.Kill, start.Add(tick+30*time.Second)
	for range 5 {
		w.use(6*gib, 0)
		w.want("within the grace", over)
		if w.stops() {
			t.Fatalf("stopped at %s", w.now.Sub(start))
		}
	}
	w.use(6*gib, 0)
	stop, due := w.judgement.StopDue(w.now)
	want := policy.Stop{UsedBytes: 6 * gib, EntitledBytes: 4 * gib, For: 30 * time.Second, Grace: 10 * time.Second}
	if diff := cmp.Diff(want, stop); !due || diff != "" {
		t.Errorf("due %t (-want +got):\n%s", due, diff)
	}
	w.judgement.Asked(w.now)
	for range 5 {
		w.use(6*gib, 0)
		if w.stops() {
			t.Fatal("asked for again within the grace")
		}
	}
	w.use(6*gib, 0)
	if !w.stops() {
		t.Error("not asked for again")
	}
	w.want("the time that was said stays", over)
	w.judgement.Asked(time.Time{}) // no coordinator heard
	if !w.stops() {
		t.Error("what nobody heard is not asked for again")
	}
}

func TestBreakBeginsTheGraceAnew(t *testing.T) {
	w := watch(t, policy.Kill)
	for range 5 {
		for range 6 {
			w.use(5*gib, 0)
			if w.stops() {
				t.Fatalf("stopped at %s", w.now.Sub(start))
			}
		}
		w.use(4*gib, 0)
	}
	w.want("it ended")
	if w.stops() {
		t.Error("stopped when it was over")
	}
}

func TestAskedIsOfOneOverUse(t *testing.T) {
	w := watch(t, policy.Kill)
	w.terms.Policy.Grace = 10 * time.Second
	for range 3 {
		w.use(5*gib, 0)
	}
	w.judgement.Asked(w.now.Add(time.Hour))
	w.use(4*gib, 0)
	for range 3 {
		w.use(5*gib, 0)
	}
	if !w.stops() {
		t.Error("the over-use after that is not stopped")
	}
}

func TestPolicyThatComesLaterHasItsWholeGrace(t *testing.T) {
	w := watch(t, policy.Warn)
	for range 100 {
		w.use(5*gib, 0)
	}
	w.terms.Policy.Action = policy.Kill
	for range 6 {
		w.use(5*gib, 0)
		if w.stops() {
			t.Fatal("stopped for what was allowed")
		}
	}
	over := memory(5*gib, 4*gib, 1)
	over.Action, over.StopTime = policy.Kill, start.Add(101*tick+30*time.Second)
	w.want("since it began", over)
	w.use(5*gib, 0)
	if !w.stops() {
		t.Error("not stopped after the grace")
	}
	w.terms.Policy.Action = policy.Observe
	w.use(5*gib, 0)
	over.Action, over.StopTime = policy.Observe, time.Time{}
	w.want("observed only", over)
	if w.stops() {
		t.Error("stopped under observe")
	}
}

func TestResizeChangesWhatIsOverUse(t *testing.T) {
	w := watch(t, policy.Warn)
	w.use(3*gib, 0)
	w.terms.MemoryBytes = 2 * gib
	w.use(3*gib, 0)
	w.want("lowered below its use", memory(3*gib, 2*gib, 2))
	w.terms.MemoryBytes = 2*gib + 1
	w.use(4*gib, 0)
	w.want("raised by a byte, it goes on", memory(4*gib, 2*gib+1, 2))
	w.terms.MemoryBytes = 4*gib - 1
	w.use(4*gib, 0)
	w.want("raised until it is within the tolerance")
	w.terms.MemoryBytes = 3 * gib
	w.use(4*gib, 0)
	w.want("lowered", memory(4*gib, 3*gib, 5))
	w.terms.MemoryBytes = 3*gib - 1
	w.use(4*gib, 0)
	w.want("lowered more, since then still", memory(4*gib, 3*gib-1, 5))
	w.terms.MemoryBytes = 4 * gib
	w.use(4*gib, 0)
	w.want("raised to its use")
}

func TestWhatIsNotMeasuredIsNotHeldAgainstAnEngine(t *testing.T) {
	w := watch(t, policy.Kill)
	w.use(5*gib, 0)
	over := w.judgement.OverUses()[0]
	for range 6 {
		w.now = w.now.Add(tick)
		w.judgement.Missed(w.terms, w.now)
		w.want("not measured for a while", over)
		if w.stops() {
			t.Fatal("stopped without a measurement")
		}
	}
	w.judgement.Missed(w.terms, w.now.Add(1))
	w.want("not measured for longer")
	w.use(5*gib, 0)
	over.Since, over.StopTime = w.now, w.now.Add(30*time.Second)
	w.want("it begins again", over)
	w.now = w.now.Add(time.Hour) // and without anybody saying that something is missing
	w.use(5*gib, 0)
	over.Since, over.StopTime = w.now, w.now.Add(30*time.Second)
	w.want("again", over)
	if w.stops() {
		t.Error("stopped after a gap")
	}
}

func TestPartOfAMeasurementShowsOverUseAndNeverItsEnd(t *testing.T) {
	w := watch(t, policy.Kill)
	w.atLeast(4 * gib)
	w.want("nothing shown")
	w.atLeast(5 * gib)
	over := memory(5*gib, 4*gib, 2)
	over.Action, over.StopTime = policy.Kill, start.Add(2*tick+30*time.Second)
	w.want("that is more already", over)
	for range 6 {
		w.atLeast(gib)
		w.want("that may be all or not", over)
		if w.stops() {
			t.Fatal("stopped without a measurement that shows it")
		}
	}
	w.atLeast(gib)
	w.want("not known for too long")
}

func TestUseOfCPUIsNotKnownAcrossAGap(t *testing.T) {
	for name, gap := range map[string]func(w *watched){
		"not measured": func(w *watched) { w.now = w.now.Add(31 * time.Second) },
		"in part":      func(w *watched) { w.atLeast(0) },
	} {
		w := watch(t, policy.Warn)
		for range 3 {
			w.use(0, 0)
		}
		w.use(0, 6000)
		gap(w)
		w.use(0, 6000)
		w.use(0, 6000)
		w.want(name)
		w.use(0, 6000)
		w.use(0, 6000)
		if len(w.judgement.OverUses()) != 1 {
			t.Errorf("%s: not noticed afterwards", name)
		}
	}
}
