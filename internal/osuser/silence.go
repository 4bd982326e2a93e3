package osuser

import (
	"sync"
	"time"
)

const (
	// localTimeout bounds how long an account of a file waits for what the name service adds to it.
	localTimeout = time.Second
	// silentFor is how long it does not wait at all after the name service did not answer.
	silentFor = 10 * time.Second
)

// Silence remembers that the name service does not answer, so that accounts of files do not wait
// for it one after the other. Any goroutine may use it. Nil remembers nothing.
type Silence struct {
	// Noted is called when the name service did not answer for an account, which then has the
	// groups of files alone; nil: nobody is told.
	Noted func(user string, err error)

	mu    sync.Mutex
	since time.Time // guarded by mu; zero: it answers
}

// lasts reports whether the name service did not answer a short time ago.
func (s *Silence) lasts() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.since.IsZero() && time.Since(s.since) < silentFor
}

// note remembers that it did not answer.
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
