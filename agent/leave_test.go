package agent_test

import (
	"testing"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// lastSyncs are the reports that the coordinator got, after a number of them.
func (s *subject) lastSyncs(after int) (list []*bursarv1.SyncRequest) {
	s.coordinator.do(func() { list = append(list, s.coordinator.syncs[after:]...) })
	return list
}

func TestAnAgentThatEndsSaysSo(t *testing.T) {
	s := run(t)
	before := len(s.lastSyncs(0))
	s.stop()
	list := s.lastSyncs(before)
	if len(list) == 0 || !list[len(list)-1].GetLeaving() {
		t.Fatalf("the last of %d reports does not say that the agent ends", len(list))
	}
	for _, q := range s.lastSyncs(0)[:before] {
		if q.GetLeaving() {
			t.Errorf("report %d says that the agent ends, and it went on", q.GetSequence())
		}
	}
}

// A new leader takes no word of an agent that has not registered with it.
func TestAnAgentThatEndsSaysSoToANewLeader(t *testing.T) {
	s := run(t)
	var before int
	s.coordinator.do(func() { s.coordinator.epoch++; before = len(s.coordinator.syncs) })
	s.stop()
	list := s.lastSyncs(before)
	if len(list) == 0 {
		t.Fatal("no report")
	}
	if last := list[len(list)-1]; !last.GetLeaving() || last.GetEpoch() != s.coordinator.epoch {
		t.Errorf("the last report is leaving %t in epoch %d: want it in the leader's, %d", last.GetLeaving(), last.GetEpoch(), s.coordinator.epoch)
	}
}
