package osuser

import (
	"sync"
	"time"
)

const (
	// localTimeout bounds the wait for the name service's additions to an account of the file.
	localTimeout = time.Second
	// silentFor is how long lookups do not wait at all after the name service did not answer.
	silentFor = 10 * time.Second
)

// Silence remembers that the name service does not answer, so that lookups of accounts of the file
// do not all wait for it. It is safe for concurrent use. A nil Silence remembers nothing.
type Silence struct {
	// Noted is called when the name service did not answer for an account, which then has only the
	// groups of the file. Nil means no call.
	Noted func(user string, err error)

	mu    sync.Mutex
	since time.Time // guarded by mu; zero: the name service answers
}

// lasts reports whether the name service did not answer recently, within silentFor.
func (s *Silence) lasts() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.since.IsZero() && time.Since(s.since) < silentFor
}

// note remembers that the name service did not answer.
func (s *Silence) note(user string, err error) {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.since = time.Now()
	s.mu.Unlock()
	if s.Noted != nil {
		s.Noted(user, err)
	}
}
