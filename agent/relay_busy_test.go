package agent_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/admission"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

// busy is what the coordinator answers that has too much to do, and asks for half a second.
func busy(t *testing.T) error {
	t.Helper()
	refused := connect.NewError(connect.CodeResourceExhausted, errors.New("too many requests of this caller wait"))
	again, err := connect.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: durationpb.New(500 * time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	refused.AddDetail(again)
	return refused
}

// A coordinator that has too much to do is asked again when it said, though heartbeats are
// answered every 100 ms in the meantime. Who has no time left for that is told what the
// coordinator said.
func TestABusyCoordinatorIsAskedAgainWhenItSaid(t *testing.T) {
	s := run(t)
	var asked atomic.Int32
	refused := busy(t)
	s.coordinator.do(func() {
		s.coordinator.busy = func() error { asked.Add(1); return refused }
	})
	ctx, cancel := context.WithTimeout(t.Context(), 1200*time.Millisecond)
	defer cancel()
	_, err := s.Allocate(ctx, request(1))
	if connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("got %v; want RESOURCE_EXHAUSTED", err)
	}
	if n := asked.Load(); n < 1 || n > 3 {
		t.Errorf("asked %d times within 1.2 s; want at most 3", n)
	}
}

// Its refusals count as waiting: a caller that wants to wait for a second is not kept for the
// minute that a call may take.
func TestABusyCoordinatorMakesNoWaitLonger(t *testing.T) {
	s := run(t)
	refused := busy(t)
	s.coordinator.do(func() {
		s.coordinator.busy = func() error { return refused }
	})
	req := request(1)
	req.Wait = durationpb.New(1200 * time.Millisecond)
	delays, began := proc.Delays(t), time.Now()
	_, err := s.Allocate(t.Context(), req)
	if took := time.Since(began); connect.CodeOf(err) != connect.CodeResourceExhausted || took > 5*time.Second+delays() {
		t.Errorf("%v after %s; want RESOURCE_EXHAUSTED within about 1.2 s", err, took)
	}
}

// lostThenBusy asks with that id and a wait. The coordinator takes the request in and loses the
// connection; then it has too much to do.
func lostThenBusy(t *testing.T, s *subject, id string) (taken *bursarv1.Allocation, err error) {
	t.Helper()
	refused := busy(t)
	s.coordinator.do(func() { s.coordinator.hold = true })
	asked := make(chan error, 1)
	go func() {
		req := request(1)
		req.RequestId, req.Wait = id, durationpb.New(1200*time.Millisecond)
		_, err := s.Allocate(t.Context(), req)
		asked <- err
	}()
	s.coordinator.await("it waits", func() bool { return len(s.coordinator.asked) == 1 })
	s.coordinator.do(func() {
		s.coordinator.busy = func() error { return refused }
		taken = s.coordinator.allocations["alloc00000001"]
	})
	s.coordinator.server.CloseClientConnections()
	return taken, <-asked
}

// Only the agent knows the id that it has made up for a request without one.
func TestARequestThatWasLostAndThenRefusedHoldsNothing(t *testing.T) {
	s := run(t)
	taken, err := lostThenBusy(t, s, "")
	if connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("got %v; want RESOURCE_EXHAUSTED", err)
	}
	s.coordinator.awaitState(taken.GetId(), canceled)
}

// A request of the caller's own id is the caller's to repeat or to cancel, so it hears that it was
// not just refused.
func TestARequestThatWasLostAndThenRefusedIsTheCallersWhoKnowsItsID(t *testing.T) {
	s := run(t)
	taken, err := lostThenBusy(t, s, "mine")
	if connect.CodeOf(err) != connect.CodeUnavailable || !client.Undecided(err) || admission.TryAgain(err) != 500*time.Millisecond {
		t.Errorf("got %v; want UNAVAILABLE, to be tried again after half a second", err)
	}
	s.coordinator.do(func() {
		if got := s.coordinator.allocations[taken.GetId()].GetState(); got != waiting {
			t.Errorf("it is %s; want it to wait", got)
		}
		s.coordinator.busy, s.coordinator.hold = nil, false
	})
	req := request(1)
	req.RequestId = "mine"
	if again, err := s.Allocate(t.Context(), req); err != nil || again.GetAllocation().GetId() != taken.GetId() {
		t.Errorf("asked again: %v, %v; want %s", again, err, taken.GetId())
	}
}

// A wait counts from when the agent was asked: a coordinator that has forgotten the request is
// asked for what is left of it.
func TestARequestThatIsAskedAgainWaitsForWhatIsLeft(t *testing.T) {
	s := run(t)
	s.coordinator.do(func() { s.coordinator.hold = true })
	asked := make(chan error, 1)
	go func() {
		req := request(1)
		req.RequestId, req.Wait = "mine", durationpb.New(time.Minute)
		_, err := s.Allocate(t.Context(), req)
		asked <- err
	}()
	s.coordinator.await("it waits", func() bool { return len(s.coordinator.asked) == 1 })
	s.coordinator.server.CloseClientConnections()
	s.coordinator.await("it is asked for again", func() bool { return len(s.coordinator.asked) == 2 })
	s.coordinator.do(func() {
		first, again := s.coordinator.asked[0].GetWait().AsDuration(), s.coordinator.asked[1].GetWait().AsDuration()
		if again >= first || again <= 0 {
			t.Errorf("it waits for %s, and later for %s", first, again)
		}
		s.coordinator.hold = false
	})
}
