package wire

import (
	"github.com/bursar/bursar/coordinator/ledger"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// leaderEndFrom converts an agent's report of the end of an engine's main process; nil without a
// valid time. A policy of a later version is unknown.
func leaderEndFrom(m *bursarv1.LeaderEnd) *ledger.LeaderEnd {
	at := instantFrom(m.GetTime())
	if m == nil || at == 0 {
		return nil
	}
	end := &ledger.LeaderEnd{Time: at, Exit: ExitFrom(m.GetExitStatus())}
	switch m.GetPolicy() {
	case bursarv1.LeaderEndPolicy_LEADER_END_POLICY_KEEP:
		end.Policy = ledger.KeepAtLeaderEnd
	case bursarv1.LeaderEndPolicy_LEADER_END_POLICY_STOP:
		end.Policy = ledger.StopAtLeaderEnd
	case bursarv1.LeaderEndPolicy_LEADER_END_POLICY_UNSPECIFIED:
	}
	return end
}

func leaderEndMessage(end *ledger.LeaderEnd) *bursarv1.LeaderEnd {
	if end == nil {
		return nil
	}
	return &bursarv1.LeaderEnd{Time: TimeMessage(end.Time), ExitStatus: exitMessage(end.Exit), Policy: bursarv1.LeaderEndPolicy(end.Policy)}
}

func exitMessage(e *ledger.ExitStatus) *bursarv1.ExitStatus {
	if e == nil {
		return nil
	}
	return &bursarv1.ExitStatus{Code: e.Code, Signal: e.Signal, OutOfMemory: e.OutOfMemory}
}
