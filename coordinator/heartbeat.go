package coordinator

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/coordinator/wire"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// Register announces an agent's host.
func (s *hostService) Register(ctx context.Context, req *bursarv1.RegisterRequest) (*bursarv1.RegisterResponse, error) {
	r, err := wire.NewRegistration(req)
	if err != nil {
		return nil, err
	}
	r.OfAgent = isAgentOf(ctx, req.GetHostId())
	token := newIdentityToken()
	r.Command.NextToken = wire.TokenHash(token)
	c, bounds := &r.Command, s.bounds(req.GetHostId())
	c.Capacity, c.CutCapacity = bounds.CutCapacity(c.Capacity)
	c.Labels, c.CutLabels = bounds.CutLabels(c.Labels)
	if len(c.CutCapacity) > 0 {
		c.Protected = atMost(c.Protected, c.Capacity)
	}
	if err := s.loop.Register(ctx, r); err != nil {
		return nil, err
	}
	if cut := slices.Concat(c.CutCapacity, c.CutLabels); len(cut) > 0 {
		s.loop.Log.Warn("a host announces more than the identity of its agent allows, and is cut to that", "host_id", req.GetHostId(), "cut", shortened(cut))
	}
	if r.Err == nil && len(r.Result.SameMachine) > 0 {
		s.loop.Log.Warn("hosts are on one machine: "+onOneMachine, "host_id", req.GetHostId(), "others", r.Result.SameMachine)
	}
	return wire.RegisterResponse(r, token), nil
}

// newIdentityToken makes the token by which an agent proves at its next registration that it has
// its host's state directory.
func newIdentityToken() []byte {
	token := make([]byte, 32)
	_, _ = rand.Read(token) // never fails
	return token
}

// atMost is a vector in which no quantity is larger than in most.
func atMost(v, most resource.Vector) resource.Vector {
	for dimension, quantity := range v.All() {
		if limit, limited := most.Get(dimension); !limited {
			v = v.Without(dimension)
		} else if quantity > limit {
			v = v.With(dimension, limit)
		}
	}
	return v
}

// mostCut is the number of cut parts of one host that a line of the log names.
const mostCut = 8

func shortened(list []string) []string {
	if len(list) <= mostCut {
		return list
	}
	return append(slices.Clone(list[:mostCut]), fmt.Sprintf("and %d more", len(list)-mostCut))
}

// isAgentOf reports whether a call comes from the agent of a host.
func isAgentOf(ctx context.Context, host string) bool {
	actor := auth.ActorOf(ctx)
	return actor.Effective() == identity.Agent && actor.Host == host
}

// Sync is the heartbeat.
func (s *hostService) Sync(ctx context.Context, req *bursarv1.SyncRequest) (*bursarv1.SyncResponse, error) {
	sealer := s.loop.Sealer()
	r, err := wire.NewReport(req, sealer)
	if err != nil {
		return nil, err
	}
	r.OfAgent = isAgentOf(ctx, req.GetHostId())
	if c := &r.Command; c.Capacity != nil {
		*c.Capacity, c.CutCapacity = s.bounds(req.GetHostId()).CutCapacity(*c.Capacity)
	}
	if err := s.loop.Sync(ctx, r); err != nil {
		return nil, err
	}
	s.seen.note(req.GetHostId(), req.GetOtherClusters())
	return wire.SyncResponse(r, sealer), nil
}
