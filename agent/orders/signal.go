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
	// signalPatience is how long the answer to a signal may take. The coordinator waits no longer.
	signalPatience = 10 * time.Second
	// signalsAtOnce is how many answers may be under way. An order beyond them is not carried out:
	// its coordinator gives many, or takes no answers.
	signalsAtOnce = 64
	// maxProblem is how long the reason may be, in bytes, why no signal was sent.
	maxProblem = 1024
)

// signal carries out an order once, and answers it. Nothing repeats one.
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
