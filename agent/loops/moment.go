package loops

import (
	"sync/atomic"
	"time"
)

// Moment is when something last happened, by the monotonic clock. The zero value is ready to use.
type Moment struct{ at atomic.Pointer[time.Time] }

// Now says that it happens now.
func (m *Moment) Now() {
	now := time.Now()
	m.at.Store(&now)
}

// Last is when it happened; the zero time: not yet.
func (m *Moment) Last() time.Time {
	if at := m.at.Load(); at != nil {
		return *at
	}
	return time.Time{}
}
