// Package endreason puts into words how an engine ended whose main process had ended before its
// last one. Agents and bursar run say it in the same words. The package keeps nothing.
package endreason

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Left is the end of such an engine.
type Left struct {
	// Leader is how the main process ended, nil if that is not known, and LeaderTime when.
	Leader     *bursarv1.ExitStatus
	LeaderTime time.Time
	// Last is how the last process ended. Nil: not known.
	Last *bursarv1.ExitStatus
	// Killed is how many processes signals ended between the two, as far as that is known, and
	// KilledBy the signal of the latest one.
	Killed   int
	KilledBy int32
}

// Text returns the reason of the end.
func (l Left) Text() string {
	text := "last process " + Past(l.Last) + "; main process had "
	if signal := l.Leader.GetSignal(); signal != 0 {
		text += "been killed by " + Signal(signal)
	} else {
		text += Past(l.Leader)
	}
	text += " at " + l.LeaderTime.UTC().Format(time.RFC3339)
	switch {
	case l.Killed == 1:
		text += "; a process had been killed by " + Signal(l.KilledBy)
	case l.Killed > 1:
		text += fmt.Sprintf("; %d processes had been killed, the latest by %s", l.Killed, Signal(l.KilledBy))
	}
	return text
}

// Past says how a process ended, in the past tense. Nil: that is not known.
func Past(exit *bursarv1.ExitStatus) string {
	if exit == nil {
		return "ended"
	}
	if signal := exit.GetSignal(); signal != 0 {
		return "was killed by " + Signal(signal)
	}
	return fmt.Sprintf("ended with exit code %d", exit.GetCode())
}

// Signal names a signal: SIGKILL, or signal 40.
func Signal(signal int32) string {
	if name := unix.SignalName(unix.Signal(signal)); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", signal)
}
