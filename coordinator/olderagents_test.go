package coordinator

import (
	"strings"
	"testing"

	"connectrpc.com/connect"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Agents of the version before open no stream of orders. Nothing is placed on their hosts for good:
// another host gets the engine, and if there is none, the answer says why.
func TestHostsWithOlderAgentsGetNoEngine(t *testing.T) {
	c := newAuthServer(t)
	c.addHosts(t)
	g := c.attach(t, "agent2", "h2")
	alice := c.visit(t, "alice")
	named := startRequest("named")
	named.Request.Host = &bursarv1.HostWishes{Id: "h1"}
	onNamed := alice.begin(t, named)
	preferred := startRequest("preferred")
	preferred.Request.Host = &bursarv1.HostWishes{Avoid: []string{"h2"}}
	onPreferred := alice.begin(t, preferred)
	for name, answer := range map[string]func() (*bursarv1.Allocation, error){"the host is named": onNamed, "the other host is avoided": onPreferred} {
		_, err := answer()
		if code := connect.CodeOf(err); code == connect.CodeDeadlineExceeded || code == connect.CodeUnknown || err == nil || !strings.Contains(err.Error(), "h1") || !strings.Contains(err.Error(), "takes no orders") || !strings.Contains(err.Error(), "older version") {
			t.Errorf("%s: %v", name, err)
		}
	}
	select {
	case order := <-g.orders:
		t.Errorf("an order for the other host: %v", order)
	default:
	}
	list, err := alice.allocations.List(t.Context(), &bursarv1.AllocationServiceListRequest{})
	if err != nil || len(list.GetAllocations()) != 0 {
		t.Errorf("left: %v, %v", list.GetAllocations(), err)
	}
}
