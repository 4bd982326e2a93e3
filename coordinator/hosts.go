package coordinator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/launches"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/orders"
	"github.com/bursar/bursar/coordinator/outputs"
	"github.com/bursar/bursar/coordinator/wire"
	"github.com/bursar/bursar/internal/access"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// hostService serves bursar.v1.HostService. Register and Sync are in heartbeat.go.
type hostService struct {
	loop *commit.Loop
	seen *sightings
	// bounds returns the bounds of an announcement, by the id of its host; nil: there are none.
	bounds func(host string) *access.Bounds
	// hub has the streams of agents, and launcher takes their answers.
	hub      *orders.Hub
	launcher *launches.Launcher
	signals  *orders.Signals
	// readers take the output that agents send.
	readers *outputs.Readers
}

// Deregister removes a host.
func (s *hostService) Deregister(ctx context.Context, req *bursarv1.DeregisterRequest) (*bursarv1.DeregisterResponse, error) {
	byAgent := isAgentOf(ctx, req.GetHostId())
	_, err := commit.Decide(ctx, s.loop, func(l *ledger.Ledger, now ledger.Instant) (struct{}, error) {
		// A host that registers again would be without them.
		if h, known := l.Host(req.GetHostId()); byAgent && known && (h.Cordoned || h.Draining || h.State == ledger.ExpectedHost) {
			return struct{}{}, &ledger.StateError{What: "host", ID: req.GetHostId(), State: "under an operator's orders", Want: "none (bursar host uncordon), or an operator's bursar host remove"}
		}
		return struct{}{}, l.Deregister(now, req.GetHostId(), req.GetForce())
	})
	return &bursarv1.DeregisterResponse{}, err
}

// Cordon stops new grants on a host.
func (s *hostService) Cordon(ctx context.Context, req *bursarv1.CordonRequest) (*bursarv1.CordonResponse, error) {
	m, err := s.change(ctx, func(l *ledger.Ledger, now ledger.Instant) (ledger.HostInfo, error) {
		return l.CordonFor(now, req.GetHostId(), wire.CleanText(req.GetReason()), wire.DurationFrom(req.GetLength()))
	})
	return &bursarv1.CordonResponse{Host: m}, err
}

// Uncordon ends a cordon or a drain.
func (s *hostService) Uncordon(ctx context.Context, req *bursarv1.UncordonRequest) (*bursarv1.UncordonResponse, error) {
	m, err := s.change(ctx, func(l *ledger.Ledger, now ledger.Instant) (ledger.HostInfo, error) {
		return l.Uncordon(now, req.GetHostId())
	})
	return &bursarv1.UncordonResponse{Host: m}, err
}

// Drain cordons a host and notifies its agent. Engines that still run at the deadline are
// stopped.
func (s *hostService) Drain(ctx context.Context, req *bursarv1.DrainRequest) (*bursarv1.DrainResponse, error) {
	var deadline *time.Duration
	if req.GetDeadline() != nil {
		deadline = new(wire.DurationFrom(req.GetDeadline()))
	}
	m, err := s.change(ctx, func(l *ledger.Ledger, now ledger.Instant) (ledger.HostInfo, error) {
		return l.Drain(now, req.GetHostId(), wire.CleanText(req.GetReason()), deadline)
	})
	return &bursarv1.DrainResponse{Host: m}, err
}

// Accept books engines as their host's agent claims them.
func (s *hostService) Accept(ctx context.Context, req *bursarv1.AcceptRequest) (*bursarv1.AcceptResponse, error) {
	ids := make([]ledger.ID, 0, len(req.GetIds()))
	for i, text := range req.GetIds() {
		id, err := wire.ParseID(fmt.Sprintf("ids[%d]", i), text)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	res := &bursarv1.AcceptResponse{}
	accepted, err := commit.Decide(ctx, s.loop, func(l *ledger.Ledger, now ledger.Instant) ([]ledger.Allocation, error) {
		list, left, err := l.Accept(now, req.GetHostId(), ids, auth.ActorOf(ctx).Name)
		res.Left = int64(left)
		return list, err
	})
	if err != nil {
		return nil, err
	}
	for i := range accepted {
		res.Accepted = append(res.Accepted, wire.AllocationMessage(&accepted[i]))
	}
	return res, nil
}

func (s *hostService) change(ctx context.Context, f func(*ledger.Ledger, ledger.Instant) (ledger.HostInfo, error)) (*bursarv1.Host, error) {
	h, err := commit.Decide(ctx, s.loop, f)
	if err != nil {
		return nil, err
	}
	return wire.HostMessage(&h), nil
}

// Get reads one host.
func (s *hostService) Get(ctx context.Context, req *bursarv1.HostServiceGetRequest) (*bursarv1.HostServiceGetResponse, error) {
	h, err := commit.Decide(ctx, s.loop.Reader(req.GetAllowStale()), func(l *ledger.Ledger, _ ledger.Instant) (ledger.HostInfo, error) {
		if h, found := l.Host(req.GetId()); found {
			return h, nil
		}
		return ledger.HostInfo{}, &ledger.NotFoundError{What: "host", ID: req.GetId()}
	})
	if err != nil {
		return nil, err
	}
	return &bursarv1.HostServiceGetResponse{Host: wire.HostMessage(&h)}, nil
}

// hostQuery is a List request, ready to be compared with.
type hostQuery struct {
	labels   label.Set
	states   []ledger.HostState
	idPrefix string
}

func newHostQuery(req *bursarv1.HostServiceListRequest) (*hostQuery, error) {
	filter, err := convert.LabelsFromProto(req.GetLabels())
	if err != nil {
		return nil, err
	}
	q := &hostQuery{labels: filter, idPrefix: req.GetIdPrefix()}
	for _, m := range req.GetStates() {
		if m == bursarv1.HostState_HOST_STATE_UNSPECIFIED {
			return nil, wire.FieldError("states", m.String(), "states that a host can be in")
		}
		q.states = append(q.states, ledger.HostState(m)) //nolint:gosec // the contract allows defined states only
	}
	return q, nil
}

func (q *hostQuery) fingerprint() uint64 {
	f := wire.NewFingerprint()
	f.Labels(q.labels)
	for _, state := range q.states {
		f.Number(int64(state))
	}
	f.Text(q.idPrefix)
	return uint64(f)
}

func (q *hostQuery) matches(h *ledger.HostInfo) bool {
	return strings.HasPrefix(h.ID, q.idPrefix) && h.Labels.MatchesFilter(q.labels) &&
		(len(q.states) == 0 || slices.Contains(q.states, h.State))
}

// List reads hosts page by page, by id.
func (s *hostService) List(ctx context.Context, req *bursarv1.HostServiceListRequest) (*bursarv1.HostServiceListResponse, error) {
	q, err := newHostQuery(req)
	if err != nil {
		return nil, err
	}
	query := q.fingerprint()
	after, err := wire.PagePlace(query, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	page, err := commit.Scan(ctx, s.loop.Reader(req.GetAllowStale()), after, wire.PageSize(req.GetPageSize()), commit.HostsWhere(q.matches))
	if err != nil {
		return nil, err
	}
	res := &bursarv1.HostServiceListResponse{Revision: page.Revision}
	res.Hosts, _ = wire.FillPage(page.Found, wire.PageBytes, wire.HostMessage)
	if n := len(res.Hosts); n < len(page.Found) {
		page.Place, page.More = page.Found[n-1].ID, true
	}
	if page.More {
		res.NextPageToken = wire.PageToken(query, page.Place)
	}
	return res, nil
}
