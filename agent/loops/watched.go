package loops

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Watched says whether a loop works. One goroutine makes the passes; any may ask.
type Watched struct {
	doing   string
	longest time.Duration
	due     *Wakeup // when the next pass is to begin; nil: when there is something to do

	born  time.Time    // began counts from then, by the monotonic clock
	began atomic.Int64 // when the pass under way began, in nanoseconds; 0: there is none
}

// NewWatched returns the watch over a loop whose passes take at most longest. due says when its
// next pass is to begin; nil: whenever there is something to do. doing names the work of the loop
// in an error.
func NewWatched(now time.Time, doing string, longest time.Duration, due *Wakeup) *Watched {
	return &Watched{doing: doing, longest: longest, due: due, born: now}
}

// Do is one pass.
func (l *Watched) Do(f func()) {
	l.began.Store(max(1, int64(time.Since(l.born))))
	defer l.began.Store(0)
	f()
}

// Hung returns an error if the loop hangs.
func (l *Watched) Hung(now time.Time) error {
	if began := l.began.Load(); began != 0 {
		if took := now.Sub(l.born) - time.Duration(began); took > l.longest {
			return fmt.Errorf("%s takes %s: want at most %s", l.doing, took.Round(time.Millisecond), l.longest)
		}
		return nil
	}
	if l.due == nil {
		return nil
	}
	if late := now.Sub(l.due.When()); late > l.longest {
		return fmt.Errorf("%s is late by %s: want at most %s", l.doing, late.Round(time.Millisecond), l.longest)
	}
	return nil
}
