package agent

import (
	"fmt"
	"sync/atomic"
	"time"
)

// How long one pass of a loop may take before the loop counts as hung. A Sync that no coordinator
// answers ends by itself within twice syncTimeout; reading a process table, and writing the state
// file to a disk that is busy, may take long, but not that long.
const (
	longestMeasure = 30 * time.Second
	longestSync    = 30 * time.Second
	longestSave    = time.Minute
)

// watchedLoop says whether a loop works. One goroutine makes the passes; any may ask.
type watchedLoop struct {
	doing   string
	longest time.Duration
	due     *wakeup // when the next pass is to begin; nil: when there is something to do

	born  time.Time    // began counts from then, by the monotonic clock
	began atomic.Int64 // when the pass under way began, in nanoseconds; 0: there is none
}

// do is one pass.
func (l *watchedLoop) do(f func()) {
	l.began.Store(max(1, int64(time.Since(l.born))))
	defer l.began.Store(0)
	f()
}

// hung says what is wrong if the loop hangs.
func (l *watchedLoop) hung(now time.Time) error {
	if began := l.began.Load(); began != 0 {
		if took := now.Sub(l.born) - time.Duration(began); took > l.longest {
			return fmt.Errorf("%s takes %s: want at most %s", l.doing, took.Round(time.Millisecond), l.longest)
		}
		return nil
	}
	if l.due == nil {
		return nil
	}
	if late := now.Sub(l.due.when()); late > l.longest {
		return fmt.Errorf("%s is late by %s: want at most %s", l.doing, late.Round(time.Millisecond), l.longest)
	}
	return nil
}

// watchedLoops are the loops without which the agent is of no use.
type watchedLoops struct {
	measure, sync, save *watchedLoop
}

func newWatchedLoops(now time.Time, measureDue, syncDue *wakeup) watchedLoops {
	return watchedLoops{
		measure: &watchedLoop{doing: "measuring the machine", longest: longestMeasure, due: measureDue, born: now},
		sync:    &watchedLoop{doing: "a heartbeat to the coordinator", longest: longestSync, due: syncDue, born: now},
		save:    &watchedLoop{doing: "writing the state file", longest: longestSave, born: now},
	}
}

// Live reports whether the loops work that measure, send heartbeats and store the state, while Run
// serves; the error says which one hangs. It is no error if no coordinator answers, or if a disk
// is only slow. Live takes no lock that a loop holds while it works.
func (a *Agent) Live(now time.Time) error {
	for _, l := range []*watchedLoop{a.loops.measure, a.loops.sync, a.loops.save} {
		if err := l.hung(now); err != nil {
			return err
		}
	}
	return nil
}
