package coordinator

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"connectrpc.com/connect"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// What waits to be executed is in the store. The leader reads it when it can send the order, and
// keeps nothing of it.
func TestPendingLaunchesAreNotInMemory(t *testing.T) {
	c := newAuthServer(t)
	c.addHosts(t)
	g := c.attach(t, "agent1", "h1")
	alice := c.visit(t, "alice")
	const launches, size = 150, 60 << 10
	heap := func() int64 {
		runtime.GC()
		runtime.GC() // what pools have is freed by the second
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	start := func(i int) {
		t.Helper()
		req := startRequest(fmt.Sprint("job-", i))
		req.Request.Host = &bursarv1.HostWishes{Id: "h1"}
		req.Request.Async = true
		req.Launch.Environment["LARGE"] = strings.Repeat("x", size)
		if _, err := alice.engines.Start(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if order := g.next(t); len(order.GetSpec()) < size { // it is sent, and its agent says nothing
			t.Errorf("an order of %d bytes", len(order.GetSpec()))
		}
	}
	start(0)
	before := heap()
	for i := range launches {
		start(i + 1)
	}
	if grown := heap() - before; grown > launches*size/3 {
		t.Errorf("%d launches of %d bytes take %d bytes of the heap: want less than a third of them", launches, size, grown)
	}
	runtime.KeepAlive(c)
}

// A launch is bounded with its secrets: orders with them wait in memory.
func TestALaunchIsBoundedWithItsSecrets(t *testing.T) {
	c := newAuthServer(t)
	c.addHosts(t)
	alice := c.visit(t, "alice")
	req := startRequest("large")
	req.Secrets = map[string]string{"TOKEN": strings.Repeat("x", 40<<10), "OTHER": strings.Repeat("x", 40<<10)}
	_, err := alice.engines.Start(t.Context(), req)
	if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "with secrets") || strings.Contains(err.Error(), "xxx") {
		t.Errorf("%v", err)
	}
}
