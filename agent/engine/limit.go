package engine

import (
	"context"
	"errors"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/contain"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// CanLimit refuses a request for a limit that cannot hold on this host.
func (s *Engines) CanLimit(ctx context.Context, limit bool) error {
	if !limit {
		return nil
	}
	return limitError(s.cgroups.CanLimit(ctx))
}

// limitError is the answer to a request for a limit that does not hold; nil stays nil.
func limitError(err error) error {
	if err == nil {
		return nil
	}
	return connect.NewError(connect.CodeFailedPrecondition, err)
}

// KeepLimit has the process of a Confirm keep the limit that it was confirmed with before.
func (s *Engines) KeepLimit(request *bursarv1.ConfirmRequest) {
	process := request.GetProcess()
	s.state.Locked(func(t *tracker.Tracker) {
		grant, _ := t.Get(request.GetId())
		p := grant.GetProcess()
		process.Limit = p.GetLimit() && p.GetPid() == process.GetPid() && p.GetStartTime() == process.GetStartTime()
	})
}

// Hold has the kernel keep the process of a Confirm to the entitlement of its grant, before it is
// confirmed. It completes the request for the coordinator, which knows nothing of limits.
func (s *Engines) Hold(ctx context.Context, request *bursarv1.ConfirmRequest, grant *bursarv1.Allocation) error {
	process := proto.CloneOf(request.GetProcess()) // the tracker has the other one
	entitled := grant.GetEntitled()
	if request.GetEntitled() != nil {
		entitled = proto.CloneOf(entitled)
		proto.Merge(entitled, request.GetEntitled())
	}
	process.Limit = true
	path, err := s.cgroups.Hold(ctx, request.GetId(), grant.GetLabels(), process, entitled)
	if err != nil {
		return limitError(err)
	}
	if path != "" {
		process.Cgroup = path
	}
	request.Process = process
	s.state.Locked(func(t *tracker.Tracker) { t.Show(request.GetId(), process) })
	return nil
}

// Limited is an allocation as a caller sees whose engine has a limit: only this agent knows that.
func (s *Engines) Limited(allocation *bursarv1.Allocation) *bursarv1.Allocation {
	limit := false
	s.state.Locked(func(t *tracker.Tracker) {
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
