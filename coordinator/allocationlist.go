package coordinator

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/wire"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// Get reads one allocation, live or ended.
func (s *allocationService) Get(ctx context.Context, req *bursarv1.AllocationServiceGetRequest) (*bursarv1.AllocationServiceGetResponse, error) {
	actor := auth.ActorOf(ctx)
	id, err := wire.EitherID(req.GetId(), req.GetRequestId())
	if err != nil {
		return nil, err
	}
	var a ledger.Allocation
	var live bool
	err = s.loop.Reader(req.GetAllowStale()).Do(ctx, func(l *ledger.Ledger, _ ledger.Instant) {
		if id == 0 {
			id, _, _ = l.ByRequest(actor.Name, req.GetRequestId())
		}
		a, live = l.Get(id)
	})
	if err != nil {
		return nil, err
	}
	if !live {
		if a, err = s.findEnded(ctx, id, actor.Name, req.GetRequestId()); err != nil {
			return nil, err
		}
	}
	asked := a.ID
	if req.GetLastTry() {
		if a, err = s.lastTryOf(ctx, req.GetAllowStale(), a); err != nil {
			return nil, err
		}
	}
	if err := checkHostOf(actor, &a); err != nil {
		return nil, ofLastTry(asked, a.ID, err)
	}
	return &bursarv1.AllocationServiceGetResponse{Allocation: wire.AllocationMessage(&a)}, nil
}

// findEnded reads an ended allocation by its id, or by its request id if the ledger does not
// remember the id. Its caller checks the rights.
func (s *allocationService) findEnded(ctx context.Context, id ledger.ID, caller, requestID string) (ledger.Allocation, error) {
	if id != 0 {
		return s.ended(ctx, id)
	}
	auth.Parked(ctx) // it waits for the store
	a, err := s.store.GetByRequest(ctx, caller, requestID)
	if errors.Is(err, store.ErrNotFound) {
		return a, &ledger.NotFoundError{What: "request", ID: requestID}
	}
	return a, err
}

// allocationQuery is a parsed List request.
type allocationQuery struct {
	labels   label.Set
	states   []ledger.State
	phases   []ledger.Phase
	name     string
	hostID   string
	idPrefix string
	live     bool // whether live ones are wanted at all
	ended    bool
	// The end of an ended allocation must be in [since, before).
	since, before ledger.Instant
}

func newAllocationQuery(req *bursarv1.AllocationServiceListRequest) (*allocationQuery, error) {
	filter, err := convert.LabelsFromProto(req.GetLabels())
	if err != nil {
		return nil, err
	}
	q := &allocationQuery{
		labels: filter, name: req.GetName(), hostID: req.GetHostId(), idPrefix: strings.ToLower(req.GetIdPrefix()), ended: req.GetEnded(),
		live: len(req.GetStates()) == 0,
	}
	for _, m := range req.GetStates() {
		if m == bursarv1.AllocationState_ALLOCATION_STATE_UNSPECIFIED {
			return nil, wire.FieldError("states", m.String(), "states that an allocation can be in")
		}
		state := ledger.State(m) //nolint:gosec // the contract allows defined states only
		q.states = append(q.states, state)
		q.live = q.live || state.Live()
		q.ended = q.ended || !state.Live() // a query for an end wants the history
	}
	for _, m := range req.GetPhases() {
		if m == bursarv1.Phase_PHASE_UNSPECIFIED {
			return nil, wire.FieldError("phases", m.String(), "phases that an engine can be in")
		}
		q.phases = append(q.phases, wire.PhaseFrom(m))
	}
	return q, q.setTimes(req)
}

// setTimes reads the bounds of the end time. A query with such a bound wants no live allocations.
func (q *allocationQuery) setTimes(req *bursarv1.AllocationServiceListRequest) (err error) {
	q.before = math.MaxInt64
	if since := req.GetEndedSince(); since != nil {
		q.live, q.ended = false, true
		if q.since, err = wire.TimeFrom("ended_since", since); err != nil {
			return err
		}
	}
	if before := req.GetEndedBefore(); before != nil {
		q.live, q.ended = false, true
		q.before, err = wire.TimeFrom("ended_before", before)
	}
	return err
}

