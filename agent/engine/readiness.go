package engine

import (
	"context"
	"errors"
	"time"

	"github.com/bursar/bursar/agent/keeper"
	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/ready"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers/host"
)

// endedPatience is how long the end of an engine that has ended before it was ready may take to be
// measured. If it is not, the keeper alone has ended, and nothing looks any more.
const endedPatience = 10 * time.Second

// checkReady is the check of a launch, which the agent can see. Nil: its request has none. The
// error is a *launch.FieldError.
func (s *Engines) checkReady(l *Launch) (*ready.Spec, error) {
	if l.Ready == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	spec, err := ready.FromProto(l.Ready)
	if err == nil {
		err = s.sight.Refuse(spec, ready.Subject{UID: l.User.UID, Launched: true, WorkingDirectory: l.directory()})
	}
	return &spec, err //nolint:wrapcheck // says all
}

// lookOf is the part of a check that the engine's keeper makes. Nil: it makes none.
func lookOf(check *ready.Spec, directory string) *keeper.Look {
	if check == nil {
		return nil
	}
	return check.Look(directory)
}

// storedCheck is the part of a check that the agent stores. Nil: there is no check.
func storedCheck(check *ready.Spec) *launch.Check {
	if check == nil {
		return nil
	}
	c := check.Stored()
	return &c
}

// hasBegun notes that the engine of a launch may have run, and watches whether it is ready.
func (s *Engines) hasBegun(id, logDirectory string, check *launch.Check) {
	ticks := host.TicksSinceBoot()
	if check != nil {
		if err := s.records.PutBegun(id, launch.Begun{Ticks: ticks, BootID: s.state.BootID()}); err != nil {
			s.log.Warn("the start of an engine could not be noted: after a restart of the agent its time to become ready counts from the start of its process", "allocation_id", id, "error", err)
		}
	}
	s.noteBegun(id, logDirectory, check, ticks)
}

// noteBegun notes that an engine may have run since a moment, in clock ticks after boot.
func (s *Engines) noteBegun(id, logDirectory string, check *launch.Check, ticks uint64) {
	var engine ready.Engine
	var ctx context.Context
	s.state.Locked(func(t *tracker.Tracker) {
		current, listed := t.Engine(id)
		if !listed || !current.Identified {
			return
		}
		e := s.set.enter(id)
		e.resumed = true
		t.SetBegun(id, logDirectory, check != nil)
		if t.Phase(id) != bursarv1.Phase_PHASE_STARTING || e.looks != nil {
			return
		}
		e.looks = &looking{}
		ctx, e.looks.end = context.WithCancel(context.Background()) //nolint:fatcontext // one
		engine = ready.Engine{
			ID: id, Begun: ready.Begun(process.Ref{StartTime: ticks}, host.TicksSinceBoot()),
			Root:   process.Ref{PID: current.Process.GetPid(), StartTime: current.Process.GetStartTime()},
			Reaper: process.Ref{PID: current.Process.GetReaperPid(), StartTime: current.Process.GetReaperStartTime()},
		}
	})
	if ctx != nil {
		results := s.ready.Watch(ctx, engine, *check)
		s.background(func() { s.becomeReady(ctx, engine, results) })
	}
}

// becomeReady takes the result of an engine's check.
func (s *Engines) becomeReady(ctx context.Context, engine ready.Engine, results <-chan ready.Result) {
	result, found := <-results
	if !found {
		return // the agent ends, or the engine has
	}
	launch.Protect(engine.Reaper, s.isProcess)
	if result.Ended {
		s.measureDue.In(0)
		ended := time.NewTimer(endedPatience)
		defer ended.Stop()
		select { // how it ended says more
		case <-ctx.Done():
			return
		case <-ended.C:
		}
	}
	s.log.Info("the start of an engine is over", "allocation_id", engine.ID, "phase", result.Phase) // its reason may be the user's words
	s.state.Locked(func(t *tracker.Tracker) { t.SetPhase(engine.ID, result.Phase, result.Reason, result.Time) })
	s.syncDue.In(0)
	s.state.ScheduleSave()
}

// unready reports whether an engine was to become ready and has not.
func (s *Engines) unready(id string) (unready bool) {
	s.state.Locked(func(t *tracker.Tracker) {
		phase := t.Phase(id)
		unready = phase == bursarv1.Phase_PHASE_STARTING || phase == bursarv1.Phase_PHASE_FAILED
	})
	return unready
}

// isProcess reports whether a process is still the one that it was.
func (s *Engines) isProcess(ref process.Ref) bool {
	found, err := s.meter.Identify(ref.PID)
	return err == nil && found.StartTime == ref.StartTime
}

// resume notes which engines have begun that an earlier incarnation of the agent has launched, and
// goes on with their checks.
func (s *Engines) resume() {
	var launched []string
	s.state.Locked(func(t *tracker.Tracker) {
		for _, current := range t.Engines() {
			if e := s.set.known(current.ID); !e.resumed && current.Process.GetLaunched() && current.Identified {
				launched = append(launched, current.ID)
			}
		}
	})
	for _, id := range launched {
		s.resumeOne(id)
	}
}

func (s *Engines) resumeOne(id string) {
	if s.launches.has(id) || s.keepers.mustEnd(id) {
		return // its launch says so, or it has not begun
	}
	note, err := s.records.Note(id)
	if err != nil {
		if !errors.Is(err, launch.ErrNone) {
			s.log.Warn("it is not known where the output of an engine is, nor when it is ready", "allocation_id", id, "error", err)
		}
		s.state.Locked(func(t *tracker.Tracker) {
			if _, listed := t.Engine(id); listed {
				s.set.enter(id).resumed = true
			}
		})
		return
	}
	begun, err := s.records.Begun(id)
	if err != nil || begun.BootID != s.state.BootID() {
		s.state.Locked(func(t *tracker.Tracker) {
			current, _ := t.Engine(id)
			begun.Ticks = current.Process.GetStartTime()
		})
	}
	s.noteBegun(id, note.LogDirectory, note.Ready, begun.Ticks)
}

// looking is the goroutine that waits until an engine is ready.
type looking struct{ end context.CancelFunc }

// stopLooking ends that goroutine.
func (e *engine) stopLooking() {
	if e.looks != nil {
		e.looks.end()
	}
}
