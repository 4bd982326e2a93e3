package agent_test

import (
	"context"
	"errors"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// hosts is its HostService, which shares the names of methods with the other.
type hosts struct {
	bursarv1connect.UnimplementedHostServiceHandler

	coordinator *coordinator
}

// Register announces the host.
func (h hosts) Register(_ context.Context, q *bursarv1.RegisterRequest) (*bursarv1.RegisterResponse, error) {
	c := h.coordinator
	r := &bursarv1.RegisterResponse{StoreId: c.storeID, Interval: durationpb.New(c.interval)}
	var err error
	c.do(func() {
		if c.stranger {
			err = connect.NewError(connect.CodeAlreadyExists, errors.New("host h1 has another agent"))
			return
		}
		if c.host.GetIncarnation() > q.GetIncarnation() {
			err = connect.NewError(connect.CodeAborted, errors.New("a later incarnation has registered"))
			return
		}
		c.host, r.Epoch, r.IdentityToken = q, c.epoch, c.gives
	})
	return r, err
}

// Sync is the heartbeat.
func (h hosts) Sync(_ context.Context, q *bursarv1.SyncRequest) (*bursarv1.SyncResponse, error) {
	c := h.coordinator
	r := &bursarv1.SyncResponse{}
	var held chan struct{}
	c.do(func() {
		c.syncs, held = append(c.syncs, q), c.syncHeld
		r.Epoch, r.Action = c.epoch, c.action
		if q.GetEpoch() < c.epoch || c.host == nil {
			r.Action = bursarv1.SyncAction_SYNC_ACTION_RESYNC
			return
		}
		c.heardAll = c.heardAll || q.GetFull()
		for _, end := range q.GetEnded() {
			r.Acknowledged = append(r.Acknowledged, end.GetAllocationId())
			if a := c.allocations[end.GetAllocationId()]; a.GetState() == active {
				c.put(a, func(a *bursarv1.Allocation) {
					a.State, a.Reason, a.ExitStatus, a.ErrorOutput = released, end.GetReason(), end.GetExitStatus(), end.GetErrorOutput()
					a.LeaderEnd = end.GetLeaderEnd()
					a.Incidents = end.GetIncidents()
				})
				delete(c.stops, a.GetId())
			}
		}
		for _, veto := range q.GetVetoes() {
			if a := c.allocations[veto.GetAllocationId()]; a.GetState() == reserved {
				c.put(a, func(a *bursarv1.Allocation) { a.State, a.Reason = waiting, "vetoed" })
			}
		}
		for _, report := range q.GetEngines() {
			if a := c.allocations[report.GetAllocationId()]; a.GetState() == active {
				a = proto.CloneOf(a)
				a.Measured, a.UnreclaimableBytes, a.LeaderEnd = report.GetMeasured(), report.GetUnreclaimableBytes(), report.GetLeaderEnd()
				a.Incidents = report.GetIncidents()
				c.allocations[a.GetId()] = a
			}
		}
		r.LedgerSequence, r.Complete = c.revision, q.GetFull() || q.GetLedgerSequence() == 0
		for _, a := range c.allocations {
			if s := a.GetState(); (s == reserved || s == active) && (r.GetComplete() || a.GetRevision() > q.GetLedgerSequence()) {
				r.Grants = append(r.Grants, a)
			}
		}
		for id, revision := range c.ended {
			if revision > q.GetLedgerSequence() {
				r.Gone = append(r.Gone, id)
			}
		}
		for _, order := range c.stops {
			r.Stops = append(r.Stops, order)
		}
	})
	if held != nil {
		<-held
	}
	return r, nil
}

// registration is the last one.
func (c *coordinator) registration() (q *bursarv1.RegisterRequest) {
	c.do(func() { q = c.host })
	return q
}

// notes are those of the last sample.
func (c *coordinator) notes() (notes []string) {
	c.do(func() {
		for _, sync := range c.syncs {
			if sync.GetSample() != nil {
				notes = sync.GetSample().GetNotes()
			}
		}
	})
	return notes
}
