package coordinator

import (
	"testing"
	"testing/synctest"
	"time"
)

// What a timer has begun has ended when its call ends: it must not touch an answer that is over.
func TestACallWaitsForTheTimerThatEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			after time.Duration // when it is stopped
			want  time.Duration // when stop returns
		}{
			"before its time":     {time.Second, time.Second},
			"while it ends":       {11 * time.Second, 13 * time.Second},
			"after it has ended":  {20 * time.Second, 20 * time.Second},
			"at once":             {0, 0},
			"as it begins to end": {10*time.Second + 1, 13 * time.Second},
		} {
			began, ended := time.Now(), false
			stop := endAfter(10*time.Second, func() {
				time.Sleep(3 * time.Second)
				ended = true
			})
			time.Sleep(c.after)
			inTime := stop()
			if took := time.Since(began); took != c.want || inTime != (c.after < 10*time.Second) || ended == inTime || stop() != inTime {
				t.Errorf("%s: in time %v, ended %v, after %v", name, inTime, ended, took)
			}
		}
	})
}
