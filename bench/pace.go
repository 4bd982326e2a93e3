package main

import (
	"context"
	"slices"
	"sync"
	"time"
)

// pace starts work at an interval, even if earlier work is not done, until ctx ends; then it waits
// for all of it. Thus a slow server gets as many calls as a fast one, and a pause affects as many
// calls as in production.
func pace(ctx context.Context, every time.Duration, work func()) {
	var group sync.WaitGroup
	defer group.Wait()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			group.Go(work)
		}
	}
}

// stopwatch collects durations, and the first error.
type stopwatch struct {
	mu   sync.Mutex
	took []time.Duration // guarded by mu
	err  error           // guarded by mu
}

func (s *stopwatch) add(took time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		if s.err == nil {
			s.err = err
		}
		return
	}
	s.took = append(s.took, took)
}

// sorted returns the durations, shortest first.
func (s *stopwatch) sorted() ([]time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.took)
	return s.took, s.err
}
