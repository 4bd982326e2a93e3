package agent_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

const (
	waiting  = bursarv1.AllocationState_ALLOCATION_STATE_WAITING
	reserved = bursarv1.AllocationState_ALLOCATION_STATE_RESERVED
	active   = bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE
	released = bursarv1.AllocationState_ALLOCATION_STATE_RELEASED
	canceled = bursarv1.AllocationState_ALLOCATION_STATE_CANCELED

	mib = int64(1 << 20)
)

// coordinator is a small one, served over HTTP. It grants whatever fits into its memory and keeps
// everybody else waiting. What the real one decides is tested elsewhere: this one says yes, no or
// nothing, as a test wants it.
type coordinator struct {
	// awaitsEnds: a release of an engine waits for its end, as it does since ADR 78.
	awaitsEnds bool
	bursarv1connect.UnimplementedAllocationServiceHandler
	bursarv1connect.UnimplementedHostServiceHandler

	t       *testing.T
	handler http.Handler
	server  *httptest.Server

	mu          sync.Mutex
	changed     chan struct{} // closed and replaced at every change
	away        bool
	hold        bool // grants nothing
	stranger    bool // knows another agent of the host
	storeID     string
	epoch       uint64
	revision    uint64
	next        int
	allocations map[string]*bursarv1.Allocation // all that there ever were
	ended       map[string]uint64               // revisions
	requests    map[string]string               // ids by request id
	host        *bursarv1.RegisterRequest
	syncs       []*bursarv1.SyncRequest
	stops       map[string]*bursarv1.StopOrder
	action      bursarv1.SyncAction
	actors      []identity.Actor
	asked       []*bursarv1.AllocateRequest
	// refuseConfirm: confirmations are refused.
	refuseConfirm bool
	// onlyOwn: a Stop is refused unless its caller may act as anybody.
	onlyOwn bool
	// confirming is called first by each Confirm.
	confirming func(id string)
	gives      []byte // the identity token of a registration; nil: none, as of an older coordinator
	left       int    // callers that went away while they waited
	streams    waitStreams
	// careful coordinators give nothing out on a host that has not reported all its engines since
	// they began to lead; heardAll says that it has. What they refuse until then has this code:
	// RESOURCE_EXHAUSTED if it is 0.
	careful, heardAll bool
	early             connect.Code
	busy              func() error  // what Allocate answers; nil: it does its work
	interval          time.Duration // of heartbeats
	syncHeld          chan struct{} // if there is one, its close lets answers to heartbeats go
}

func newCoordinator(t *testing.T) *coordinator {
	t.Helper()
	c := &coordinator{
		t: t, changed: make(chan struct{}), storeID: "store-1", epoch: 3, revision: 100, interval: 100 * time.Millisecond,
		allocations: map[string]*bursarv1.Allocation{}, ended: map[string]uint64{}, requests: map[string]string{},
		stops: map[string]*bursarv1.StopOrder{},
	}
	mux := http.NewServeMux()
	mux.Handle(bursarv1connect.NewAllocationServiceHandler(c))
	mux.Handle(bursarv1connect.NewHostServiceHandler(hosts{coordinator: c}))
	c.handler = mux
	c.server = httptest.NewServer(c.unlessAway(mux))
	t.Cleanup(c.server.Close)
	return c
}

// unlessAway breaks connections while the coordinator is away, also those of calls under way.
func (c *coordinator) unlessAway(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		away := c.away
		c.mu.Unlock()
		if away {
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
}

// do changes it and wakes all that wait for a change.
func (c *coordinator) do(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	close(c.changed)
	c.changed = make(chan struct{})
}

// goAway cuts every connection and takes no new ones, until it comes back.
func (c *coordinator) goAway() {
	c.do(func() { c.away = true })
	c.server.CloseClientConnections()
}

func (c *coordinator) comeBack() { c.do(func() { c.away = false }) }

// await waits until something holds, for a generous while.
func (c *coordinator) await(what string, holds func() bool) {
	c.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		c.mu.Lock()
		done, changed := holds(), c.changed
		c.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			c.t.Fatalf("waited in vain: %s", what)
		}
	}
}

// awaitState waits until an allocation is in a state, and returns it.
func (c *coordinator) awaitState(id string, state bursarv1.AllocationState) *bursarv1.Allocation {
	c.t.Helper()
	c.await(fmt.Sprintf("%s is %s", id, state), func() bool { return c.allocations[id].GetState() == state })
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.allocations[id]
}

// put records a change; the caller holds mu.
func (c *coordinator) put(a *bursarv1.Allocation, change func(a *bursarv1.Allocation)) *bursarv1.Allocation {
	a = proto.CloneOf(a)
	c.revision++
	a.Revision = c.revision
	change(a)
	c.allocations[a.GetId()] = a
	if s := a.GetState(); s != reserved && s != active {
		c.ended[a.GetId()] = c.revision
	}
	return a
}

