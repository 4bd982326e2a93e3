package agent_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/test/proc"
)

// The ids of two stores, as stores make them.
const (
	storeA = "aaaabbbbccccddddeeeeffff22"
	storeB = "gggghhhhiiiijjjjkkkkllll33"
)

// An agent that is pinned to a store does not register at a coordinator of another one, after a
// restart either, until it is told to. The coordinator is of an earlier version: it shows its store
// in the answer to Register alone.
func TestAnAgentKeepsToItsCluster(t *testing.T) {
	s := newSubject(t)
	s.coordinator.storeID = storeA
	s.pin = client.NewPin("")
	s.start()
	if held := s.pin.Held(); held.Store != storeA {
		t.Fatalf("after its registration it belongs to %s: want store %s", held, storeA)
	}
	s.stop()

	s.coordinator.do(func() { s.coordinator.storeID, s.coordinator.syncs = storeB, nil })
	s.pin = client.NewPin("")
	s.log.Forget()
	s.begin()
	proc.Until(t, 20*time.Second, 10*time.Millisecond, "it refuses the other cluster", func() bool {
		return strings.Contains(s.log.String(), "belongs to store "+storeB) && strings.Contains(s.log.String(), "coordinators of another cluster were found")
	})
	s.coordinator.do(func() {
		if len(s.coordinator.syncs) > 0 {
			t.Error("it reports to a coordinator of another cluster")
		}
	})
	if seen := s.pin.Seen(); len(seen) != 1 || seen[0].Store != storeB {
		t.Errorf("seen %v: want store %s", seen, storeB)
	}
	s.stop()

	s.pin, s.forgetCluster = client.NewPin(""), true
	s.start()
	s.stop()
	s.pin, s.forgetCluster = client.NewPin(""), false
	s.start() // it has stored that
	if held := s.pin.Held(); held.Store != storeB {
		t.Errorf("it belongs to %s: want store %s", held, storeB)
	}
}
