package report

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/clusterid"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// leaveSuperseded makes the next call avoid a coordinator whose leadership is over, though it
// answers.
func (r *Reporter) leaveSuperseded(err error) {
	if _, superseded := errors.AsType[*tracker.EpochError](err); superseded {
		r.elsewhere()
	}
}

// register announces the host if the coordinator does not know it.
func (r *Reporter) register(ctx context.Context) error {
	var request *bursarv1.RegisterRequest
	r.state.Locked(func(t *tracker.Tracker) {
		if t.NeedsRegister() {
			request = t.BuildRegister()
		}
	})
	if request == nil {
		return nil
	}
	request.Uptime, request.IdentityToken = durationpb.New(r.uptime()), r.token
	ctx, info := connect.NewClientContext(ctx)
	response, err := r.hosts.Register(ctx, request)
	if err != nil {
		if connect.CodeOf(err) == connect.CodeAlreadyExists && connect.IsWireError(err) {
			refused := &StrangerError{Err: err}
			r.stranger.Store(refused)
			return refused
		}
		if connect.CodeOf(err) == connect.CodeAborted && connect.IsWireError(err) {
			return fmt.Errorf("%w (%w)", ErrReplaced, err)
		}
		return fmt.Errorf("register: %w", err)
	}
	if err := r.registeredAt(clusterid.Of(info.ResponseHeader()), response); err != nil {
		return fmt.Errorf("register: %w", err)
	}
	r.state.Locked(func(t *tracker.Tracker) { err = t.Registered(response) })
	if err != nil {
		r.leaveSuperseded(err)
		return fmt.Errorf("register: %w", err)
	}
	r.storeToken(response)
	r.stranger.Store(nil)
	r.log.Info("registered", "epoch", response.GetEpoch(), "store_id", response.GetStoreId(), "interval", response.GetInterval().AsDuration())
	return nil
}
