package agent

import (
	"errors"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/report"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestOverUseIsReportedAtOnceLoggedOnceAndShown(t *testing.T) {
	for action, test := range map[string]struct {
		policy bursarv1.OverUsePolicy
		warns  int
	}{
		"observe": {bursarv1.OverUsePolicy_OVER_USE_POLICY_OBSERVE, 0},
		"warn":    {bursarv1.OverUsePolicy_OVER_USE_POLICY_WARN, 1},
		"limit":   {bursarv1.OverUsePolicy_OVER_USE_POLICY_LIMIT, 1},
		"other":   {bursarv1.OverUsePolicy_OVER_USE_POLICY_WARN, 1},
	} {
		t.Run(action, func(t *testing.T) {
			overuse(t, newFakeCoordinator(action), func(b *bench) {
				b.machine.uses(4*gib + gib/10) // of the tolerance a part
				b.settle(20)
				if len(b.reports) != 0 {
					t.Errorf("within the tolerance: %v", b.overUse)
				}
				began := time.Now()
				b.machine.uses(5 * gib)
				b.settle(20)
				over := &bursarv1.OverUse{Dimension: "memory", Used: 5 * gib, Entitled: 4 * gib, Policy: test.policy, Since: b.overUse[0].GetSince()}
				if !sameOverUse(b.overUse, []*bursarv1.OverUse{over}) {
					t.Errorf("reported: %v", b.overUse)
				}
				if late := b.reports[0].Sub(began); late > DefaultTick+2*report.Gap {
					t.Errorf("reported %s after it began: heartbeats are a minute apart", late)
				}
				if got := b.held(); !sameOverUse(got.GetOverUse(), b.overUse) || got.GetEntitled().GetMemoryBytes() != 4*gib {
					t.Errorf("shown: %v", got)
				}
				if got := b.logged("level=WARN msg=\"an engine uses more"); got != test.warns {
					t.Errorf("%d warnings, want %d", got, test.warns)
				}
				b.machine.uses(4 * gib)
				began = time.Now()
				b.settle(20)
				if len(b.overUse) != 0 || len(b.reports) != 2 || b.reports[1].Sub(began) > DefaultTick+2*report.Gap {
					t.Errorf("reported after it ended: %v, at %v", b.overUse, b.reports)
				}
				if got := b.held().GetOverUse(); len(got) != 0 {
					t.Errorf("shown after it ended: %v", got)
				}
				if got := b.logged("level=INFO msg=\"an engine keeps to"); got != test.warns {
					t.Errorf("%d lines about its end, want %d", got, test.warns)
				}
				if len(b.asked) != 0 {
					t.Error("a stop was asked for")
				}
			})
		})
	}
}

func TestEngineInOverUseIsStoppedThroughTheCoordinatorAfterTheGrace(t *testing.T) {
	overuse(t, newFakeCoordinator("kill"), func(b *bench) {
		b.machine.uses(5 * gib)
		b.settle(1)
		began := time.Now()
		stop := b.overUse[0].GetStopTime().AsTime()
		if late := stop.Sub(began); late > 30*time.Second || late <= 25*time.Second {
			t.Errorf("it is said to be stopped in %s", late)
		}
		b.machine.uses(5*gib + gib/5)
		b.settle(5)
		if len(b.asked) != 0 {
			t.Fatalf("asked for before the grace: %v", b.asked)
		}
		b.settle(3)
		if len(b.asked) != 1 || b.asked[0].Before(stop) || b.asked[0].After(stop.Add(DefaultTick)) {
			t.Fatalf("asked for at %v, want once, at %v or a tick later", b.asked, stop)
		}
		if b.request.GetId() != "e" || b.request.GetGrace().AsDuration() != 10*time.Second ||
			b.request.GetReason() != "uses 5.2GiB of memory, is entitled to 4GiB, for 30s (policy kill)" {
			t.Errorf("asked for %v", b.request)
		}
		if !b.ordered || b.logged("an engine is stopped") == 0 {
			t.Error("the order has not come back and been followed")
		}
		b.settle(30)
		if len(b.asked) != 1 {
			t.Errorf("asked for %d times, though it is stopping already", len(b.asked))
		}
		b.machine.set(func() { b.machine.gone = true })
		b.settle(2)
		if got := b.ended.GetReason(); got != "stopped: "+b.request.GetReason() {
			t.Errorf("it ended for %q", got)
		}
	})
}

func TestEngineThatGivesBackWithinTheGraceGoesOn(t *testing.T) {
	overuse(t, newFakeCoordinator("kill"), func(b *bench) {
		for range 20 {
			b.machine.uses(6 * gib)
			b.settle(5)
			b.machine.uses(4 * gib)
			b.settle(2)
		}
		if len(b.asked) != 0 || b.ended != nil || len(b.reports) != 40 {
			t.Errorf("%d stops asked for, %d reports: %v", len(b.asked), len(b.reports), b.ended)
		}
	})
}

func TestEntitlementThatGrowsEndsOverUse(t *testing.T) {
	overuse(t, newFakeCoordinator("kill"), func(b *bench) {
		b.machine.uses(6 * gib)
		b.settle(5)
		b.do(func() {
			b.put(func(a *bursarv1.Allocation) { a.Entitled = &bursarv1.Resource{MemoryBytes: new(6 * gib)} })
		})
		b.agent.syncDue.NoLaterThan(time.Now())
		b.settle(20)
		if len(b.asked) != 0 || len(b.overUse) != 0 {
			t.Errorf("%d stops asked for: %v", len(b.asked), b.overUse)
		}
	})
}

