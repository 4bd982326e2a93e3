package main

import (
	"context"
	"slices"
	"sync"
	"time"
)

// pace starts work every so often, whether what it started before is done or not, until ctx ends; then it waits for all of it. So
// whoever is slow is asked no less, and a pause is felt by as many as it would be.
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

// stopwatch collects how long things took, and the first error.
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

// sorted returns what took how long, shortest first.
func (s *stopwatch) sorted() ([]time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.took)
	return s.took, s.err
}
