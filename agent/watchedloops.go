package agent

import (
	"time"

	"github.com/bursar/bursar/agent/loops"
)

// How long one pass of a loop may take before the loop counts as hung. A Sync that no coordinator
// answers ends by itself within twice report.Timeout; reading a process table, and writing the
// state file to a disk that is busy, may take long, but not that long.
const (
	longestMeasure = 30 * time.Second
	longestSync    = 30 * time.Second
	longestSave    = time.Minute
)

// watchedLoops are the loops without which the agent is of no use.
type watchedLoops struct {
	measure, sync, save *loops.Watched
}

func newWatchedLoops(now time.Time, measureDue, syncDue *loops.Wakeup) watchedLoops {
	return watchedLoops{
		measure: loops.NewWatched(now, "measuring the machine", longestMeasure, measureDue),
		sync:    loops.NewWatched(now, "a heartbeat to the coordinator", longestSync, syncDue),
		save:    loops.NewWatched(now, "writing the state file", longestSave, nil),
	}
}

// Live reports whether the loops work that measure, send heartbeats and store the state, while Run
// serves; the error says which one hangs. It is no error if no coordinator answers, or if a disk
// is only slow. Live takes no lock that a loop holds while it works.
func (a *Agent) Live(now time.Time) error {
	for _, l := range []*loops.Watched{a.loops.measure, a.loops.sync, a.loops.save} {
		if err := l.Hung(now); err != nil {
			return err //nolint:wrapcheck // it says what hangs
		}
	}
	return nil
}
