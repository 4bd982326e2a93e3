package callers

import (
	"cmp"
	"context"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/socket"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Stop asks for the end of an engine. The order comes with the next Sync, which is sent at once.
func (s *service) Stop(ctx context.Context, request *bursarv1.StopRequest) (*bursarv1.StopResponse, error) {
	ctx, cancel := s.bounded(ctx, 0)
	defer cancel()
	if err := s.ownHost(ctx, request.GetId()); err != nil {
		return nil, err
	}
	answer, err := relay(ctx, s.API, s.allocations.Stop, request)
	if connect.CodeOf(err) == connect.CodePermissionDenied && s.runsAs(socket.CallerOf(ctx), request.GetId()) {
		answer, err = s.stopInOwnName(ctx, request)
	}
	if err != nil {
		return nil, err
	}
	s.observe(ctx, answer.msg.GetAllocation(), answer.asOf)
	s.syncDue.NoLaterThan(time.Now())
	return answer.msg, nil
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
