package agent_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/agent"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// A process that takes more than it is entitled to is ended by an order of the coordinator, which
// the agent has asked for in its own name.
func TestGreedyProcessIsStoppedThroughTheCoordinator(t *testing.T) {
	s := newSubject(t)
	s.config.Engines.Policies = []agent.PolicyConfig{{OnOverUse: "kill", Tolerance: "0%", Grace: time.Second, StopGrace: time.Second}}
	s.start()
	a, engine := s.stepper(40, "own")
	if base := s.baseline(a.GetId()); base > 35*mib {
		t.Fatalf("the engine holds %d bytes before it has begun", base)
	}
	engine.step()
	engine.step()
	end := s.coordinator.awaitState(a.GetId(), released)
	if !end.GetStopping() || !strings.HasPrefix(end.GetReason(), "stopped: uses ") || !strings.Contains(end.GetReason(), "is entitled to 40MiB") {
		t.Errorf("ended: %v", end)
	}
	if got := end.GetEntitled().GetMemoryBytes(); got != 40*mib {
		t.Errorf("the ledger counts %d bytes for it, want what it was entitled to", got)
	}
	s.coordinator.mu.Lock()
	defer s.coordinator.mu.Unlock()
	if !slices.ContainsFunc(s.coordinator.actors, func(actor identity.Actor) bool {
		return actor.Name == "agent:policy@h1" && actor.Anyone && actor.Host == "h1" && actor.Effective() == identity.Submitter
	}) {
		t.Errorf("not asked for in the agent's own name: %+v", s.coordinator.actors)
	}
	var over *bursarv1.OverUse
	for _, q := range s.coordinator.syncs {
		for _, report := range q.GetEngines() {
			for _, o := range report.GetOverUse() {
				over = o
			}
		}
	}
	if over.GetDimension() != "memory" || over.GetStopTime().AsTime().Sub(over.GetSince().AsTime()) != time.Second {
		t.Errorf("reported: %v", over)
	}
}
