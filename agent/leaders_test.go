package agent_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// once checks that one request was made and granted, however often it was asked for.
func (c *coordinator) once(t *testing.T, o outcome) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if o.err != nil || o.allocation.GetState() != reserved || len(c.allocations) != 1 || c.allocations[o.allocation.GetId()] == nil {
		t.Errorf("%v, %v; %d allocations, want this one", o.allocation, o.err, len(c.allocations))
	}
	for _, q := range c.asked {
		if q.GetRequestId() != c.asked[0].GetRequestId() {
			t.Errorf("asked again as another request: %v", q)
		}
	}
}

func TestWaitingRequestIsGrantedOnceWhoeverLeads(t *testing.T) {
	for name, end := range map[string]func(s *fakeServer){
		"dies": (*fakeServer).die, "hangs": (*fakeServer).freeze, "steps down": func(s *fakeServer) {
			s.refuse()
			s.server.CloseClientConnections()
		},
	} {
		for _, named := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, named %v", name, named), func(t *testing.T) {
				s := runAmong(t, 3)
				c := s.coordinator
				c.do(func() { c.hold, c.careful = true, true })
				done := s.ask(t.Context(), waiter())
				c.await("it waits", func() bool { return len(c.asked) == 1 })
				end(s.servers.all[0])
				s.servers.lead(1)
				if named {
					s.servers.name(1)
				}
				c.do(func() { c.hold = false })
				c.once(t, s.result(done))
				c.await("the new leader has heard of the host", func() bool { return c.host.GetEpoch() >= 4 && c.heardAll })
			})
		}
	}
}

func TestEnginesGoThroughAChangeOfLeader(t *testing.T) {
	s := runAmong(t, 3)
	lives, _ := s.engine(100, "exec sleep 1000")
	dies, cmd := s.engine(100, "exec sleep 1000")
	s.servers.all[0].die()
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	s.servers.lead(2)
	s.servers.name(2)
	s.coordinator.awaitState(dies.GetId(), released)
	s.coordinator.await("all engines are reported to the new leader", func() bool {
		for _, q := range s.coordinator.syncs {
			if q.GetFull() && q.GetEpoch() == s.coordinator.epoch {
				return true
			}
		}
		return false
	})
	if got := s.coordinator.awaitState(lives.GetId(), active); got.GetRevision() != lives.GetRevision() {
		t.Errorf("the engine that lives was changed: %v", got)
	}
}

// A leader that has just begun knows nothing of the host. That is no reason to refuse a caller who
// does not want to wait, whether it says that it is too early to tell or, as earlier versions do,
// that there is nothing.
func TestNewLeaderIsToldOfTheHostBeforeItRefuses(t *testing.T) {
	for _, early := range []connect.Code{connect.CodeUnavailable, connect.CodeResourceExhausted} {
		t.Run(early.String(), func(t *testing.T) {
			s := runAmong(t, 2)
			c := s.coordinator
			c.do(func() { c.careful, c.early = true, early })
			s.servers.all[0].die()
			s.servers.lead(1)
			s.allocate(100)
			// it has forgotten the host, and the agent does not know
			c.do(func() { c.host, c.heardAll = nil, false })
			s.allocate(100)
		})
	}
}

func TestDeposedLeaderIsNotBelieved(t *testing.T) {
	s := runAmong(t, 2)
	a, _ := s.engine(100, "exec sleep 1000")
	s.servers.lead(1)
	s.servers.name(1)
	c := s.coordinator
	c.await("the new leader has heard of the host", func() bool { return c.heardAll })
	old := newCoordinator(t) // knows of nothing, and that is the epoch before
	s.servers.all[0].does(old.handler)
	s.servers.name(0)
	old.await("it is asked", func() bool { return old.host != nil || len(old.syncs) > 0 })
	c.mu.Lock()
	before := len(c.syncs)
	c.mu.Unlock()
	c.await("the agent turns to the other one", func() bool { return len(c.syncs) > before+1 })
	if got := s.coordinator.awaitState(a.GetId(), active); got.GetRevision() != a.GetRevision() {
		t.Errorf("the engine was changed: %v", got)
	}
	r, err := s.List(t.Context(), &bursarv1.AllocationServiceListRequest{})
	if err != nil || len(r.GetAllocations()) != 1 {
		t.Errorf("holds %v, %v", r, err)
	}
}

