package orders

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// attachedHub has an agent of host h1 that takes orders as take does.
func attachedHub(t *testing.T, take func(*bursarv1.AttachResponse) error) *Hub {
	t.Helper()
	h := New()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Attach(ctx, &bursarv1.AttachRequest{HostId: "h1", Incarnation: 1}, time.Hour, take) }()
	synctest.Wait()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return h
}

func TestASignalWithoutAnAnswerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := attachedHub(t, func(*bursarv1.AttachResponse) error { return nil })
		s := NewSignals(h)
		began := time.Now()
		err := s.Send(t.Context(), "h1", 1, &bursarv1.SignalOrder{})
		if _, late := errors.AsType[*UnansweredError](err); !late || time.Since(began) != signalPatience {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if len(s.pending) != 0 {
			t.Error("it is still remembered")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Send(ctx, "h1", 1, &bursarv1.SignalOrder{}); !errors.Is(err, context.Canceled) {
			t.Errorf("its caller has gone: %v", err)
		}
	})
}

// Nothing that many callers can make many of ends the stream of an agent, or takes the place of
// launches.
func TestOffersLeaveRoomForLaunches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		h := attachedHub(t, func(order *bursarv1.AttachResponse) error {
			if order.GetOrder() != nil {
				<-stuck
			}
			return nil
		})
		defer close(stuck)
		stop := &bursarv1.AttachResponse{Order: &bursarv1.AttachResponse_Stop{Stop: &bursarv1.StopOrder{AllocationId: "a"}}}
		taken := 0
		for range 10 * queued {
			if h.Offer("h1", stop) == nil {
				taken++
			}
			synctest.Wait()
		}
		if taken == 0 || taken > queued/2+1 {
			t.Errorf("%d were taken", taken)
		}
		err := NewSignals(h).Send(t.Context(), "h1", 1, &bursarv1.SignalOrder{})
		if busy, ok := errors.AsType[*NotAttachedError](err); !ok || !busy.Busy {
			t.Errorf("a signal: %v", err)
		}
		if !h.Send("h1", stop) || !h.IsAttached("h1") {
			t.Error("there is no room for a launch")
		}
		if h.Offer("h2", stop) == nil {
			t.Error("a host without an agent takes an order")
		}
	})
}

func TestOnlyItsHostAnswersForASignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *Signals
		answer := func(order *bursarv1.AttachResponse) error {
			if number := order.GetSignal().GetNumber(); number != 0 {
				s.Answered("h2", "a1", number, "")
				s.Answered("h1", "a2", number, "")
				s.Answered("h1", "a1", number+1, "")
				s.Answered("h1", "a1", number, "no such process")
				s.Answered("h1", "a1", number, "")
			}
			return nil
		}
		s = NewSignals(attachedHub(t, answer))
		err := s.Send(t.Context(), "h1", 1, &bursarv1.SignalOrder{AllocationId: "a1"})
		if problem, ok := errors.AsType[*ProblemError](err); !ok || problem.Problem != "no such process" {
			t.Errorf("%v", err)
		}
	})
}
