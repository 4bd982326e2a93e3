package coordinator

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/wire"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

const (
	// keepAlive is how often a watch on which nothing happens says that it is still there, and how far it has seen.
	keepAlive = 15 * time.Second
	// watchBatch is how many changes are taken from the feed at a time.
	watchBatch = 64
)

// watchers are what the streams of both services share.
type watchers struct {
	writer *writer
	feed   *feed
	meter  *meter
}

// follow sends what changes after a revision until the caller goes away or falls too far behind. It begins with beat, which
// sends a revision alone, and repeats it where nothing else was sent for a while. send may skip a change.
func (w *watchers) follow(ctx context.Context, after uint64, beat func(revision uint64) error, send func(event) error) error {
	// A look through the loop: a coordinator that does not lead must not say what the latest revision is.
	if err := w.writer.do(ctx, func(*ledger.Ledger, ledger.Instant) {}); err != nil {
		return err
	}
	place, revision, err := w.feed.read(after)
	if err != nil {
		return err
	}
	defer place.leave()
	w.meter.watchers.Inc()
	defer w.meter.watchers.Dec()
	if err := beat(revision); err != nil {
		return err
	}
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	events := make([]event, 0, watchBatch)
	for {
		batch, wait, caughtUp, err := place.poll(events)
		if err != nil {
			if errors.Is(err, errFellBehind) {
				w.meter.cutOff.Inc()
			}
			return err
		}
		if ctx.Err() != nil { // where changes follow each other closely nothing else looks
			return ctx.Err()
		}
		for _, e := range batch {
			if err := send(e); err != nil {
				return err
			}
		}
		if len(batch) > 0 {
			clear(batch)
			continue
		}
		revision = max(revision, caughtUp)
		select {
		case <-wait:
		case <-tick.C:
			if err := beat(revision); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Watch streams transitions of allocations.
func (s *allocationService) Watch(ctx context.Context, req *bursarv1.AllocationServiceWatchRequest, stream *connect.ServerStream[bursarv1.AllocationServiceWatchResponse]) error {
	keep, err := allocationFilter(req)
	if err != nil {
		return err
	}
	beat := func(revision uint64) error {
		return stream.Send(&bursarv1.AllocationServiceWatchResponse{Revision: revision})
	}
	return s.watch.follow(ctx, req.GetAfterRevision(), beat, func(e event) error {
		if e.allocation == nil || !keep(e.allocation) {
			return nil
		}
		return stream.Send(&bursarv1.AllocationServiceWatchResponse{Allocation: wire.AllocationMessage(e.allocation), Revision: e.resume})
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
	return s.watch.follow(ctx, req.GetAfterRevision(), beat, func(e event) error { return stream.Send(changeMessage(e)) })
}

func changeMessage(e event) *bursarv1.ClusterServiceWatchResponse {
	m := &bursarv1.ClusterServiceWatchResponse{Revision: e.resume}
	switch {
	case e.allocation != nil:
		m.Change = &bursarv1.ClusterServiceWatchResponse_Allocation{Allocation: wire.AllocationMessage(e.allocation)}
	case e.host != nil:
		m.Change = &bursarv1.ClusterServiceWatchResponse_Host{Host: wire.HostRecordMessage(e.host)}
	case e.quota != nil:
		m.Change = &bursarv1.ClusterServiceWatchResponse_Quota{Quota: wire.QuotaMessage(e.quota)}
	case e.quotaGone != "":
		m.Change = &bursarv1.ClusterServiceWatchResponse_QuotaDeleted{QuotaDeleted: e.quotaGone}
	case e.hostRemoved != "":
		m.Change = &bursarv1.ClusterServiceWatchResponse_HostDeleted{HostDeleted: e.hostRemoved}
	}
	return m
}
