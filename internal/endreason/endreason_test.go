package endreason

import (
	"testing"
	"time"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestReason(t *testing.T) {
	code := func(n int32) *bursarv1.ExitStatus { return &bursarv1.ExitStatus{Code: &n} }
	signal := func(n int32) *bursarv1.ExitStatus { return &bursarv1.ExitStatus{Signal: n} }
	at := time.Date(2026, 11, 29, 10, 0, 0, 5, time.FixedZone("", 3600))
	for want, e := range map[string]Left{
		"last process was killed by SIGKILL; main process had ended with exit code 0 at 2026-11-29T09:00:00Z":                                        {Leader: code(0), Last: signal(9)},
		"last process ended with exit code 1; main process had been killed by SIGTERM at 2026-11-29T09:00:00Z":                                       {Leader: signal(15), Last: code(1)},
		"last process ended; main process had ended at 2026-11-29T09:00:00Z":                                                                         {},
		"last process ended with exit code 0; main process had ended with exit code 7 at 2026-11-29T09:00:00Z; a process had been killed by SIGKILL": {Leader: code(7), Last: code(0), Killed: 1, KilledBy: 9},
		"last process was killed by signal 40; main process had ended at 2026-11-29T09:00:00Z; 12 processes had been killed, the latest by SIGSEGV":  {Last: signal(40), Killed: 12, KilledBy: 11},
	} {
		e.LeaderTime = at
		if got := e.Text(); got != want {
			t.Errorf("%q\nwant %q", got, want)
		}
	}
}