// slow is a leader that answers an Allocate when it is told to.
type slow struct {
	bursarv1connect.UnimplementedAllocationServiceHandler

	asked, answer chan struct{}
}

func (s *slow) Allocate(ctx context.Context, q *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
	close(s.asked)
	select {
	case <-s.answer:
	case <-ctx.Done():
	}
	return &bursarv1.AllocateResponse{Allocation: &bursarv1.Allocation{
		Id: "ghost", RequestId: q.GetRequestId(), HostId: "h1", State: reserved, Revision: 99, Entitled: q.GetResource(),
	}}, nil
}

func TestGrantOfADeposedLeaderIsNotHandedOut(t *testing.T) {
	s := runAmong(t, 2)
	old := &slow{asked: make(chan struct{}), answer: make(chan struct{})}
	mux := http.NewServeMux()
	mux.Handle(bursarv1connect.NewAllocationServiceHandler(old))
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	s.servers.all[0].does(mux)
	done := s.ask(t.Context(), request(100))
	<-old.asked
	s.servers.lead(1)
	s.servers.name(1)
	s.coordinator.await("the new leader has answered", func() bool {
		n := len(s.coordinator.syncs)
		return s.coordinator.heardAll && n > 0 && s.coordinator.syncs[n-1].GetLedgerSequence() > 0
	})
	close(old.answer)
	s.coordinator.once(t, s.result(done))
}

func TestCoordinatorsThatAreAllAwayAreWaitedFor(t *testing.T) {
	s := runAmong(t, 3)
	c := s.coordinator
	a, _ := s.engine(100, "exec sleep 1000")
	for _, fake := range s.servers.all {
		fake.die()
	}
	s.servers.name(-1)
	q := waiter()
	done := s.ask(t.Context(), q)
	away := s.servers.calls()
	c.await("it was asked for in vain", func() bool { return s.servers.calls() > away })
	s.servers.lead(2)
	if o := s.result(done); o.err != nil || o.allocation.GetState() != reserved {
		t.Errorf("%v, %v", o.allocation, o.err)
	}
	if got := c.awaitState(a.GetId(), active); got.GetRevision() != a.GetRevision() {
		t.Errorf("the engine was changed: %v", got)
	}
}

// While no coordinator leads, every call is refused at once. However many calls wait, the number
// of their attempts is bounded.
func TestCallersThatWaitForALeaderAskInModeration(t *testing.T) {
	s := runAmong(t, 3)
	for _, fake := range s.servers.all {
		fake.refuse()
	}
	const callers = 20
	before := s.servers.calls()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var waiting []<-chan outcome
	for range callers {
		waiting = append(waiting, s.ask(ctx, waiter()))
	}
	for _, done := range waiting {
		if o := s.result(done); connect.CodeOf(o.err) != connect.CodeUnavailable && connect.CodeOf(o.err) != connect.CodeDeadlineExceeded {
			t.Errorf("%v", o.err)
		}
	}
	// Within 3 s a caller asks at 0, 50 ms, 150 ms, 350 ms, 750 ms, 1.5 s, 2.5 s: more or less the
	// half of each pause.
	asked := s.servers.calls() - before
	if asked < 3*callers || asked > 14*callers {
		t.Errorf("%d calls for %d callers in 3 s", asked, callers)
	}
}

func TestStandbyThatPassesCallsOnIsAsGoodAsTheLeader(t *testing.T) {
	s := runAmong(t, 2)
	c := s.coordinator
	s.servers.all[0].passOn(t, s.servers.all[1])
	s.servers.lead(1)
	a, cmd := s.engine(100, "exec sleep 1000")
	c.do(func() { c.hold = true })
	done := s.ask(t.Context(), waiter())
	c.await("it waits", func() bool { return len(c.asked) == 2 })
	c.do(func() { c.hold = false })
	if o := s.result(done); o.err != nil || o.allocation.GetState() != reserved {
		t.Errorf("%v, %v", o.allocation, o.err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	c.awaitState(a.GetId(), released)
}
