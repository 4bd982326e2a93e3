package agent_test

import (
	"context"
	"sync"
	"testing"
	"time"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Callers that allow days and go at once hold nothing for longer than the patience, and no more
// than a few calls.
func TestReleasesWhoseCallersHaveGoneAreFewAndEndSoon(t *testing.T) {
	t.Run("few", func(t *testing.T) {
		s := newSubject(t)
		released := s.releasedByGone()
		s.coordinator.await("some are released", func() bool { return released() > 0 })
		<-time.After(time.Second) // more than any two of them differ
		s.coordinator.await("8 of 20 are released", func() bool { return released() == 8 })
	})
	t.Run("soon", func(t *testing.T) {
		s := newSubject(t)
		s.config.Patience = 200 * time.Millisecond
		released := s.releasedByGone()
		<-time.After(2 * time.Second) // more than between two attempts
		s.coordinator.await("none of 20 is released", func() bool { return released() == 0 })
	})
}

// releasedByGone starts the agent, and releases 20 allocations while no coordinator answers, which
// comes back after their callers have gone, and the patience is over if that is short. It returns
// what counts, under the coordinator's lock, how many of them are released.
func (s *subject) releasedByGone() func() int {
	s.t.Helper()
	s.start()
	ids := make([]string, 20)
	for i := range ids {
		ids[i] = s.allocate(1).GetId()
	}
	s.coordinator.goAway()
	ctx, cancel := context.WithTimeout(s.t.Context(), 24*time.Hour)
	var calls sync.WaitGroup
	for _, id := range ids {
		calls.Go(func() {
			if _, err := s.Release(ctx, &bursarv1.ReleaseRequest{Id: id}); err == nil {
				s.t.Error("nobody is there, and it was answered")
			}
		})
	}
	<-time.After(300 * time.Millisecond) // until they are under way
	cancel()
	calls.Wait()
	<-time.After(time.Second)
	s.coordinator.comeBack()
	return func() (n int) {
		for _, id := range ids {
			if s.coordinator.allocations[id].GetState() == released {
				n++
			}
		}
		return n
	}
}
