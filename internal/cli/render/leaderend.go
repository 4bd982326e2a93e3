package render

import (
	"strings"
	"time"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// leaderEndNote says in a few words that an engine goes on without its main process; empty: it does
// not.
func leaderEndNote(a *bursarv1.Allocation) string {
	end := a.GetLeaderEnd()
	if end == nil || a.GetEndTime() != nil {
		return ""
	}
	text := "main process ended"
	if how := ExitText(end.GetExitStatus()); how != "" {
		text += " (" + how + ")"
	}
	return text
}

// LeaderEndText says in full when and how an engine's main process ended, and how its host treats
// the others; empty: the engine ended with it, or has it.
func LeaderEndText(a *bursarv1.Allocation, now time.Time) string {
	end := a.GetLeaderEnd()
	if end == nil {
		return ""
	}
	parts := []string{"ended " + Ago(end.GetTime(), now)}
	if how := ExitText(end.GetExitStatus()); how != "" {
		parts[0] += ", " + how
	}
	switch {
	case a.GetEndTime() != nil:
	case a.GetStopping():
		parts = append(parts, "others of the engine are being stopped")
	case end.GetPolicy() == bursarv1.LeaderEndPolicy_LEADER_END_POLICY_STOP:
		parts = append(parts, "policy onLeaderEnd stop: others of the engine are due to be stopped")
	default:
		parts = append(parts, "policy onLeaderEnd keep: others of the engine run, and keep the allocation until the last one ends")
	}
	return strings.Join(parts, "; ")
}