func TestNothingIsStoppedWhileNoCoordinatorAnswers(t *testing.T) {
	overuse(t, newFakeCoordinator("kill"), func(b *bench) {
		b.do(func() { b.away = true })
		b.agent.syncDue.NoLaterThan(time.Now())
		b.settle(1)
		b.machine.uses(6 * gib)
		b.settle(720) // an hour
		if len(b.asked) != 0 || b.logged("an engine is stopped") != 0 {
			t.Errorf("asked for %d times", len(b.asked))
		}
		b.do(func() { b.away = false })
		back := time.Now()
		b.settle(3)
		if len(b.asked) != 1 || b.asked[0].Sub(back) > 2*DefaultTick {
			t.Errorf("asked for at %v, want once, soon after %v", b.asked, back)
		}
	})
}

func TestStopThatNobodyHeardIsAskedForWithTheNextMeasurement(t *testing.T) {
	overuse(t, newFakeCoordinator("kill"), func(b *bench) {
		b.do(func() { b.refuses = errAway })
		b.machine.uses(6 * gib)
		b.settle(10)
		if n := len(b.asked); n < 3 || n > 5 {
			t.Errorf("asked for %d times in 15 s", n)
		}
		b.do(func() { b.refuses = nil })
		b.settle(2)
		if !b.ordered {
			t.Error("not stopped in the end")
		}
	})
}

func TestStopThatIsRefusedIsAskedForOnceAGrace(t *testing.T) {
	d := newFakeCoordinator("kill")
	d.refuses = connect.NewError(connect.CodePermissionDenied, errors.New("no"))
	overuse(t, d, func(b *bench) {
		b.machine.uses(6 * gib)
		b.settle(1 + 6*10 + 1)
		if n := len(b.asked); n != 10 {
			t.Errorf("asked for %d times in 10 graces", n)
		}
		for i := 1; i < len(b.asked); i++ {
			if gap := b.asked[i].Sub(b.asked[i-1]); gap < 30*time.Second {
				t.Errorf("asked for again after %s", gap)
			}
		}
		if b.logged("level=ERROR") != len(b.asked) {
			t.Error("a refusal is not logged")
		}
	})
}

// An order of the coordinator that is lost with a backup does not protect the engine for ever.
func TestStopIsAskedForAgainWhereTheCoordinatorHasForgotten(t *testing.T) {
	overuse(t, newFakeCoordinator("kill"), func(b *bench) {
		b.machine.uses(6 * gib)
		b.settle(8)
		b.do(func() {
			b.order = nil
			b.put(func(a *bursarv1.Allocation) { a.Stopping = false })
		})
		b.agent.syncDue.NoLaterThan(time.Now())
		b.settle(8)
		if len(b.asked) != 2 {
			t.Errorf("asked for %d times, want again after a grace", len(b.asked))
		}
	})
}

func TestWhatCannotBeMeasuredIsNotStopped(t *testing.T) {
	overuse(t, newFakeCoordinator("kill"), func(b *bench) {
		b.machine.uses(6 * gib)
		b.settle(4)
		b.machine.set(func() { b.machine.used, b.machine.err = 0, errors.New("no such file") })
		b.settle(4)
		if len(b.overUse) != 1 || len(b.asked) != 0 {
			t.Errorf("while it is not known: %v, %d stops asked for", b.overUse, len(b.asked))
		}
		b.settle(20)
		if len(b.overUse) != 0 || len(b.asked) != 0 {
			t.Errorf("when it has not been known for long: %v, %d stops asked for", b.overUse, len(b.asked))
		}
		b.machine.set(func() { b.machine.used, b.machine.err = 6*gib, nil })
		b.settle(6)
		if len(b.overUse) != 1 || len(b.asked) != 0 {
			t.Errorf("it begins again: %v, %d stops asked for", b.overUse, len(b.asked))
		}
		b.settle(2)
		if len(b.asked) != 1 {
			t.Errorf("%d stops asked for", len(b.asked))
		}
	})
}

// What it knows of over-use ends with an agent: the next one begins from the start, and stops
// nothing sooner for it.
func TestRestartedAgentBeginsTheGraceAnew(t *testing.T) {
	d := newFakeCoordinator("kill")
	overuse(t, d, func(b *bench) {
		b.machine.uses(6 * gib)
		b.settle(6)
	})
	d.engine = proto.CloneOf(d.engine)
	d.engine.OverUse = d.overUse // as the ledger has it
	overuse(t, d, func(b *bench) {
		b.machine.uses(6 * gib)
		b.settle(5)
		if len(b.asked) != 0 {
			t.Errorf("asked for at %v", b.asked)
		}
		if ahead := time.Until(b.overUse[0].GetStopTime().AsTime()); len(b.reports) == 0 || ahead <= 0 {
			t.Errorf("reported: %v", b.overUse)
		}
		b.settle(3)
		if len(b.asked) != 1 {
			t.Errorf("asked for %d times", len(b.asked))
		}
	})
}
