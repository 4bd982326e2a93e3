package callers

import (
	"context"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// AskStop asks a coordinator to stop an engine in the agent's own name, which it may for any user's
// engine on its own host. heard is false if no coordinator has looked at the request.
func AskStop(ctx context.Context, allocations bursarv1connect.AllocationServiceClient, hostID string, request *bursarv1.StopRequest) (heard bool, err error) {
	_, err = allocations.Stop(inOwnName(ctx, hostID), request)
	return err == nil || !IsTransient(err), err //nolint:wrapcheck // the caller tells of it
}

// inOwnName says that the agent itself makes the call. No user of a machine has a name with a colon
// in it.
func inOwnName(ctx context.Context, hostID string) context.Context {
	actor := identity.Actor{Name: "agent:policy@" + hostID, Anyone: true, Role: identity.Submitter, Host: hostID}
	ctx, info := connect.NewClientContext(ctx)
	info.RequestHeader().Set(identity.Header, actor.Encode())
	return ctx
}
