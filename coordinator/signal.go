package coordinator

import (
	"context"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/wire"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Signal has the agent of an engine's host send a signal to the engine's main process.
func (s *engineService) Signal(ctx context.Context, req *bursarv1.SignalRequest) (*bursarv1.SignalResponse, error) {
	actor, id, err := s.allocations.target(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	a, last, err := onLastTry(ctx, s.allocations, id, func(l *ledger.Ledger, now ledger.Instant, id ledger.ID) (ledger.Allocation, error) {
		return l.Signaled(now, actor, id)
	})
	if err != nil {
		return nil, ofLastTry(id, last, s.allocations.describeEnded(ctx, last, err, "an engine that runs"))
	}
	auth.Parked(ctx)
	defer auth.Resumed(ctx)
	order := &bursarv1.SignalOrder{AllocationId: last.String(), Signal: req.GetSignal(), Caller: wire.CleanText(actor.Name)}
	if err := s.awaitHost(ctx, a.HostID); err != nil {
		return nil, ofLastTry(id, last, err)
	}
	if err := s.signals.Send(ctx, a.HostID, s.allocations.loop.Epoch(), order); err != nil {
		return nil, ofLastTry(id, last, err)
	}
	if last != id {
		return &bursarv1.SignalResponse{Id: last.String()}, nil
	}
	return &bursarv1.SignalResponse{}, nil
}
