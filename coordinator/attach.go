package coordinator

import (
	"cmp"
	"context"
	"fmt"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/wire"
	"github.com/bursar/bursar/internal/access"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Attach streams orders to a host's agent.
func (s *hostService) Attach(ctx context.Context, req *bursarv1.AttachRequest, answers *connect.ServerStream[bursarv1.AttachResponse]) error {
	if err := isOwnHost(ctx, req.GetHostId(), "take the orders"); err != nil {
		return err
	}
	// Through the loop: a coordinator that does not lead has no orders.
	if err := s.isNewest(ctx, req.GetHostId(), req.GetIncarnation()); err != nil {
		return err
	}
	auth.Parked(ctx)
	epoch := s.loop.Epoch()
	return s.hub.Attach(ctx, req, commit.KeepAlive, func(order *bursarv1.AttachResponse) error {
		// A stream may have opened just after those of the last leadership were cut.
		if !s.loop.Leading() || s.loop.Epoch() != epoch {
			return core.ErrNotLeading
		}
		if order.GetOrder() == nil { // a keep-alive
			order.Epoch = epoch
		}
		return answers.Send(order)
	})
}

// Answer takes an agent's result of an order.
func (s *hostService) Answer(ctx context.Context, req *bursarv1.AnswerRequest) (*bursarv1.AnswerResponse, error) {
	if err := isOwnHost(ctx, req.GetHostId(), "answer the orders"); err != nil {
		return nil, err
	}
	id, err := wire.ParseID("allocation_id", req.GetAllocationId())
	if err != nil {
		return nil, err
	}
	answer := &bursarv1.AnswerResponse{}
	switch result := req.GetResult().(type) {
	case *bursarv1.AnswerRequest_Started:
		process := wire.ProcessFrom(result.Started.GetProcess())
		process.Verified, process.Launched = true, true
		var a ledger.Allocation
		a, err = s.launcher.Started(ctx, ledger.LaunchStarted{
			HostID: req.GetHostId(), Incarnation: req.GetIncarnation(), ID: id, GrantRevision: req.GetGrantRevision(), Process: process, Address: result.Started.GetAddress(),
		})
		answer.Allocation = wire.AllocationMessage(&a)
		answer.Allocation.Seal = s.loop.Sealer().Seal(&a)
	case *bursarv1.AnswerRequest_Begun:
		err = s.launcher.Begun(ctx, ledger.LaunchBegun{
			HostID: req.GetHostId(), Incarnation: req.GetIncarnation(), ID: id, LogDirectory: wire.CleanText(result.Begun.GetLogDirectory()),
		})
	case *bursarv1.AnswerRequest_Failed:
		err = s.launcher.Failed(ctx, ledger.LaunchFailed{
			HostID: req.GetHostId(), Incarnation: req.GetIncarnation(), ID: id, GrantRevision: req.GetGrantRevision(),
			Reason: cmp.Or(wire.CleanText(result.Failed.GetReason()), "its agent gives no reason"), ErrorOutput: wire.CleanLines(result.Failed.GetErrorOutput()),
			Fault:   wire.FaultFrom(result.Failed.GetFault()),
			Process: wire.ProcessFrom(result.Failed.GetProcess()),
		})
	case *bursarv1.AnswerRequest_Signaled:
		if err = s.isNewest(ctx, req.GetHostId(), req.GetIncarnation()); err == nil {
			s.signals.Answered(req.GetHostId(), id.String(), req.GetNumber(), wire.CleanText(result.Signaled.GetProblem()))
		}
	default:
		err = wire.FieldError("result", "", "started, begun, failed or signaled")
	}
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// isNewest refuses an agent of an unknown host, and an agent that a newer one has replaced.
func (s *hostService) isNewest(ctx context.Context, host string, incarnation uint64) error {
	_, err := commit.Decide(ctx, s.loop, func(l *ledger.Ledger, _ ledger.Instant) (struct{}, error) {
		return struct{}{}, l.MayAttach(host, incarnation)
	})
	return err
}

// isOwnHost refuses an agent that speaks for a host other than its own.
func isOwnHost(ctx context.Context, host, what string) error {
	actor := auth.ActorOf(ctx)
	if actor.Effective() == identity.Agent && actor.Host != host {
		return &access.DeniedError{
			Actor: actor.Name, What: fmt.Sprintf("%s of host %s: its identity is for host %q", what, host, actor.Host),
			Want: fmt.Sprintf("hostId: %s, or a token (certificate) of the agent of %s", actor.Host, host),
		}
	}
	return nil
}