func (c *coordinator) note(ctx context.Context) identity.Actor {
	info, _ := connect.CallInfoForHandlerContext(ctx)
	actor, err := identity.Decode(info.RequestHeader().Get(identity.Header))
	if err != nil {
		c.t.Errorf("actor: %v", err)
	}
	c.do(func() { c.actors = append(c.actors, actor) })
	return actor
}

// Allocate grants, or waits until it may.
func (c *coordinator) Allocate(ctx context.Context, q *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
	actor := c.note(ctx)
	var id string
	c.mu.Lock()
	busy := c.busy
	c.mu.Unlock()
	if busy != nil {
		return nil, busy()
	}
	if err := c.notYet(q); err != nil {
		return nil, err
	}
	if err := c.streams.unknown(c, q); err != nil {
		return nil, err
	}
	c.do(func() {
		c.asked = append(c.asked, q)
		key := actor.Name + "/" + q.GetRequestId()
		if id = c.requests[key]; id != "" {
			return
		}
		c.next++
		id = fmt.Sprintf("alloc%08d", c.next)
		c.requests[key] = id
		c.put(&bursarv1.Allocation{
			Id: id, RequestId: q.GetRequestId(), Caller: actor.Name, HostId: q.GetHost().GetId(), Labels: q.GetLabels(),
			Requested: q.GetResource(), Entitled: q.GetResource(), State: waiting,
		}, func(*bursarv1.Allocation) {})
		delete(c.ended, id)
	})
	for {
		var a *bursarv1.Allocation
		c.mu.Lock()
		a = c.allocations[id]
		if a.GetState() == waiting && !c.hold && (!c.careful || c.heardAll) {
			a = c.put(a, func(a *bursarv1.Allocation) { a.State, a.ReserveTime = reserved, timestamppb.Now() })
			delete(c.ended, id)
		}
		changed := c.changed
		c.mu.Unlock()
		if a.GetState() != waiting || q.GetAsync() || c.streams.add(c, q, id) {
			return &bursarv1.AllocateResponse{Allocation: a}, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			c.do(func() { c.left++ })
			return nil, ctx.Err()
		}
	}
}

// notYet refuses a request that would have to wait for its host to report.
func (c *coordinator) notYet(q *bursarv1.AllocateRequest) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.careful || c.heardAll || q.GetWait().AsDuration() > 0 {
		return nil
	}
	err := connect.NewError(cmp.Or(c.early, connect.CodeResourceExhausted), errors.New("insufficient resources"))
	detail, detailErr := connect.NewErrorDetail(&bursarv1.InsufficientResources{Reason: "refused", Shortfalls: []*bursarv1.Shortfall{{
		Account:   &bursarv1.AccountName{Kind: bursarv1.AccountKind_ACCOUNT_KIND_HOST, Labels: map[string]string{"host": q.GetHost().GetId()}},
		Dimension: "memory", Note: "health",
	}}})
	if detailErr != nil {
		return detailErr
	}
	err.AddDetail(detail)
	return err
}

func (c *coordinator) change(id string, from []bursarv1.AllocationState, change func(a *bursarv1.Allocation)) (*bursarv1.Allocation, error) {
	var a *bursarv1.Allocation
	c.do(func() {
		if a = c.allocations[id]; a != nil && slices.Contains(from, a.GetState()) {
			a = c.put(a, change)
		}
	})
	switch {
	case a == nil:
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("no such allocation: %s", id))
	case len(from) == 1 && from[0] == reserved && a.GetState() != active:
		return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New("not reserved"))
	}
	return a, nil
}

// Confirm makes a reservation active.
func (c *coordinator) Confirm(ctx context.Context, q *bursarv1.ConfirmRequest) (*bursarv1.ConfirmResponse, error) {
	c.note(ctx)
	c.mu.Lock()
	refuse, confirming := c.refuseConfirm, c.confirming
	c.mu.Unlock()
	if confirming != nil {
		confirming(q.GetId())
	}
	if refuse {
		return nil, connect.NewError(connect.CodeFailedPrecondition, errors.New("refused"))
	}
	a, err := c.change(q.GetId(), []bursarv1.AllocationState{reserved}, func(a *bursarv1.Allocation) {
		a.State, a.Process = active, q.GetProcess()
	})
	if err != nil {
		return nil, err
	}
	return &bursarv1.ConfirmResponse{Allocation: a}, nil
}

