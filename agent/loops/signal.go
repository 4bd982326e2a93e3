package loops

import "sync"

// Signal wakes all goroutines that wait for the next time that something happens. The zero value
// is ready to use.
type Signal struct {
	mu   sync.Mutex
	next chan struct{} // guarded by mu; nil: nobody has asked for it
}

// Next returns a channel that the next Happened closes.
func (s *Signal) Next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.next
}

// Happened closes the channel that Next has returned.
func (s *Signal) Happened() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}
