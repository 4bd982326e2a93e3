package callers

import (
	"context"

	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// hold has the kernel keep the process of a Confirm to its entitlement, if the request asks for
// that, before the process is confirmed.
func (a *API) hold(ctx context.Context, request *bursarv1.ConfirmRequest) error {
	if !request.GetLimit() {
		return nil
	}
	request.Limit = false
	var grant *bursarv1.Allocation
	a.state.Locked(func(t *tracker.Tracker) { grant, _ = t.Get(request.GetId()) })
	if grant == nil {
		answer, err := relay(ctx, a, a.allocations.Get, &bursarv1.AllocationServiceGetRequest{Id: request.GetId()})
		if err != nil {
			return err
		}
		grant = answer.msg.GetAllocation()
	}
	return a.engines.Hold(ctx, request, grant) //nolint:wrapcheck // it says what it is about
}
