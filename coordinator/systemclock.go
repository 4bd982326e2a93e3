package coordinator

import (
	"time"

	"github.com/bursar/bursar/coordinator/core"
)

// systemClock is this machine's clock.
type systemClock struct{ start time.Time }

// SystemClock returns the clock of this machine.
func SystemClock() core.Clock { return systemClock{start: time.Now()} }

func (systemClock) Now() time.Time { return time.Now() }

// Elapsed uses the clock's monotonic reading.
func (c systemClock) Elapsed() time.Duration { return time.Since(c.start) }
