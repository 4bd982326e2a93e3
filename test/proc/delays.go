package proc

import (
	"sync/atomic"
	"testing"
	"time"
)

// beat is how often Delays looks at the clock. late is the tolerance of that, because timers and
// schedulers are not exact.
const (
	beat = 10 * time.Millisecond
	late = 10 * time.Millisecond
)

// Delays measures, until the end of the test, for how long this process did not get the processor.
// A test's bound on real time is the time limit of the code plus these delays: on a busy machine
// everything takes longer, which is not the code's fault.
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

// delay returns the part of the time between two looks that was a delay.
func delay(gap time.Duration) time.Duration {
	if gap <= beat+late {
		return 0
	}
	return gap - beat
}
