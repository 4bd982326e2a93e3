package agent_test

import (
	"context"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// waited is the answer of a Wait, which comes later.
type waited struct {
	*bursarv1.WaitResponse

	err error
}

func (s *subject) wait(q *bursarv1.WaitRequest) <-chan waited {
	done := make(chan waited, 1)
	go func() {
		r, err := s.engines().Wait(s.t.Context(), q)
		done <- waited{r, err}
	}()
	return done
}

func answered(t *testing.T, done <-chan waited) waited {
	t.Helper()
	select {
	case w := <-done:
		return w
	case <-time.After(20 * time.Second):
		t.Fatal("no answer to Wait within 20s")
		return waited{}
	}
}

func TestWaitAnswersWhenAnEngineHasEnded(t *testing.T) {
	s := launcher(t)
	id := s.mustLaunch("sleep 0.3; exit 7").GetAllocation().GetId()
	w := answered(t, s.wait(&bursarv1.WaitRequest{Id: id}))
	if a := w.GetAllocation(); w.err != nil || a.GetState() != released || a.GetExitStatus().GetCode() != 7 || w.GetTimedOut() {
		t.Errorf("%v, %v", w, w.err)
	}
	if w := answered(t, s.wait(&bursarv1.WaitRequest{Id: id})); w.err != nil || w.GetAllocation().GetExitStatus().GetCode() != 7 {
		t.Errorf("of one that has ended: %v, %v", w, w.err)
	}
}

// If no coordinator answers, the agent says how it has seen the end.
func TestWaitAnswersWithoutACoordinator(t *testing.T) {
	s := launcher(t)
	id := s.mustLaunch("sleep 0.5; echo last words >&2; exit 8").GetAllocation().GetId()
	s.coordinator.goAway()
	w := answered(t, s.wait(&bursarv1.WaitRequest{Id: id}))
	if a := w.GetAllocation(); w.err != nil || a.GetState() != released || a.GetExitStatus().GetCode() != 8 || a.GetErrorOutput() != "last words\n" && a.GetErrorOutput() != "last words" {
		t.Errorf("%v, %v", w, w.err)
	}
}

func TestWaitForReadinessAndForATime(t *testing.T) {
	s := run(t)
	a := s.allocate(10)
	w := answered(t, s.wait(&bursarv1.WaitRequest{Id: a.GetId(), Ready: true, Timeout: durationpb.New(10 * time.Millisecond)}))
	if w.err != nil || !w.GetTimedOut() || w.GetAllocation().GetState() != reserved {
		t.Errorf("a reservation: %v, %v", w, w.err)
	}
	ready := s.wait(&bursarv1.WaitRequest{Id: a.GetId(), Ready: true})
	if _, err := s.confirm(a.GetId(), process(t, "sleep 1000").Process.Pid); err != nil {
		t.Fatal(err)
	}
	if w := answered(t, ready); w.err != nil || w.GetAllocation().GetState() != active || w.GetTimedOut() {
		t.Errorf("without a readiness it is ready once it runs: %v, %v", w, w.err)
	}
	w = answered(t, s.wait(&bursarv1.WaitRequest{Id: a.GetId(), Timeout: durationpb.New(0)}))
	if w.err != nil || !w.GetTimedOut() || w.GetAllocation().GetState() != active {
		t.Errorf("at once: %v, %v", w, w.err)
	}
	if w := answered(t, s.wait(&bursarv1.WaitRequest{Id: "of nobody"})); connect.CodeOf(w.err) != connect.CodeNotFound {
		t.Errorf("of nobody: %v, %v", w, w.err)
	}
	if w := answered(t, s.wait(&bursarv1.WaitRequest{})); connect.CodeOf(w.err) != connect.CodeInvalidArgument {
		t.Errorf("of none: %v, %v", w, w.err)
	}
}

// Callers that have gone, and an agent that ends, leave no call behind: goleak looks.
func TestWaitEndsWithItsCallerAndItsAgent(t *testing.T) {
	s := run(t)
	a, _ := s.engine(10, "sleep 1000")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.engines().Wait(ctx, &bursarv1.WaitRequest{Id: a.GetId()}); err == nil {
		t.Error("a call whose caller has gone was answered")
	}
	done := s.wait(&bursarv1.WaitRequest{Id: a.GetId()})
	s.ticks(1)
	s.cancel()
	if w := answered(t, done); connect.CodeOf(w.err) != connect.CodeUnavailable {
		t.Errorf("the agent ends: %v, %v", w, w.err)
	}
}

// Without a coordinator the agent lists its host's allocations, and tells the caller's own from
// the others.
func TestOwnAllocationsWithoutACoordinator(t *testing.T) {
	s := run(t)
	s.engine(10, "sleep 1000") // user alice's
	s.coordinator.goAway()
	list := func(q *bursarv1.AllocationServiceListRequest) int {
		t.Helper()
		res, err := s.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return len(res.GetAllocations())
	}
	if all, mine := list(&bursarv1.AllocationServiceListRequest{}), list(&bursarv1.AllocationServiceListRequest{Mine: true}); all != 1 || mine != 0 {
		t.Errorf("%d allocations, %d of them of this process's user: want 1 and none", all, mine)
	}
	for name, q := range map[string]*bursarv1.AllocationServiceListRequest{
		"a phase": {Phases: []bursarv1.Phase{bursarv1.Phase_PHASE_READY}}, "a name": {Name: "nightly"},
	} {
		if n := list(q); n != 0 {
			t.Errorf("by %s: %d, want none", name, n)
		}
	}
	s.coordinator.comeBack()
}
