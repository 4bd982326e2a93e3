package agent

import (
	"context"
	"errors"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/contain"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// canLimit refuses a request for a limit that cannot hold on this host.
func (a *Agent) canLimit(ctx context.Context, limit bool) error {
	if !limit {
		return nil
	}
	return limitError(a.cgroups.CanLimit(ctx))
}

// limitError is the answer to a request for a limit that does not hold; nil stays nil.
func limitError(err error) error {
	if err == nil {
		return nil
	}
	return connect.NewError(connect.CodeFailedPrecondition, err)
}

// keepLimit has the process of a Confirm keep the limit that it was confirmed with before.
func (a *Agent) keepLimit(request *bursarv1.ConfirmRequest) {
	process := request.GetProcess()
	a.locked(func(t *tracker.Tracker) {
		grant, _ := t.Get(request.GetId())
		p := grant.GetProcess()
		process.Limit = p.GetLimit() && p.GetPid() == process.GetPid() && p.GetStartTime() == process.GetStartTime()
	})
}

// hold has the kernel keep the process of a Confirm to its entitlement, if the request asks for
// that, before the process is confirmed. It completes the request for the coordinator, which knows
// nothing of limits.
func (a *Agent) hold(ctx context.Context, request *bursarv1.ConfirmRequest) error {
	if !request.GetLimit() {
		return nil
	}
	request.Limit = false
	process := proto.CloneOf(request.GetProcess()) // the tracker has the other one
	var grant *bursarv1.Allocation
	a.locked(func(t *tracker.Tracker) { grant, _ = t.Get(request.GetId()) })
	if grant == nil {
		answer, err := relay(ctx, a, a.deps.Allocations.Get, &bursarv1.AllocationServiceGetRequest{Id: request.GetId()})
		if err != nil {
			return err
		}
		grant = answer.msg.GetAllocation()
	}
	entitled := grant.GetEntitled()
	if request.GetEntitled() != nil {
		entitled = proto.CloneOf(entitled)
		proto.Merge(entitled, request.GetEntitled())
	}
	process.Limit = true
	path, err := a.cgroups.Hold(ctx, request.GetId(), grant.GetLabels(), process, entitled)
	if err != nil {
		return limitError(err)
	}
	if path != "" {
		process.Cgroup = path
	}
	request.Process = process
	a.locked(func(t *tracker.Tracker) { t.Show(request.GetId(), process) })
	return nil
}

// limited is an allocation as a caller sees whose engine has a limit: only this agent knows that.
func (a *Agent) limited(allocation *bursarv1.Allocation) *bursarv1.Allocation {
	limit := false
	a.locked(func(t *tracker.Tracker) {
		grant, _ := t.Get(allocation.GetId())
		limit = grant.GetProcess().GetLimit() && grant.GetProcess().GetPid() == allocation.GetProcess().GetPid()
	})
	if !limit {
		return allocation
	}
	allocation = proto.CloneOf(allocation)
	allocation.Process.Limit = true
	return allocation
}

// isLimitError reports whether a launch failed because its limit does not hold.
func isLimitError(err error) bool {
	_, is := errors.AsType[*contain.NoLimitError](err)
	return is
}
