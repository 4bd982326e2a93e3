package agent

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers/host"
)

// thisProcess says that every pid is a process that started at this time.
type thisProcess uint64

func (p thisProcess) Identify(pid int32) (host.Identity, error) {
	return host.Identity{PID: pid, StartTime: uint64(p)}, nil
}

// handleOfThis returns a handle of the test's own process, as if it had started at that time.
func handleOfThis(t *testing.T, started uint64) *process.Handle {
	t.Helper()
	handle, err := process.NewOpener(thisProcess(started), "/proc").Open(process.Ref{PID: int32(os.Getpid()), StartTime: started})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(handle.Close)
	return handle
}

// isClosed reports whether a handle was closed. That of a process which goes on can only be waited
// for in vain.
func isClosed(t *testing.T, handle *process.Handle) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err := handle.Wait(ctx)
	if err == nil {
		t.Fatal("this process is said to have ended")
	}
	return !errors.Is(err, context.DeadlineExceeded)
}

// anEngine is an active allocation whose engine is the test's own process, as if it had started at
// that time.
func anEngine(id string, started uint64) *bursarv1.Allocation {
	return &bursarv1.Allocation{
		Id: id, HostId: "h1", State: bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE, Revision: started,
		Process: &bursarv1.Process{Pid: int32(os.Getpid()), StartTime: started, BootId: "boot-1", Uid: new(uint32(0))},
	}
}

// withEngines is an agent that knows of these engines and runs no loop.
func withEngines(t *testing.T, engines ...*bursarv1.Allocation) *Agent {
	t.Helper()
	a := &Agent{
		tracker:    tracker.New(time.Now(), tracker.Host{ID: "h1", BootID: "boot-1"}, tracker.Snapshot{BootID: "boot-1", Engines: engines}),
		measureDue: newWakeup(time.Now()),
	}
	t.Cleanup(func() {
		a.unwatch()
		a.running.Wait()
	})
	return a
}

func TestEngineIsEnteredOnce(t *testing.T) {
	var s engines
	if s.find("a") != nil {
		t.Error("there is an engine, and nobody has entered it")
	}
	e := s.enter("a")
	if e == nil || s.enter("a") != e || s.find("a") != e {
		t.Error("there are two engines of one allocation")
	}
	if s.enter("b") == e {
		t.Error("two allocations have one engine")
	}
}

func TestEngineIsRemovedWithAllThatIsKnownOfItOnceItHasEnded(t *testing.T) {
	a := withEngines(t, anEngine("a", 1), anEngine("b", 2))
	handle := handleOfThis(t, 1)
	e, other := a.engines.enter("a"), a.engines.enter("b")
	e.handle, e.stop = handle, &stopping{reason: "by order"}
	e.partial, e.doubts, e.orphaned, e.unrecorded = "in part", 1, true, time.Now()
	a.engines.removeEnded(a.tracker)
	if a.engines.find("a") != e || isClosed(t, handle) {
		t.Fatal("an engine that runs is not known any more")
	}
	a.tracker.Released("a")
	if got := a.endReason("a"); got != "stopped: by order" {
		t.Errorf("until the next measurement the reason of its end is known: %q", got)
	}
	a.engines.removeEnded(a.tracker)
	if a.engines.find("a") != nil || !isClosed(t, handle) {
		t.Error("an engine stays when it has ended")
	}
	if got := a.endReason("a"); got != "" {
		t.Errorf("of an engine that is not known any more: %q", got)
	}
	if *a.engines.enter("a") != (engine{}) {
		t.Error("the next engine of the allocation begins with what the last one has left")
	}
	if a.engines.find("b") != other {
		t.Error("an engine that runs is removed with another one")
	}
}

// The tracker may list it again, and the order comes again with every Sync.
func TestEngineStaysUntilWhatIsUnderWayForItIsOver(t *testing.T) {
	for name, begin := range map[string]func(e *engine) (end func()){
		"it is stopped": func(e *engine) func() {
			e.stop = &stopping{underway: true}
			return func() { e.stop.underway = false }
		},
		"a coordinator is asked to stop it": func(e *engine) func() {
			e.asking = true
			return func() { e.asking = false }
		},
	} {
		a := withEngines(t)
		e := a.engines.enter("a")
		end := begin(e)
		a.engines.removeEnded(a.tracker)
		if a.engines.enter("a") != e || !e.busy() {
			t.Errorf("%s: that may be begun a second time", name)
		}
		end()
		a.engines.removeEnded(a.tracker)
		if a.engines.find("a") != nil {
			t.Errorf("%s: an engine stays when that is over", name)
		}
	}
}

func TestOrderThatIsUnderWayIsNotBegunAgain(t *testing.T) {
	a := withEngines(t, anEngine("a", 1))
	underWay := &stopping{reason: "first", underway: true}
	a.engines.enter("a").stop = underWay
	// it would log, and there is no log
	a.stop(t.Context(), &bursarv1.StopOrder{AllocationId: "a", Reason: "second"})
	if a.engines.find("a").stop != underWay {
		t.Error("the second order has taken the place of the first")
	}
	a.stop(t.Context(), &bursarv1.StopOrder{AllocationId: "of no engine"})
	if a.engines.find("of no engine") != nil {
		t.Error("an order for what is no engine here has entered one")
	}
}

func TestHandleIsThatOfTheProcessThatTheTrackerLists(t *testing.T) {
	a := withEngines(t, anEngine("a", 1))
	watch := func(started uint64, by func()) *process.Handle {
		t.Helper()
		a.opener = process.NewOpener(thisProcess(started), "/proc")
		by()
		e := a.engines.find("a")
		if e == nil || e.handle == nil || e.handle.Ref().StartTime != started {
			t.Fatalf("the process that started at %d is not watched: %+v", started, e)
		}
		return e.handle
	}
	all := func() { a.watch(t.Context()) }
	one := func() { a.watchEngine(t.Context(), "a") }
	first := watch(1, all)
	if watch(1, one) != first || watch(1, all) != first {
		t.Error("a process that is watched is taken hold of again")
	}
	for _, next := range []struct {
		started uint64
		by      func()
	}{{2, all}, {3, one}} {
		before := a.engines.find("a").handle
		if a.tracker.Observe(time.Now(), anEngine("a", next.started), 0) != tracker.Held {
			t.Fatal("another process of the allocation is not taken up")
		}
		if watch(next.started, next.by); !isClosed(t, before) {
			t.Error("the handle of the process before stays open")
		}
	}
	last := a.engines.find("a").handle
	a.tracker.Released("a")
	one()
	if e := a.engines.find("a"); e == nil || e.handle != nil || !isClosed(t, last) {
		t.Error("the process of an engine that has ended is watched")
	}
	a.watchProcess(t.Context(), "a", anEngine("a", 3).Process)
	if e := a.engines.find("a"); e.handle != nil {
		t.Error("a process is watched whose engine has ended while it was opened")
	}
}
