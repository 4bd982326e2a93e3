package core

import (
	"fmt"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
)

// Clock has the time of day and a monotonic clock.
type Clock interface {
	// Now is the time of day. Operators and time servers set it forward and back.
	Now() time.Time
	// Elapsed is the time since some fixed moment. It is monotonic.
	Elapsed() time.Duration
}

// Steady is a coordinator's clock: the time of day at the start plus the time that has elapsed
// since. A jump of the time of day while the coordinator runs changes nothing. See Skew for how
// the ledger's time follows from it.
type Steady struct {
	clock Clock
	base  ledger.Instant
	start time.Duration
}

// NewSteady returns a clock that starts at the time of day. A time before 1970, of a machine whose
// clock was never set, counts as 1970: instants below zero have no meaning.
func NewSteady(clock Clock) Steady {
	return Steady{clock: clock, base: max(ledger.At(clock.Now()), 1), start: clock.Elapsed()}
}

// Earliest is the earlier of two times: the current time of day, and Now. The ledger's time is
// never behind Now. Operations that cannot be undone use Earliest: a clock that is ahead, here or
// at an earlier leader, must not make anything old.
func (s Steady) Earliest() ledger.Instant { return min(s.Now(), ledger.At(s.clock.Now())) }

// Now is the current time.
func (s Steady) Now() ledger.Instant { return s.base.Add(s.clock.Elapsed() - s.start) }

// Skew is the offset of the ledger's time from a coordinator's clock in one leadership. If the
// store holds later times than the clock, the ledger's time continues from there, ahead of the
// clock. Until both agree, it runs slower than the clock by one part in skewPace. So a period t of
// the ledger's time takes at most t·skewPace/(skewPace−1). The zero Skew is no skew.
type Skew struct {
	Since ledger.Instant // when the leadership began, by the clock
	Ahead time.Duration  // at that time; not below zero
}

const (
	// skewPace makes an hour's skew disappear in ten hours, and makes no timer later than by a
	// ninth of its length.
	skewPace = 10
	// skewTold is the smallest skew with a warning. Clocks that a time server sets are far closer.
	skewTold = 5 * time.Second
)

// Left is how far the ledger's time is ahead at a time of the clock.
func (s Skew) Left(clock ledger.Instant) time.Duration {
	return min(s.Ahead, max(0, s.Ahead-clock.Sub(s.Since)/skewPace))
}

// Ledger is the ledger's time at a time of the clock. It rises with the clock.
func (s Skew) Ledger(clock ledger.Instant) ledger.Instant { return clock.Add(s.Left(clock)) }

// clock is the first time of the clock at which the ledger's time is at least at.
func (s Skew) clock(at ledger.Instant) ledger.Instant {
	passes := at.Sub(s.Since.Add(s.Ahead)) // by the ledger, since the leadership began
	if passes/(skewPace-1) >= s.Ahead {
		return at
	}
	return s.Since.Add(passes + max(0, passes)/(skewPace-1) + 1)
}

// Warning returns a warning if a clock is behind the ledger's time; empty if the skew is too small
// to matter.
func (s Skew) Warning(clock ledger.Instant) (list []string) {
	if left := s.Left(clock); left >= skewTold {
		list = append(list, fmt.Sprintf("the ledger's time is %s ahead of this coordinator's clock: an earlier leader's clock was ahead, or this one is behind; "+
			"it runs a tenth slower than time until both agree", left.Round(time.Second)))
	}
	return list
}
