package core

import (
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
)

func TestASkewsClockIsItsLedgersInverse(t *testing.T) {
	for _, ahead := range []time.Duration{0, 1, 9, time.Second, time.Hour, 100 * 365 * 24 * time.Hour} {
		s := Skew{Since: 1_800_000_000_000_000_000, Ahead: ahead}
		last := ledger.Instant(0)
		for _, passed := range []time.Duration{0, 1, 8, 9, 10, 11, 89, 90, 91, time.Second, time.Hour, 9*time.Hour + 7, 10 * time.Hour, 11 * time.Hour, 1000 * time.Hour} {
			clock := s.Since.Add(passed)
			at := s.Ledger(clock)
			if at < last {
				t.Errorf("ahead %s, after %s: %d after %d", ahead, passed, at, last)
			}
			last = at
			first := s.clock(at)
			if s.Ledger(first) < at || first > clock+skewPace {
				t.Errorf("ahead %s, after %s: the ledger's %d is first told at %d, %d then; want %d", ahead, passed, at, first, s.Ledger(first), clock)
			}
		}
	}
}
