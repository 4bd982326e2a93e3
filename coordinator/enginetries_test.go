package coordinator

import (
	"testing"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// A caller that comes through a host's agent may wait for an engine of that host. The next try is
// on another host, so it is not shown.
func TestAWaitThroughAHostShowsNoTryOnAnotherHost(t *testing.T) {
	c := newAuthServer(t)
	c.addHosts(t)
	alice := c.visit(t, "alice")
	tried := c.tryAgain(t, alice)
	wait := &bursarv1.WaitRequest{Id: tried.first.id, Ready: true}
	onHost := identity.Actor{Name: "alice@" + tried.first.agent.host, Users: []string{"alice"}, Role: identity.Submitter, Host: tried.first.agent.host}
	w, err := c.visit(t, tried.first.member, onHost).engines.Wait(t.Context(), wait)
	expect(t, "through the first host", err, connect.CodePermissionDenied, "not on host "+tried.first.agent.host)
	if w != nil {
		t.Errorf("it sees %v", w)
	}
	if w, err := alice.engines.Wait(t.Context(), wait); err != nil || w.GetAllocation().GetId() != tried.last.id {
		t.Errorf("from elsewhere: %v, %v", w, err)
	}
}

// A caller knows an engine by the id of its first try. That id is good for all calls about the
// engine, whichever try runs, and rights are those on the try that runs.
func TestTheIDOfTheFirstTryIsGoodForTheEngine(t *testing.T) {
	c := newAuthServer(t)
	c.addHosts(t)
	alice := c.visit(t, "alice")
	tried := c.tryAgain(t, alice)
	bob := c.visit(t, tried.last.member, identity.Actor{Name: "bob@" + tried.last.agent.host, Users: []string{"bob"}, Role: identity.Submitter, Host: tried.last.agent.host})
	first, last := tried.first.id, tried.last.id

	past, err := alice.allocations.Get(t.Context(), &bursarv1.AllocationServiceGetRequest{Id: first})
	if err != nil || past.GetAllocation().GetId() != first || past.GetAllocation().GetLaunch().GetSuccessorId() != last {
		t.Errorf("get: %v, %v; want one with the successor %s", past, err, last)
	}
	now, err := alice.allocations.Get(t.Context(), &bursarv1.AllocationServiceGetRequest{Id: first, LastTry: true})
	if err != nil || now.GetAllocation().GetId() != last || now.GetAllocation().GetLaunch().GetSuccessorId() != "" {
		t.Errorf("get the last try: %v, %v; want %s", now, err, last)
	}
	x, err := alice.allocations.Explain(t.Context(), &bursarv1.ExplainRequest{Id: first})
	if err != nil || x.GetAllocation().GetId() != last {
		t.Errorf("explain: %v, %v; want %s", x, err, last)
	}

	signal := &bursarv1.SignalRequest{Id: first, Signal: bursarv1.Signal_SIGNAL_USR1}
	_, err = bob.engines.Signal(t.Context(), signal)
	expect(t, "a signal of another user", err, connect.CodePermissionDenied, last)
	onHost := identity.Actor{Name: "alice@" + tried.first.agent.host, Users: []string{"alice"}, Role: identity.Submitter, Host: tried.first.agent.host}
	there := c.visit(t, tried.first.member, onHost)
	_, err = there.engines.Signal(t.Context(), signal)
	expect(t, "a signal through the first host", err, connect.CodePermissionDenied, last)
	_, err = there.allocations.Get(t.Context(), &bursarv1.AllocationServiceGetRequest{Id: first, LastTry: true})
	expect(t, "a get of the last try through the first host", err, connect.CodePermissionDenied, last)
	res, err := alice.engines.Signal(t.Context(), signal)
	if err != nil || res.GetId() != last {
		t.Fatalf("a signal: %v, %v; want one to %s", res, err, last)
	}
	if got := <-tried.last.agent.signaled; got != last {
		t.Errorf("the engine of %s got the signal, not that of %s", got, last)
	}

	_, err = alice.allocations.Amend(t.Context(), &bursarv1.AmendRequest{Id: first, Priority: new(int32(0))})
	expect(t, "an amendment of one that runs", err, connect.CodeFailedPrecondition, last)
	_, err = alice.allocations.Cancel(t.Context(), &bursarv1.CancelRequest{Id: first})
	expect(t, "a cancellation of one that runs", err, connect.CodeFailedPrecondition, last)
	stop := &bursarv1.StopRequest{Id: first}
	_, err = bob.allocations.Stop(t.Context(), stop)
	expect(t, "a stop by another user", err, connect.CodePermissionDenied, last)
	stopped, err := alice.allocations.Stop(t.Context(), stop)
	if err != nil || stopped.GetAllocation().GetId() != last || !stopped.GetAllocation().GetStopping() {
		t.Fatalf("stop: %v, %v; want %s, which stops", stopped, err, last)
	}
	tried.last.agent.report(t, func(r *bursarv1.SyncRequest) {
		r.Ended = []*bursarv1.EngineEnd{{AllocationId: last, ExitStatus: &bursarv1.ExitStatus{Signal: 15}}}
	})
	if w, err := alice.engines.Wait(t.Context(), &bursarv1.WaitRequest{Id: first}); err != nil || w.GetAllocation().GetId() != last {
		t.Errorf("wait: %v, %v; want %s", w, err, last)
	}
	_, err = alice.allocations.Stop(t.Context(), stop)
	expect(t, "a stop of one that has ended", err, connect.CodeFailedPrecondition, "tried again as "+last)
}

// aTry is one try of an engine.
type aTry struct {
	id     string // of its allocation
	member string // its agent's
	agent  *orderedAgent
}

// tries are those of an engine that was tried again.
type tries struct{ first, last aTry }

// tryAgain starts an engine that fails to become ready on its first host, and runs on the other.
func (c *authServer) tryAgain(t *testing.T, by *visitor) tries {
	t.Helper()
	agents := map[string]*orderedAgent{"agent1": c.attach(t, "agent1", "h1"), "agent2": c.attach(t, "agent2", "h2")}
	req := startRequest("job-1")
	req.Launch.Ready, req.Retries = &bursarv1.Readiness{Check: &bursarv1.Readiness_Port{Port: 8080}}, 1
	answer := by.begin(t, req)
	member, other := "agent1", "agent2"
	var order *bursarv1.LaunchOrder
	select {
	case order = <-agents["agent1"].orders:
	case order = <-agents["agent2"].orders:
		member, other = other, member
	}
	first, second := agents[member], agents[other]
	begin := func(g *orderedAgent, order *bursarv1.LaunchOrder, phase bursarv1.Phase) {
		if _, err := g.started(t, order, 100); err != nil {
			t.Fatal(err)
		}
		g.begun(t, order)
		g.report(t, func(r *bursarv1.SyncRequest) {
			r.Engines = []*bursarv1.EngineReport{{AllocationId: order.GetAllocationId(), Phase: phase}}
		})
	}
	begin(first, order, bursarv1.Phase_PHASE_FAILED)
	first.report(t, func(r *bursarv1.SyncRequest) {
		r.Ended = []*bursarv1.EngineEnd{{AllocationId: order.GetAllocationId(), ExitStatus: &bursarv1.ExitStatus{Signal: 15}}}
	})
	begin(second, second.next(t), bursarv1.Phase_PHASE_READY)
	a, err := answer()
	if err != nil || a.GetHostId() != second.host || a.GetId() == order.GetAllocationId() {
		t.Fatalf("%v, %v", a, err)
	}
	return tries{aTry{order.GetAllocationId(), member, first}, aTry{a.GetId(), other, second}}
}
