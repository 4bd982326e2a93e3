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
	agents := map[string]*orderedAgent{"agent1": c.attach(t, "agent1", "h1"), "agent2": c.attach(t, "agent2", "h2")}
	alice := c.visit(t, "alice")
	req := startRequest("job-1")
	req.Launch.Ready, req.Retries = &bursarv1.Readiness{Check: &bursarv1.Readiness_Port{Port: 8080}}, 1
	answer := alice.begin(t, req)
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
	wait := &bursarv1.WaitRequest{Id: order.GetAllocationId(), Ready: true}
	onHost := identity.Actor{Name: "alice@" + first.host, Users: []string{"alice"}, Role: identity.Submitter, Host: first.host}
	w, err := c.visit(t, member, onHost).engines.Wait(t.Context(), wait)
	expect(t, "through the first host", err, connect.CodePermissionDenied, "not on host "+first.host)
	if w != nil {
		t.Errorf("it sees %v", w)
	}
	if w, err := alice.engines.Wait(t.Context(), wait); err != nil || w.GetAllocation().GetId() != a.GetId() {
		t.Errorf("from elsewhere: %v, %v", w, err)
	}
}
