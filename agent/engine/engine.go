package engine

import (
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers/host"
)

// engine holds the agent's notes about one engine, and the steps that the agent takes to end it.
// The tracker has the engine itself and its measurements. The lock of the host's state guards one
// part. The measuring loop alone uses the other one, without a lock.
type engine struct {
	// Guarded by the lock of the host's state:

	// handle is the engine's process; nil: it is not watched.
	handle *process.Handle
	// orphans are processes of the engine that the last measurement has found elsewhere than below
	// the engine's process; nil: none.
	orphans *orphans
	// stop is the attempt to end the engine; nil: there was no order.
	stop *stopping
	// others: the last measurement has found processes besides the main one.
	others bool
	// asking: a coordinator is being asked to stop the engine.
	asking bool
	// told is how the main process ended, by its launcher's word; nil: it has not said so.
	told *bursarv1.ExitStatus
	// resumed: it was noted whether the engine has begun, if this agent has launched it. looks is
	// the goroutine that waits until it is ready; nil: there was none.
	resumed bool
	looks   *looking

	// Of the measuring loop alone:

	// partial says why the engine could not be measured in full; "": it could.
	partial string
	// doubts is how often in a row the engine seemed to have ended.
	doubts int
	// orphaned: the log says that the engine's process left others behind, which was noticed at
	// orphanedSince.
	orphaned      bool
	orphanedSince time.Time
	// unrecorded is when a launched engine was found to have ended without a record of how; zero:
	// it was not.
	unrecorded time.Time
}

// stopping is an attempt to end an engine.
type stopping struct {
	reason   string
	grace    time.Duration
	root     process.Ref
	underway bool
	failed   string // the last error; "": none
	// retry says how long it is until the same is tried again, and next when that is.
	retry backoff.BackOff
	next  time.Time
}

// isSame reports whether that is the order that was followed before.
func (s *stopping) isSame(other *stopping) bool {
	return s != nil && s.reason == other.reason && s.grace == other.grace && s.root == other.root
}

// orphans are those of one process.
type orphans struct {
	of   process.Ref
	list []host.Orphan
}

// watches reports whether the handle is that of this process.
func (e *engine) watches(p *bursarv1.Process) bool {
	return e.handle != nil && e.handle.Ref() == process.Ref{PID: p.GetPid(), StartTime: p.GetStartTime()}
}

// unwatch closes the handle, which ends the goroutine that waits for the process.
func (e *engine) unwatch() {
	if e.handle != nil {
		e.handle.Close()
		e.handle = nil
	}
}

// busy reports whether something is under way that must not be begun twice.
func (e *engine) busy() bool { return e.asking || e.stop != nil && e.stop.underway }

// set has an engine for each of which something is noted. The lock of the host's state guards it,
// except the part of each engine that belongs to the measuring loop. The zero value is ready to
// use.
//
// An engine is entered while the tracker lists it, by the first that has something to note about
// it. It is removed by the first measurement that begins after the tracker has ceased to list it.
// So the notes about an engine stay for a moment after its end: if its launcher releases it just
// then, the agent still says why it was stopped. A later engine of the same allocation begins with
// nothing.
type set struct {
	byID map[string]*engine // by allocation
}

// find returns nil if nothing is noted about the engine.
func (s *set) find(id string) *engine { return s.byID[id] }

// known returns an engine without a note if there is none. It changes nothing.
func (s *set) known(id string) *engine {
	if e := s.byID[id]; e != nil {
		return e
	}
	return &engine{}
}

// enter returns the engine of an allocation, and makes it if there is none. Nothing else makes
// one.
func (s *set) enter(id string) *engine {
	e := s.byID[id]
	if e == nil {
		if s.byID == nil {
			s.byID = make(map[string]*engine)
		}
		e = &engine{}
		s.byID[id] = e
	}
	return e
}

// removeEnded removes the engines that the tracker does not list. Nothing else removes one. Only
// the measuring loop calls it: no engine is removed while that uses its part. An engine that is
// being stopped stays until that is over: the tracker may list it again, and a stop that is under
// way must not begin a second time.
func (s *set) removeEnded(t *tracker.Tracker) {
	for id, e := range s.byID {
		if _, listed := t.Engine(id); !listed && !e.busy() {
			e.unwatch()
			e.stopLooking()
			delete(s.byID, id)
		}
	}
}

// unwatchStale closes the handle of an engine that the tracker does not list, or of which it lists
// another process.
func (s *set) unwatchStale(t *tracker.Tracker, id string) {
	e := s.byID[id]
	if e == nil {
		return
	}
	if current, listed := t.Engine(id); !listed || !e.watches(current.Process) {
		e.unwatch()
	}
}

// unwatchAll closes all handles, and ends all checks.
func (s *set) unwatchAll() {
	for _, e := range s.byID {
		e.unwatch()
		e.stopLooking()
	}
}