func (q *allocationQuery) fingerprint() uint64 {
	f := wire.NewFingerprint()
	f.Labels(q.labels)
	for _, state := range q.states {
		f.Number(int64(state))
	}
	if len(q.phases) > 0 || q.name != "" {
		for _, phase := range q.phases {
			f.Number(int64(phase))
		}
		f.Text(q.name)
	}
	f.Text(q.hostID)
	f.Text(q.idPrefix)
	if q.ended {
		f.Number(1)
	}
	if q.since != 0 || q.before != math.MaxInt64 {
		f.Number(int64(q.since))
		f.Number(int64(q.before))
	}
	return uint64(f)
}

func (q *allocationQuery) matches(a *ledger.Allocation) bool {
	if q.hostID != "" && a.HostID != q.hostID {
		return false
	}
	if len(q.states) > 0 && !slices.Contains(q.states, a.State) {
		return false
	}
	if len(q.phases) > 0 && !slices.Contains(q.phases, a.Phase()) || q.name != "" && a.Name() != q.name {
		return false
	}
	return a.Labels.MatchesFilter(q.labels) && (q.idPrefix == "" || strings.HasPrefix(a.ID.String(), q.idPrefix))
}

// history returns the same query for the store.
func (q *allocationQuery) history(size int, token string) (h store.HistoryQuery) {
	h = store.HistoryQuery{Labels: q.labels, Phases: q.phases, Name: q.name, HostID: q.hostID, IDPrefix: q.idPrefix, PageSize: size, PageToken: token}
	for _, state := range q.states {
		if !state.Live() {
			h.States = append(h.States, state)
		}
	}
	return h
}

// endsWanted reports whether the history may hold a match of the query.
func (q *allocationQuery) endsWanted() bool {
	return q.ended && (len(q.states) == 0 || slices.ContainsFunc(q.states, func(s ledger.State) bool { return !s.Live() }))
}

// historyPlace returns the place at which the history begins; empty if it cannot hold a match.
func (q *allocationQuery) historyPlace() string {
	switch {
	case !q.endsWanted():
		return ""
	case q.before == math.MaxInt64:
		return string(placeHistory)
	}
	return string(placeHistory) + store.BeforeAll(q.before).Next().Token()
}

// within returns the allocations of a part of the history that ended at q.since or later. The
// history has the latest first.
func (q *allocationQuery) within(ended []ledger.Allocation) []ledger.Allocation {
	for i := range ended {
		if store.EndOf(&ended[i]) < q.since {
			return ended[:i]
		}
	}
	return ended
}

// goesOn reports whether the history may hold more matches after a place.
func (q *allocationQuery) goesOn(token string) bool {
	at, err := store.ParseToken(token)
	return err == nil && at.Ended >= q.since
}

// A place in the list is either behind a live allocation or somewhere in the history, which comes
// after.
const (
	placeLive    = 'l'
	placeHistory = 'h'
)

