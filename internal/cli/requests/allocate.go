package requests

import (
	"context"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/servers"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Allocate waits if the request does, and shows that. It cancels the request if somebody
// interrupts it, or if the answer was lost and nobody can ask again.
func Allocate(ctx context.Context, c *failure.Reporter, cl *client.Client, req *bursarv1.AllocateRequest) (*bursarv1.Allocation, error) {
	ctx, interrupts := cmdline.CatchInterrupts(ctx)
	defer interrupts.Stop()
	minted := req.GetRequestId() == ""
	if minted {
		req.RequestId = client.NewRequestID()
	}
	stop := ShowWait(ctx, c, cl, req)
	res, err := cl.Allocations().Allocate(ctx, req)
	stop()
	if err == nil {
		return res.GetAllocation(), nil
	}
	reason := "its answer was lost"
	code, interrupted := interrupts.Code()
	if interrupted {
		reason, err = "interrupted", &failure.ExitError{Code: code}
	}
	if interrupted || minted && client.Undecided(err) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), servers.GiveUpTime)
		defer cancel()
		_, _ = cl.Allocations().Cancel(ctx, &bursarv1.CancelRequest{RequestId: req.GetRequestId(), Reason: reason})
	}
	return nil, err
}
