package engine

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/bursar/bursar/agent/hoststate"
	"github.com/bursar/bursar/agent/loops"
	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/statefile"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/osuser"
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

// withEngines are the engines of a host on which nothing is measured.
func withEngines(t *testing.T, engines ...*bursarv1.Allocation) *Engines {
	t.Helper()
	return looked(t, Options{}, tracker.Snapshot{BootID: "boot-1", Engines: engines})
}

// looked are the engines that a tracker begins with. Of the options a test gives what it needs.
func looked(t *testing.T, o Options, known tracker.Snapshot) *Engines {
	t.Helper()
	var running sync.WaitGroup
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.State = hoststate.New(o.Log, func() string { return "h1" }, func(time.Duration, error) {})
	dir, err := statefile.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o.State.Open(dir, "boot-1", 1)
	o.State.Begin(tracker.New(time.Now(), tracker.Host{ID: "h1", BootID: "boot-1"}, known))
	o.MeasureDue, o.SyncDue, o.Background = loops.NewWakeup(time.Now()), loops.NewWakeup(time.Now()), running.Go
	if o.Output == nil {
		o.Output = unread{}
	}
	s := New(o)
	t.Cleanup(func() {
		s.Unwatch()
		running.Wait()
		if err := dir.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// known is the tracker of engines that no other goroutine uses.
func known(s *Engines) (known *tracker.Tracker) {
	s.state.Locked(func(t *tracker.Tracker) { known = t })
	return known
}

func TestEngineIsEnteredOnce(t *testing.T) {
	var s set
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
	s := withEngines(t, anEngine("a", 1), anEngine("b", 2))
	handle := handleOfThis(t, 1)
	e, other := s.set.enter("a"), s.set.enter("b")
	e.handle, e.stop = handle, &stopping{reason: "by order"}
	e.partial, e.doubts, e.orphaned, e.unrecorded = "in part", 1, true, time.Now()
	s.set.removeEnded(known(s))
	if s.set.find("a") != e || isClosed(t, handle) {
		t.Fatal("an engine that runs is not known any more")
	}
	known(s).Released("a")
	if got := s.endReason("a"); got != "stopped: by order" {
		t.Errorf("until the next measurement the reason of its end is known: %q", got)
	}
	s.set.removeEnded(known(s))
	if s.set.find("a") != nil || !isClosed(t, handle) {
		t.Error("an engine stays when it has ended")
	}
	if got := s.endReason("a"); got != "" {
		t.Errorf("of an engine that is not known any more: %q", got)
	}
	if *s.set.enter("a") != (engine{}) {
		t.Error("the next engine of the allocation begins with what the last one has left")
	}
	if s.set.find("b") != other {
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
		s := withEngines(t)
		e := s.set.enter("a")
		end := begin(e)
		s.set.removeEnded(known(s))
		if s.set.enter("a") != e || !e.busy() {
			t.Errorf("%s: that may be begun a second time", name)
		}
		end()
		s.set.removeEnded(known(s))
		if s.set.find("a") != nil {
			t.Errorf("%s: an engine stays when that is over", name)
		}
	}
}

func TestOrderThatIsUnderWayIsNotBegunAgain(t *testing.T) {
	s := withEngines(t, anEngine("a", 1))
	underWay := &stopping{reason: "first", underway: true}
	s.set.enter("a").stop = underWay
	// it would log, and there is no log
	s.Stop(t.Context(), &bursarv1.StopOrder{AllocationId: "a", Reason: "second"})
	if s.set.find("a").stop != underWay {
		t.Error("the second order has taken the place of the first")
	}
	s.Stop(t.Context(), &bursarv1.StopOrder{AllocationId: "of no engine"})
	if s.set.find("of no engine") != nil {
		t.Error("an order for what is no engine here has entered one")
	}
}

func TestHandleIsThatOfTheProcessThatTheTrackerLists(t *testing.T) {
	s := withEngines(t, anEngine("a", 1))
	watch := func(started uint64, by func()) *process.Handle {
		t.Helper()
		s.opener = process.NewOpener(thisProcess(started), "/proc")
		by()
		e := s.set.find("a")
		if e == nil || e.handle == nil || e.handle.Ref().StartTime != started {
			t.Fatalf("the process that started at %d is not watched: %+v", started, e)
		}
		return e.handle
	}
	all := func() { s.Watch(t.Context()) }
	one := func() { s.WatchEngine(t.Context(), "a") }
	first := watch(1, all)
	if watch(1, one) != first || watch(1, all) != first {
		t.Error("a process that is watched is taken hold of again")
	}
	for _, next := range []struct {
		started uint64
		by      func()
	}{{2, all}, {3, one}} {
		before := s.set.find("a").handle
		if known(s).Observe(time.Now(), anEngine("a", next.started), 0) != tracker.Held {
			t.Fatal("another process of the allocation is not taken up")
		}
		if watch(next.started, next.by); !isClosed(t, before) {
			t.Error("the handle of the process before stays open")
		}
	}
	last := s.set.find("a").handle
	known(s).Released("a")
	one()
	if e := s.set.find("a"); e == nil || e.handle != nil || !isClosed(t, last) {
		t.Error("the process of an engine that has ended is watched")
	}
	s.watchProcess(t.Context(), "a", anEngine("a", 3).Process)
	if e := s.set.find("a"); e.handle != nil {
		t.Error("a process is watched whose engine has ended while it was opened")
	}
}

// unread is the output of engines that nobody reads.
type unread struct{}

func (unread) Begins(string, string, osuser.User) {}
func (unread) Ended(string)                       {}
