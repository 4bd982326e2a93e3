package coordinator

import (
	"context"
	"errors"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/wire"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// Watch streams transitions of allocations.
func (s *allocationService) Watch(ctx context.Context, req *bursarv1.AllocationServiceWatchRequest, stream *connect.ServerStream[bursarv1.AllocationServiceWatchResponse]) error {
	filter, err := newWatchFilter(req)
	if err != nil {
		return err
	}
	beat := func(revision uint64) error {
		return stream.Send(&bursarv1.AllocationServiceWatchResponse{Revision: revision})
	}
	w := &watcher{conn: stream.Conn(), wants: filter.matches, event: sharedEvent{kind: allocationWatch}}
	return s.loop.Follow(ctx, req.GetAfterRevision(), beat, func(batch []*commit.Event) error { return w.send(ctx, batch) })
}

func newWatchFilter(req *bursarv1.AllocationServiceWatchRequest) (*watchFilter, error) {
	labels, err := convert.LabelsFromProto(req.GetLabels())
	if err != nil {
		return nil, err
	}
	var id ledger.ID
	if req.GetId() != "" {
		if id, err = wire.ParseID("id", req.GetId()); err != nil {
			return nil, err
		}
	}
	return &watchFilter{labels: labels, hostID: req.GetHostId(), id: id}, nil
}

type watchFilter struct {
	labels label.Set
	hostID string
	id     ledger.ID
}

func (f *watchFilter) matches(e *commit.Event) bool {
	a := e.Allocation
	return a != nil && (f.id == 0 || a.ID == f.id) && (f.hostID == "" || a.HostID == f.hostID) && a.Labels.MatchesFilter(f.labels)
}

// Watch streams changes of allocations, hosts and rules.
func (s *clusterService) Watch(ctx context.Context, req *bursarv1.ClusterServiceWatchRequest, stream *connect.ServerStream[bursarv1.ClusterServiceWatchResponse]) error {
	beat := func(revision uint64) error {
		return stream.Send(&bursarv1.ClusterServiceWatchResponse{Revision: revision})
	}
	w := &watcher{conn: stream.Conn(), wants: func(*commit.Event) bool { return true }, event: sharedEvent{kind: clusterWatch}}
	return s.loop.Follow(ctx, req.GetAfterRevision(), beat, func(batch []*commit.Event) error { return w.send(ctx, batch) })
}

// watcher sends events to one caller.
type watcher struct {
	conn   connect.StreamingHandlerConn
	wants  func(*commit.Event) bool
	wanted []*commit.Event // of the batch that is being sent
	event  sharedEvent     // that is being sent
}

// send sends the events that the caller wants.
func (w *watcher) send(ctx context.Context, batch []*commit.Event) error {
	w.wanted = w.wanted[:0]
	for _, e := range batch {
		if w.wants(e) {
			w.wanted = append(w.wanted, e)
		}
	}
	if len(w.wanted) == 0 {
		return nil
	}
	defer func() { // a watch on which nothing happens keeps no events
		clear(w.wanted)
		w.event.Event = nil
	}()
	if err := auth.MaySend(ctx, len(w.wanted)); err != nil {
		return err
	}
	return sendTogether(ctx, func() error {
		for _, w.event.Event = range w.wanted {
			w.event.redact = nil
			if err := w.conn.Send(&w.event); err != nil {
				return err //nolint:wrapcheck // it has its code
			}
		}
		return nil
	})
}

// The kinds of messages that an event is sent in.
const (
	allocationWatch = iota
	clusterWatch
)

// sharedEvent is an event on its way to one watcher. Watchers share its encodings.
type sharedEvent struct {
	*commit.Event

	kind   uint8
	whole  bool
	redact func(proto.Message)
}

var (
	_ auth.SharedAnswer = (*sharedEvent)(nil)
	_ convert.Encoded   = (*sharedEvent)(nil)
)

// OutputOf implements auth.SharedAnswer.
func (e *sharedEvent) OutputOf() (user string, ok bool) {
	a := e.Allocation
	if a == nil {
		return "", false
	}
	if _, output := convert.ErrorOutput(a.Reason, a.ErrorOutput, a.Exit != nil); output == "" && !a.Launch().HasOutput() {
		return "", false
	}
	return a.RightsOf(), true
}

// Redacted implements auth.SharedAnswer.
func (e *sharedEvent) Redacted(whole bool, redact func(proto.Message)) any {
	e.whole, e.redact = whole, redact
	return e
}

// AppendEncoded implements convert.Encoded.
func (e *sharedEvent) AppendEncoded(dst []byte, codec string, marshal func(proto.Message) ([]byte, error)) ([]byte, error) {
	if e.redact == nil {
		return nil, errors.New("an event that was not redacted")
	}
	text, err := e.Encoded(commit.Form{Message: e.kind, Whole: e.whole, Codec: codec}, func() ([]byte, error) {
		message := e.message()
		e.redact(message)
		return marshal(message)
	})
	return append(dst, text...), err //nolint:wrapcheck // the codec's
}

func (e *sharedEvent) message() proto.Message {
	if e.kind == allocationWatch {
		return &bursarv1.AllocationServiceWatchResponse{
			Allocation: wire.AllocationMessage(e.Allocation), Revision: e.Resume, Time: wire.TimeMessage(e.Stamp.Time), Actor: e.Stamp.Actor,
		}
	}
	return changeMessage(e.Event)
}

func changeMessage(e *commit.Event) *bursarv1.ClusterServiceWatchResponse {
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