// Release ends any allocation.
func (c *coordinator) Release(ctx context.Context, q *bursarv1.ReleaseRequest) (*bursarv1.ReleaseResponse, error) {
	c.note(ctx)
	a, err := c.change(q.GetId(), []bursarv1.AllocationState{waiting, reserved, active}, func(a *bursarv1.Allocation) {
		if c.awaitsEnds && a.GetProcess() != nil && !q.GetProcessEnded() {
			a.Releasing = true
			return
		}
		a.State, a.Reason, a.ExitStatus, a.ErrorOutput = released, q.GetReason(), q.GetExitStatus(), q.GetErrorOutput()
		a.Incidents = q.GetIncidents()
	})
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		known := c.allocations[q.GetId()]
		return &bursarv1.ReleaseResponse{Allocation: proto.CloneOf(known)}, nil
	}
	return &bursarv1.ReleaseResponse{Allocation: a}, nil
}

// Cancel ends a request by its request id.
func (c *coordinator) Cancel(ctx context.Context, q *bursarv1.CancelRequest) (*bursarv1.CancelResponse, error) {
	actor := c.note(ctx)
	c.mu.Lock()
	id := c.requests[actor.Name+"/"+q.GetRequestId()]
	c.mu.Unlock()
	a, err := c.change(id, []bursarv1.AllocationState{waiting, reserved}, func(a *bursarv1.Allocation) {
		a.State, a.Reason = canceled, q.GetReason()
	})
	if err != nil {
		return nil, err
	}
	return &bursarv1.CancelResponse{Allocation: a}, nil
}

// Resize changes an entitlement.
func (c *coordinator) Resize(ctx context.Context, q *bursarv1.ResizeRequest) (*bursarv1.ResizeResponse, error) {
	c.note(ctx)
	a, err := c.change(q.GetId(), []bursarv1.AllocationState{reserved, active}, func(a *bursarv1.Allocation) { a.Entitled = q.GetEntitled() })
	if err != nil {
		return nil, err
	}
	return &bursarv1.ResizeResponse{Allocation: a}, nil
}

// Renew does nothing but say so.
func (c *coordinator) Renew(ctx context.Context, q *bursarv1.RenewRequest) (*bursarv1.RenewResponse, error) {
	c.note(ctx)
	a, err := c.change(q.GetId(), []bursarv1.AllocationState{reserved, active}, func(*bursarv1.Allocation) {})
	if err != nil {
		return nil, err
	}
	return &bursarv1.RenewResponse{Allocation: a}, nil
}

// Stop passes the order on with the next answer to a Sync.
func (c *coordinator) Stop(ctx context.Context, q *bursarv1.StopRequest) (*bursarv1.StopResponse, error) {
	actor := c.note(ctx)
	if c.onlyOwn && !actor.Anyone {
		return nil, connect.NewError(connect.CodePermissionDenied, errors.New(actor.Name+" may not stop it"))
	}
	a, err := c.change(q.GetId(), []bursarv1.AllocationState{active}, func(a *bursarv1.Allocation) {
		a.Stopping, a.Releasing = true, q.GetRelease()
		c.stops[q.GetId()] = &bursarv1.StopOrder{AllocationId: q.GetId(), Grace: q.GetGrace(), Reason: q.GetReason()}
	})
	if err != nil {
		return nil, err
	}
	return &bursarv1.StopResponse{Allocation: a}, nil
}

// Get reads one.
func (c *coordinator) Get(_ context.Context, q *bursarv1.AllocationServiceGetRequest) (*bursarv1.AllocationServiceGetResponse, error) {
	a, err := c.change(q.GetId(), nil, nil)
	if err != nil {
		return nil, err
	}
	return &bursarv1.AllocationServiceGetResponse{Allocation: a}, nil
}

// List reads those of a host.
func (c *coordinator) List(_ context.Context, q *bursarv1.AllocationServiceListRequest) (*bursarv1.AllocationServiceListResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &bursarv1.AllocationServiceListResponse{Revision: c.revision}
	for _, a := range c.allocations {
		if a.GetHostId() == q.GetHostId() {
			r.Allocations = append(r.Allocations, a)
		}
	}
	return r, nil
}

// Explain says for which host it was asked.
func (c *coordinator) Explain(_ context.Context, q *bursarv1.ExplainRequest) (*bursarv1.ExplainResponse, error) {
	return &bursarv1.ExplainResponse{HostId: q.GetRequest().GetHost().GetId()}, nil
}

// Watch sends one event and goes on until its caller leaves.
func (c *coordinator) Watch(ctx context.Context, q *bursarv1.AllocationServiceWatchRequest, stream *connect.ServerStream[bursarv1.AllocationServiceWatchResponse]) error {
	event := &bursarv1.AllocationServiceWatchResponse{Revision: 7, Allocation: &bursarv1.Allocation{Id: "w", HostId: q.GetHostId()}}
	if err := stream.Send(event); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}
