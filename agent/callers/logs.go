package callers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/agent/output"
	"github.com/bursar/bursar/agent/socket"
	"github.com/bursar/bursar/internal/access"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// rightsTime bounds how long a coordinator may take to say whose an engine is.
const rightsTime = 10 * time.Second

// Logs reads the output of engines; *logs.Logs is one, and documents its methods.
type Logs interface {
	Find(id string) (output.Entry, error)
	Send(ctx context.Context, caller string, request *bursarv1.LogsRequest, send func(*bursarv1.LogsResponse) error) error
}

// Logs sends the output of an engine of this host to a caller on it, without a coordinator as far
// as that is possible.
func (s engineService) Logs(ctx context.Context, request *bursarv1.LogsRequest, answers *connect.ServerStream[bursarv1.LogsResponse]) (err error) {
	a := s.API
	c := socket.CallerOf(ctx)
	defer func() {
		a.auditDenied(c, "logs", request.GetId(), err)
		a.outputRead(err)
	}()
	if c == nil || c.TCP {
		return connect.NewError(connect.CodePermissionDenied, errors.New("output is read over the agent's socket alone"))
	}
	if err := a.isOfItsHost(); err != nil {
		return err
	}
	ended, err := a.admit(c.Counted())
	if err != nil {
		return err
	}
	defer ended()
	if err := a.mayReadOutput(ctx, c, request.GetId()); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.stopping, func() { //nolint:contextcheck // two contexts end the call
		cancel(connect.NewError(connect.CodeUnavailable, errors.New("the agent is shutting down: read on from the next byte")))
	})()
	return a.logs.Send(ctx, c.Counted().ID, request, answers.Send) //nolint:wrapcheck // it has its code
}

// mayReadOutput refuses callers that may not see an engine's output: others than root, the account
// that the engine ran as, which owns the files, and those that may see its error_output.
func (a *API) mayReadOutput(ctx context.Context, c *socket.Caller, id string) error {
	entry, missing := a.logs.Find(id)
	if c.UID == 0 || missing == nil && c.UID == entry.UID {
		return missing //nolint:wrapcheck // it has its code
	}
	ctx, cancel := context.WithTimeout(ctx, rightsTime)
	defer cancel()
	answer, err := relay(ctx, a, a.allocations.Get, &bursarv1.AllocationServiceGetRequest{Id: id})
	if err != nil {
		return err
	}
	allocation := answer.msg.GetAllocation()
	switch on := allocation.GetHostId(); {
	case on == "":
		return connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("allocation %s has no host yet: want an engine that runs, or has run, on this host", id))
	case on != a.settings().HostID:
		return a.elsewhere(id, on)
	}
	if user := convert.RightsOf(allocation); !access.MaySeeOutput(c.Actor, user) {
		return connect.NewError(connect.CodePermissionDenied, fmt.Errorf(
			"%s may not see the output of allocation %s, which is of user %q: want that user, the account that its engine ran as, a trusted caller that may act for the user, or root", c.Actor.Name, id, user))
	}
	return missing //nolint:wrapcheck // as above
}
