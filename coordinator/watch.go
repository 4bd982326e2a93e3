package coordinator

import (
	"context"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/wire"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// Watch streams transitions of allocations.
func (s *allocationService) Watch(ctx context.Context, req *bursarv1.AllocationServiceWatchRequest, stream *connect.ServerStream[bursarv1.AllocationServiceWatchResponse]) error {
	keep, err := allocationFilter(req)
	if err != nil {
		return err
	}
	beat := func(revision uint64) error {
		return stream.Send(&bursarv1.AllocationServiceWatchResponse{Revision: revision})
	}
	return s.loop.Follow(ctx, req.GetAfterRevision(), beat, func(e commit.Event) error {
		if e.Allocation == nil || !keep(e.Allocation) {
			return nil
		}
		return stream.Send(&bursarv1.AllocationServiceWatchResponse{Allocation: wire.AllocationMessage(e.Allocation), Revision: e.Resume, Time: wire.TimeMessage(e.Stamp.Time), Actor: e.Stamp.Actor})
	})
}

func allocationFilter(req *bursarv1.AllocationServiceWatchRequest) (func(*ledger.Allocation) bool, error) {
	filter, err := convert.LabelsFromProto(req.GetLabels())
	if err != nil {
		return nil, err
	}
	var id ledger.ID
	if req.GetId() != "" {
		if id, err = wire.ParseID("id", req.GetId()); err != nil {
			return nil, err
		}
	}
	return watchFilter{labels: filter, hostID: req.GetHostId(), id: id}.matches, nil
}

type watchFilter struct {
	labels label.Set
	hostID string
	id     ledger.ID
}

func (f watchFilter) matches(a *ledger.Allocation) bool {
	return (f.id == 0 || a.ID == f.id) && (f.hostID == "" || a.HostID == f.hostID) && a.Labels.MatchesFilter(f.labels)
}

// Watch streams changes of allocations, hosts and rules.
func (s *clusterService) Watch(ctx context.Context, req *bursarv1.ClusterServiceWatchRequest, stream *connect.ServerStream[bursarv1.ClusterServiceWatchResponse]) error {
	beat := func(revision uint64) error {
		return stream.Send(&bursarv1.ClusterServiceWatchResponse{Revision: revision})
	}
	return s.loop.Follow(ctx, req.GetAfterRevision(), beat, func(e commit.Event) error { return stream.Send(changeMessage(e)) })
}

func changeMessage(e commit.Event) *bursarv1.ClusterServiceWatchResponse {
	m := &bursarv1.ClusterServiceWatchResponse{Revision: e.Resume, Time: wire.TimeMessage(e.Stamp.Time), Actor: e.Stamp.Actor}
	switch {
	case e.Allocation != nil:
		m.Change = &bursarv1.ClusterServiceWatchResponse_Allocation{Allocation: wire.AllocationMessage(e.Allocation)}
	case e.Host != nil:
		m.Change = &bursarv1.ClusterServiceWatchResponse_Host{Host: wire.HostRecordMessage(e.Host)}
	case e.Quota != nil:
		m.Change = &bursarv1.ClusterServiceWatchResponse_Quota{Quota: wire.QuotaMessage(e.Quota)}
	case e.QuotaRemoved != "":
		m.Change = &bursarv1.ClusterServiceWatchResponse_QuotaDeleted{QuotaDeleted: e.QuotaRemoved}
	case e.HostRemoved != "":
		m.Change = &bursarv1.ClusterServiceWatchResponse_HostDeleted{HostDeleted: e.HostRemoved}
	}
	return m
}
