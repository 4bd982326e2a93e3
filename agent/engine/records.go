package engine

import (
	"context"
	"errors"
	"time"

	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/tracker"
)

// cleanEvery is how often the agent looks for records that are not needed any more, and for keepers
// that should have ended.
const cleanEvery = 10 * time.Second

// recordsPassed removes the records of launches whose allocations are over, once the coordinator
// has heard so. Only the measuring loop calls it.
func (s *Engines) recordsPassed(ctx context.Context, now time.Time) {
	if now.Sub(s.cleaned) < cleanEvery {
		return
	}
	agreed := false
	s.state.Locked(func(t *tracker.Tracker) { agreed = t.Agreed() })
	if !agreed {
		return // some allocations may not be known yet
	}
	ids, err := s.records.List()
	for _, id := range ids {
		// In this order: if a call ends in between, its allocation is known by then.
		if s.launches.has(id) || s.runs(id) {
			continue
		}
		watch, wrong := s.keepers.endHeld(ctx, id, now)
		if !watch && !s.knows(id) {
			wrong = errors.Join(wrong, s.records.Remove(id))
		}
		err = errors.Join(err, wrong)
	}
	if err != nil {
		s.log.Warn("records of engines could not be cleaned up", "error", err)
	}
	s.cleaned = now
}

// LaunchNote returns the note about the launch of an engine. launch.ErrNone: this agent has not
// launched it.
func (s *Engines) LaunchNote(id string) (launch.Note, error) {
	return s.records.Note(id) //nolint:wrapcheck // the caller knows what it asked for
}
