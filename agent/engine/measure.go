package engine

import (
	"context"
	"time"

	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers/host"
)

// Pass is one measurement of all engines that the tracker lists.
type Pass struct {
	// Engines says how the meter is to find each.
	Engines []host.Engine

	engines []*engine
}

// BeginPass begins a measurement. Only the measuring loop calls it.
func (s *Engines) BeginPass() Pass {
	var listed []tracker.Engine
	var engines []*engine
	var handles []*process.Handle
	s.state.Locked(func(t *tracker.Tracker) {
		listed = t.Engines()
		s.set.removeEnded(t)
		for _, l := range listed {
			e := s.set.enter(l.ID)
			engines = append(engines, e)
			if e.handle != nil {
				handles = append(handles, e.handle)
			}
		}
	})
	for _, handle := range handles { // without the lock: older kernels have a file read for each
		handle.Touch() // processes that an engine leaves behind have started before this
	}
	list := make([]host.Engine, len(listed))
	for i, l := range listed {
		name := l.Process.GetCgroup()
		list[i] = host.Engine{
			ID: l.ID, PID: l.Process.GetPid(), StartTime: l.Process.GetStartTime(),
			Reaper: host.Reaper{PID: l.Process.GetReaperPid(), StartTime: l.Process.GetReaperStartTime()}, Left: orphansOf(l.Left),
			Cgroup: name, Moved: !cgroup.Whole(name), Given: name != "" && !s.cgroups.Made(l.ID, name), User: l.Process.Uid, //nolint:protogetter // nil says that it is not known
		}
	}
	return Pass{Engines: list, engines: engines}
}

// hooks act at each measurement in this order.
func (s *Engines) hooks() []hook {
	return []hook{
		{measured: s.leaderEndMeasured},
		{measured: s.endMeasured},
		{measured: s.inPartMeasured},
		{passed: s.cgroupsPassed},
		{passed: s.overUsePassed},
		{passed: s.keepers.passed},
		{passed: s.recordsPassed},
	}
}

// Usages returns the measured usage of the engines of a pass, for the tracker.
func (s *Engines) Usages(ctx context.Context, p Pass, usages []host.Usage) (list []tracker.Usage) {
	hooks := s.hooks()
	for i := range usages {
		m := measurement{engine: p.Engines[i], usage: usages[i]}
		usage := usageOf(m)
		for _, h := range hooks {
			if h.measured != nil {
				h.measured(ctx, p.engines[i], m, &usage)
			}
		}
		list = append(list, usage)
	}
	return list
}

// NoteFound notes processes of the engines besides their main ones. The lock of the state is held.
func (p Pass) NoteFound(usages []host.Usage) {
	for i, e := range p.engines {
		e.orphans, e.others = nil, usages[i].Processes > 1
		if left := usages[i].Orphans; len(left) > 0 {
			e.orphans = &orphans{of: process.Ref{PID: p.Engines[i].PID, StartTime: p.Engines[i].StartTime}, list: left}
		}
	}
}

// Passed acts on a measurement that the tracker has taken. began is when the measurement has begun,
// and ends are the engines that the tracker has found to have ended.
func (s *Engines) Passed(ctx context.Context, began time.Time, ends []*bursarv1.EngineEnd) {
	for _, end := range ends {
		s.log.Info("an engine has ended", "allocation_id", end.GetAllocationId(), "reason", end.GetReason(), "exit_status", end.GetExitStatus())
	}
	for _, h := range s.hooks() {
		if h.passed != nil {
			h.passed(ctx, began)
		}
	}
	s.AfterChange(ctx)
}

// cgroupsPassed has the cgroups of all engines looked at.
func (s *Engines) cgroupsPassed(context.Context, time.Time) { s.cgroups.ScheduleAll() }

// usageOf returns the figures of the meter for one engine.
func usageOf(m measurement) tracker.Usage {
	u := m.usage
	return tracker.Usage{
		ID: m.engine.ID, PID: m.engine.PID, StartTime: m.engine.StartTime,
		MemoryBytes: u.MemoryBytes, UnreclaimableBytes: u.UnreclaimableBytes, UnsureBytes: u.UnsureBytes,
		PeakBytes: u.PeakBytes, CacheBytes: u.CacheBytes, MappedBytes: u.MappedBytes, Processes: u.Processes,
		HighestBytes: u.HighestBytes, MarkBytes: u.MarkBytes,
		CPUMillis: u.CPUMillis, CPUTime: u.CPUTime,
		Partial:  u.Err != nil,
		Orphaned: !u.Alive && u.Processes > 0,
		Left:     remembered(u),
	}
}

// inPartMeasured logs that an engine could not be measured in full, once.
func (s *Engines) inPartMeasured(_ context.Context, e *engine, m measurement, usage *tracker.Usage) {
	switch err := m.usage.Err; {
	case err == nil:
		e.partial = ""
	case usage.Ended: // nothing more is measured
	case e.partial != err.Error():
		e.partial = err.Error()
		s.log.Warn("an engine could not be measured in full", "allocation_id", m.engine.ID, "error", e.partial)
	}
}

// AfterChange acts on a change of the tracker: it watches engines, sends a Sync if that is urgent,
// and has the state stored.
func (s *Engines) AfterChange(ctx context.Context) {
	s.Watch(ctx)
	urgent := false
	s.state.Locked(func(t *tracker.Tracker) { urgent = t.Urgent() })
	if urgent {
		s.syncDue.In(0)
	}
	s.state.ScheduleSave()
}
