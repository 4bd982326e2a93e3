package proc

import (
	"sync/atomic"
	"testing"
	"time"
)

// beat is how often Delays looks at the clock, and late how much later than that it may do so
// before it counts: timers and schedulers are not exact.
const (
	beat = 10 * time.Millisecond
	late = 10 * time.Millisecond
)

// Delays measures, until the end of the test, for how long this machine had no time for this
// process. A bound of a test on real time is what the code may take plus these delays: on a busy
// machine everything takes longer, and that is no fault of the code.
func Delays(tb testing.TB) func() time.Duration {
	tb.Helper()
	var sum atomic.Int64
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		again := time.NewTicker(beat)
		defer again.Stop()
		for last := time.Now(); ; {
			select {
			case <-again.C:
			case <-end:
				return
			}
			now := time.Now()
			sum.Add(int64(delay(now.Sub(last))))
			last = now
		}
	}()
	tb.Cleanup(func() {
		close(end)
		<-ended
	})
	return func() time.Duration { return time.Duration(sum.Load()) }
}

// delay is what of the time between two looks was a delay.
func delay(gap time.Duration) time.Duration {
	if gap <= beat+late {
		return 0
	}
	return gap - beat
}
