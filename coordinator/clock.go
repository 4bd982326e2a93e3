package coordinator

import (
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
)

// Clock tells the time in two ways.
type Clock interface {
	// Now is the time of day. People and time servers set it, both ways.
	Now() time.Time
	// Elapsed is how long the clock has run since some fixed moment. Nobody sets it.
	Elapsed() time.Duration
}

// systemClock is this machine's.
type systemClock struct{ start time.Time }

// SystemClock returns the clock of this machine.
func SystemClock() Clock { return systemClock{start: time.Now()} }

func (systemClock) Now() time.Time { return time.Now() }

func (c systemClock) Elapsed() time.Duration { return time.Since(c.start) } // by its monotonic reading

// steady is the ledger's time: the time of day at the start, and from then on as much as has elapsed. A jump of the clock
// while the coordinator runs neither expires what is held nor keeps it longer; a difference that builds up lasts until
// the next start. What the store holds at that start bounds it from below, see Core.Lead.
type steady struct {
	clock Clock
	base  ledger.Instant
	start time.Duration
}

func newSteady(clock Clock) steady {
	return steady{clock: clock, base: ledger.At(clock.Now()), start: clock.Elapsed()}
}

func (s steady) now() ledger.Instant { return s.base.Add(s.clock.Elapsed() - s.start) }
