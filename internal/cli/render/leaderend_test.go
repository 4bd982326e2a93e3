package render

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestTheEndOfAMainProcessIsShown(t *testing.T) {
	at := time.Date(2026, 11, 29, 10, 0, 0, 0, time.Local) //nolint:gosmopolitan // as it is shown
	now := at.Add(5 * time.Second)
	const when = "ended 2026-11-29 10:00:00 (5s ago)"
	code := &bursarv1.ExitStatus{Code: new(int32(0))}
	for name, test := range map[string]struct {
		a          *bursarv1.Allocation
		note, full string
	}{
		"it runs": {&bursarv1.Allocation{}, "", ""},
		"kept": {
			&bursarv1.Allocation{LeaderEnd: &bursarv1.LeaderEnd{ExitStatus: code, Policy: bursarv1.LeaderEndPolicy_LEADER_END_POLICY_KEEP}},
			"main process ended (code 0)",
			when + ", code 0; policy onLeaderEnd keep: others of the engine run, and keep the allocation until the last one ends",
		},
		"not known how, to be stopped": {
			&bursarv1.Allocation{LeaderEnd: &bursarv1.LeaderEnd{Policy: bursarv1.LeaderEndPolicy_LEADER_END_POLICY_STOP}},
			"main process ended", when + "; policy onLeaderEnd stop: others of the engine are due to be stopped",
		},
		"being stopped": {
			&bursarv1.Allocation{Stopping: true, LeaderEnd: &bursarv1.LeaderEnd{ExitStatus: &bursarv1.ExitStatus{Signal: 9}}},
			"main process ended (signal 9)", when + ", signal 9; others of the engine are being stopped",
		},
		"ended": {
			&bursarv1.Allocation{EndTime: timestamppb.New(now), LeaderEnd: &bursarv1.LeaderEnd{ExitStatus: code}}, "", when + ", code 0",
		},
	} {
		if test.a.GetLeaderEnd() != nil {
			test.a.LeaderEnd.Time = timestamppb.New(at)
		}
		if got := leaderEndNote(test.a); got != test.note {
			t.Errorf("%s: %q; want %q", name, got, test.note)
		}
		if got := LeaderEndText(test.a, now); got != test.full {
			t.Errorf("%s: %q; want %q", name, got, test.full)
		}
	}
}
