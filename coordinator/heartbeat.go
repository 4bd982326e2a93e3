package coordinator

import (
	"context"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/coordinator/wire"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Register announces an agent's host.
func (s *hostService) Register(ctx context.Context, req *bursarv1.RegisterRequest) (*bursarv1.RegisterResponse, error) {
	r, err := wire.NewRegistration(req)
	if err != nil {
		return nil, err
	}
	r.OfAgent = isAgentOf(ctx, req.GetHostId())
	if err := s.loop.Register(ctx, r); err != nil {
		return nil, err
	}
	if r.Err == nil && len(r.Result.SameMachine) > 0 {
		s.loop.Log.Warn("hosts are on one machine: "+onOneMachine, "host_id", req.GetHostId(), "others", r.Result.SameMachine)
	}
	return wire.RegisterResponse(r), nil
}

// isAgentOf reports whether a call comes from the agent of a host.
func isAgentOf(ctx context.Context, host string) bool {
	actor := auth.ActorOf(ctx)
	return actor.Effective() == identity.Agent && actor.Host == host
}

// Sync is the heartbeat.
func (s *hostService) Sync(ctx context.Context, req *bursarv1.SyncRequest) (*bursarv1.SyncResponse, error) {
	r, err := wire.NewReport(req)
	if err != nil {
		return nil, err
	}
	r.OfAgent = isAgentOf(ctx, req.GetHostId())
	if err := s.loop.Sync(ctx, r); err != nil {
		return nil, err
	}
	s.seen.note(req.GetHostId(), req.GetOtherClusters())
	return wire.SyncResponse(r), nil
}
