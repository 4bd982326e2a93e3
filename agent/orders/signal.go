package orders

import (
	"context"
	"errors"
	"time"

	"github.com/bursar/bursar/agent/engine"
	"github.com/bursar/bursar/internal/spelling"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const (
	// signalPatience bounds the answer to a signal. The coordinator waits no longer.
	signalPatience = 10 * time.Second
	// signalsAtOnce is the most answers in flight. Further orders are dropped: the coordinator
	// sends too many, or accepts no answers.
	signalsAtOnce = 64
	// maxProblem bounds the reason why no signal was sent, in bytes.
	maxProblem = 1024
)

// signal carries out an order once, and answers it. No order is repeated.
func (t *Taker) signal(ctx context.Context, order *bursarv1.SignalOrder) {
	select {
	case t.signals <- struct{}{}:
	default:
		t.Log.Warn("a signal was not sent: too many answers to coordinators are under way", "allocation_id", order.GetAllocationId())
		return
	}
	defer func() { <-t.signals }()
	ctx, cancel := context.WithTimeout(ctx, signalPatience)
	defer cancel()
	done := &bursarv1.SignalDone{}
	if err := t.Engines.Signal(ctx, order.GetAllocationId(), order.GetSignal(), "coordinator: "+order.GetCaller()); err != nil {
		done.Problem = err.Error()
		if refused, ok := errors.AsType[*engine.SignalError](err); ok {
			done.Problem = refused.Why
		}
		t.Log.Warn("a signal was not sent", "audit", true, "order", "signal", "allocation_id", order.GetAllocationId(), "signal", order.GetSignal().String(), "caller", order.GetCaller(), "error", err)
	}
	done.Problem = spelling.Cut(done.Problem, maxProblem)
	t.tell(ctx, &bursarv1.AnswerRequest{
		HostId: t.HostID(), Incarnation: t.State.Incarnation(), AllocationId: order.GetAllocationId(), Number: order.GetNumber(),
		Result: &bursarv1.AnswerRequest_Signaled{Signaled: done},
	})
}
