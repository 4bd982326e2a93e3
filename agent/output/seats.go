package output

import "sync"

// Limits bounds readers. Zero: there is no bound.
type Limits struct {
	// All is for all callers together, PerCaller for each.
	All, PerCaller int
}

// seats counts readers. A seat is free again when the helper's process has ended.
type seats struct {
	mu    sync.Mutex
	all   int            // guarded by mu
	taken map[string]int // guarded by mu; by caller
}

func (s *seats) take(caller string, limits Limits) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case limits.PerCaller > 0 && s.taken[caller] >= limits.PerCaller:
		return &BusyError{caller, limits.PerCaller}
	case limits.All > 0 && s.all >= limits.All:
		return &BusyError{Limit: limits.All}
	}
	if s.taken == nil {
		s.taken = make(map[string]int)
	}
	s.all++
	s.taken[caller]++
	return nil
}

func (s *seats) leave(caller string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.taken[caller]--; s.taken[caller] == 0 {
		delete(s.taken, caller)
	}
}
