package callers

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/refusal"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// service is AllocationService for this host: every call is passed on to a coordinator in the name
// of its caller.
type service struct {
	*API

	// stopping ends when the agent is about to: calls that wait for a grant are then answered.
	stopping context.Context //nolint:containedctx // lives as long as the server
}

var _ bursarv1connect.AllocationServiceHandler = (*service)(nil)

// Cancel ends a request that waits or a reservation.
func (s *service) Cancel(ctx context.Context, request *bursarv1.CancelRequest) (*bursarv1.CancelResponse, error) {
	ctx, cancel := s.bounded(ctx, 0)
	defer cancel()
	answer, err := relay(ctx, s.API, s.allocations.Cancel, request)
	if err != nil {
		return nil, err
	}
	s.observe(ctx, answer.msg.GetAllocation(), answer.asOf)
	return answer.msg, nil
}

// Renew extends a reservation or a lease.
func (s *service) Renew(ctx context.Context, request *bursarv1.RenewRequest) (*bursarv1.RenewResponse, error) {
	ctx, cancel := s.bounded(ctx, 0)
	defer cancel()
	if err := s.ownHost(ctx, request.GetId()); err != nil {
		return nil, err
	}
	answer, err := relay(ctx, s.API, s.allocations.Renew, request)
	if err != nil {
		return nil, err
	}
	s.observe(ctx, answer.msg.GetAllocation(), answer.asOf)
	return &bursarv1.RenewResponse{Allocation: unsealed(answer.msg.GetAllocation())}, nil
}

// Resize changes an entitlement.
func (s *service) Resize(ctx context.Context, request *bursarv1.ResizeRequest) (*bursarv1.ResizeResponse, error) {
	ctx, cancel := s.bounded(ctx, 0)
	defer cancel()
	if err := s.ownHost(ctx, request.GetId()); err != nil {
		return nil, err
	}
	answer, err := relay(ctx, s.API, s.allocations.Resize, request)
	if err != nil {
		return nil, err
	}
	s.observe(ctx, answer.msg.GetAllocation(), answer.asOf)
	s.state.ScheduleSave()
	return &bursarv1.ResizeResponse{Allocation: unsealed(answer.msg.GetAllocation())}, nil
}

// Amend changes a request that waits for this host.
func (s *service) Amend(ctx context.Context, request *bursarv1.AmendRequest) (*bursarv1.AmendResponse, error) {
	ctx, cancel := s.bounded(ctx, 0)
	defer cancel()
	if request.GetId() != "" {
		if err := s.ownHost(ctx, request.GetId()); err != nil {
			return nil, err
		}
	}
	answer, err := relay(ctx, s.API, s.allocations.Amend, request)
	if err != nil {
		return nil, err
	}
	s.observe(ctx, answer.msg.GetAllocation(), answer.asOf)
	return answer.msg, nil
}

// Explain says how a request would fare on this host, or why one waits.
func (s *service) Explain(ctx context.Context, request *bursarv1.ExplainRequest) (*bursarv1.ExplainResponse, error) {
	ctx, cancel := s.bounded(ctx, 0)
	defer cancel()
	if request.GetRequest() != nil {
		host := s.settings().HostID
		if id := request.GetRequest().GetHost().GetId(); id != "" && id != host {
			return nil, refusal.Invalid("request.host.id", id, host+", or nothing: this is its agent")
		}
		request = proto.CloneOf(request)
		if request.Request.Host == nil {
			request.Request.Host = &bursarv1.HostWishes{}
		}
		request.Request.Host.Id = host
	}
	answer, err := relay(ctx, s.API, s.allocations.Explain, request)
	if err != nil {
		return nil, err
	}
	return answer.msg, nil
}
