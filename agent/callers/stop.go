package callers

import (
	"cmp"
	"context"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/socket"
	"github.com/bursar/bursar/internal/spelling"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const (
	// maxStopGrace is the longest grace of a stop, and maxStopReason how long a reason may be, in
	// bytes: the rules of the contract, which an agent does not read.
	maxStopGrace  = time.Hour
	maxStopReason = 1024
)

// Stop asks for the end of an engine. The order comes with the next Sync, which is sent at once. If
// no coordinator answers, the agent itself stops an engine of its host.
func (s *service) Stop(ctx context.Context, request *bursarv1.StopRequest) (*bursarv1.StopResponse, error) {
	ctx, cancel := s.bounded(ctx, 0)
	defer cancel()
	if err := s.ownHost(ctx, request.GetId()); err != nil {
		return nil, err
	}
	asking := ctx
	here := s.stoppedHere(socket.CallerOf(ctx), request)
	if here != nil {
		var enough context.CancelFunc
		asking, enough = context.WithTimeout(ctx, readPatience)
		defer enough()
	}
	answer, err := relay(asking, s.API, s.allocations.Stop, request)
	if connect.CodeOf(err) == connect.CodePermissionDenied && s.runsAs(socket.CallerOf(ctx), request.GetId()) {
		answer, err = s.stopInOwnName(asking, request)
	}
	if err != nil && here != nil && ctx.Err() == nil && IsTransient(err) {
		return s.stopHere(ctx, request, here), nil
	}
	if err != nil {
		return nil, err
	}
	s.observe(ctx, answer.msg.GetAllocation(), answer.asOf)
	s.syncDue.NoLaterThan(time.Now())
	return answer.msg, nil
}

// stoppedHere returns the grant of an engine that its caller may stop, and that the agent can stop
// by itself. Nil: only a coordinator can. The coordinator would start an engine with retries again
// that is not ready, because it would not know that somebody has stopped the engine.
func (a *API) stoppedHere(c *socket.Caller, request *bursarv1.StopRequest) *bursarv1.Allocation {
	grant, held := a.held(request.GetId())
	again := grant.GetLaunch().GetRetries() > 0 && grant.GetPhase() != bursarv1.Phase_PHASE_READY
	grace := request.GetGrace().AsDuration()
	if !held || c == nil || c.TCP || !ownsEngine(c, grant) || again || grace < 0 || grace > maxStopGrace {
		return nil
	}
	if _, err := a.engines.Reachable(grant.GetId()); err != nil {
		return nil
	}
	return grant
}

// stopHere stops an engine without a coordinator. Its end, with the reason, is reported as soon as
// one answers. An agent that ends before the grace is over leaves the engine as it is.
func (s *service) stopHere(ctx context.Context, request *bursarv1.StopRequest, grant *bursarv1.Allocation) *bursarv1.StopResponse {
	by := "stopped by " + socket.CallerOf(ctx).Actor.Name + " on its host, while no coordinator answered"
	reason := by
	if request.GetReason() != "" {
		reason = spelling.Cut(request.GetReason(), maxStopReason-len(by)-len(" ()")) + " (" + by + ")"
	}
	s.engines.Stop(s.stopping, &bursarv1.StopOrder{AllocationId: grant.GetId(), Grace: request.GetGrace(), Reason: reason}) //nolint:contextcheck // it goes on after the call
	stopped := proto.CloneOf(grant)
	stopped.Stopping = true
	s.syncDue.NoLaterThan(time.Now())
	return &bursarv1.StopResponse{Allocation: unsealed(stopped)}
}

// runsAs reports whether an engine of this host runs as its caller. Such a caller could end it
// without the agent, too.
func (a *API) runsAs(c *socket.Caller, id string) bool {
	grant, held := a.held(id)
	return held && c != nil && !c.TCP && isProcessOf(c, grant)
}

// stopInOwnName stops an engine for the user that it runs as, whose request it is not: somebody
// elsewhere has started it.
func (a *API) stopInOwnName(ctx context.Context, request *bursarv1.StopRequest) (relayed[bursarv1.StopResponse], error) {
	by := socket.CallerOf(ctx).Actor.Name
	request = proto.CloneOf(request)
	request.Reason = cmp.Or(request.GetReason(), "stopped by "+by)
	a.log.Info("an engine is stopped for the user that it runs as", "allocation_id", request.GetId(), "caller", by)
	return repeat(ctx, a, func(ctx context.Context, request *bursarv1.StopRequest) (*bursarv1.StopResponse, error) {
		return a.allocations.Stop(inOwnName(ctx, a.settings().HostID), request)
	}, request)
}