// List reads a page: live allocations by id, then, if they are wanted, those that ended, the
// latest first.
func (s *allocationService) List(ctx context.Context, req *bursarv1.AllocationServiceListRequest) (*bursarv1.AllocationServiceListResponse, error) {
	req, users, err := ofCaller(auth.ActorOf(ctx), req)
	if err != nil {
		return nil, err
	}
	if req.GetMine() && len(users) == 0 {
		return &bursarv1.AllocationServiceListResponse{}, nil
	}
	q, err := newAllocationQuery(req)
	if err != nil {
		return nil, err
	}
	query := q.fingerprint()
	place, err := wire.PagePlace(query, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	page, from := &allocationPage{query: q, want: wire.PageSize(req.GetPageSize())}, s.loop.Reader(req.GetAllowStale())
	if place == "" || place[0] == placeLive {
		err = page.readLive(ctx, from, place)
	} else {
		page.next = place
		err = from.Do(ctx, page.readRevision)
	}
	for err == nil && len(page.next) > 0 && page.next[0] == placeHistory && !page.full() && !page.rare {
		err = page.readHistory(ctx, s.store)
	}
	if err != nil {
		return nil, err
	}
	res := &bursarv1.AllocationServiceListResponse{Revision: page.revision, Allocations: page.found, Users: users}
	if page.next != "" {
		res.NextPageToken = wire.PageToken(query, page.next)
	}
	return res, nil
}

// ofCaller makes a request for the caller's own allocations one for those with the label of the
// user that the caller acts as. Other requests stay as they are.
func ofCaller(actor identity.Actor, req *bursarv1.AllocationServiceListRequest) (own *bursarv1.AllocationServiceListRequest, users []string, err error) {
	if !req.GetMine() {
		return req, nil, nil
	}
	users = slices.Compact(slices.Sorted(slices.Values(actor.Users)))
	switch {
	case len(users) == 0:
		return req, nil, nil
	case len(users) > 1:
		return nil, nil, wire.FieldError("mine", "true", "labels[user]: the caller acts as "+strings.Join(users, ", "))
	}
	if of, named := req.GetLabels()["user"]; named && of != "*" && of != users[0] {
		return nil, nil, wire.FieldError("labels[user]", of, users[0]+", which mine asks for, or no label user")
	}
	req = proto.CloneOf(req)
	if req.Labels == nil {
		req.Labels = make(map[string]string, 1)
	}
	req.Labels["user"] = users[0]
	return req, users, nil
}

// allocationPage is a page while it is read.
type allocationPage struct {
	query    *allocationQuery
	want     int
	found    []*bursarv1.Allocation
	bytes    int
	next     string // place of the next page, or of the next read
	rare     bool   // the store has read as many ended rows as one call may, and few matched
	revision uint64
}

func (p *allocationPage) full() bool { return len(p.found) >= p.want || p.bytes >= wire.PageBytes }

// add adds rows until the page is full, and returns their number.
func (p *allocationPage) add(rows []ledger.Allocation) int {
	list, bytes := wire.FillPage(rows, wire.PageBytes-p.bytes, wire.AllocationMessage)
	p.found, p.bytes = append(p.found, list...), p.bytes+bytes
	return len(list)
}

func (p *allocationPage) readRevision(l *ledger.Ledger, _ ledger.Instant) { p.revision = l.Revision() }

func (p *allocationPage) readLive(ctx context.Context, from commit.Reader, place string) error {
	var after ledger.ID
	if place != "" {
		var err error
		if after, err = wire.ParseID("page_token", place[1:]); err != nil {
			return wire.ErrPageToken
		}
	}
	if !p.query.live {
		p.next = p.query.historyPlace()
		return from.Do(ctx, p.readRevision)
	}
	s, err := commit.Scan(ctx, from, after, p.want, commit.AllocationsWhere(p.query.matches))
	if err != nil {
		return err
	}
	p.revision = s.Revision
	if n := p.add(s.Found); n < len(s.Found) {
		s.Place, s.More = s.Found[n-1].ID, true
	}
	switch {
	case s.More:
		p.next = string(placeLive) + s.Place.String()
	default:
		p.next = p.query.historyPlace()
	}
	return nil
}

// historyStep is the number of ended allocations in one read. The largest are 5 MB together.
const historyStep = 250

// readHistory fills the rest of the page with ended allocations.
func (p *allocationPage) readHistory(ctx context.Context, s store.Store) error {
	auth.Parked(ctx) // it waits for the store
	step := min(historyStep, p.want-len(p.found))
	ended, next, err := s.History(ctx, p.query.history(step, p.next[1:]))
	p.rare = len(ended) < step
	if err != nil {
		return err
	}
	if next != "" && !p.query.goesOn(next) {
		next = ""
	}
	ended = p.query.within(ended)
	if n := p.add(ended); n < len(ended) {
		next = store.Position{Ended: store.EndOf(&ended[n-1]), ID: ended[n-1].ID}.Token()
	}
	p.next = ""
	if next != "" {
		p.next = string(placeHistory) + next
	}
	return nil
}
