package engine

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/agent/contain"
	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/spelling"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers/host"
)

// HasLaunched reports whether this agent has started the engine of an allocation. If that cannot be
// read, the engine is taken for its launcher's own.
func (s *Engines) HasLaunched(id string) bool {
	_, err := s.records.Note(id)
	return err == nil
}

// LifeSign says whether a process of an engine lives, as far as the agent knows.
type LifeSign uint8

// The signs of life.
const (
	NotKnown  LifeSign = iota // it tracks no process of the allocation, or could not look
	StillRuns                 // a process lives
	HasEnded                  // none lives
)

// EndOf looks whether a process of an allocation's engine lives. The pidfd of the engine's process
// says so at once. If that process has ended, its descendants are found below the engine's reaper,
// in the cgroup that the agent made for it, or in its session. If the last measurement has found
// other processes, and none of these places is complete, the next measurement decides.
func (s *Engines) EndOf(ctx context.Context, id string) LifeSign {
	var p *bursarv1.Process
	found, others := false, false
	s.state.Locked(func(t *tracker.Tracker) {
		grant, _ := t.Get(id)
		p, found, others = grant.GetProcess(), t.Ended(id) != nil, s.set.known(id).others
	})
	switch {
	case found:
		return HasEnded
	case p.GetPid() == 0 || p.GetStartTime() == 0:
		return NotKnown
	}
	root, reaper := process.Ref{PID: p.GetPid(), StartTime: p.GetStartTime()}, process.Ref{PID: p.GetReaperPid(), StartTime: p.GetReaperStartTime()}
	handle, err := s.opener.Open(root)
	if err == nil {
		handle.Close()
		return StillRuns
	}
	if !errors.Is(err, process.ErrEnded) {
		s.log.Warn("it is not known whether an engine has ended that is released", "allocation_id", id, "error", err)
		return NotKnown
	}
	var lives bool
	if reaper.PID != 0 {
		if lives, err = s.opener.Below(reaper); err == nil {
			return asLifeSign(lives)
		}
	}
	if p.GetCgroup() != "" && s.cgroups.Made(id, p.GetCgroup()) {
		inside := s.meter.Marks(host.Engine{ID: id, PID: root.PID, StartTime: root.StartTime, Cgroup: p.GetCgroup(), Reaper: host.Reaper(reaper)}).Inside
		if inside != host.OccupancyUnknown {
			return asLifeSign(inside == host.Occupied)
		}
	}
	if b, sees := s.meter.(Blinder); others || sees && b.Blind() != "" {
		return NotKnown
	}
	if lives, err = s.opener.Led(ctx, root); err != nil {
		return NotKnown
	}
	return asLifeSign(lives)
}

// endPatience bounds how long a Release waits for the measurement that finds an engine's end.
const endPatience = time.Second

// FoundEnded measures, and reports whether the engine has ended by then. A measurement that is
// under way may have begun too early, so the one after it counts, too.
func (s *Engines) FoundEnded(ctx context.Context, id string) bool {
	ctx, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	for range 2 {
		measured := s.state.Measured.Next()
		s.measureDue.In(0)
		select {
		case <-measured:
		case <-ctx.Done():
			return false
		}
		runs := false
		s.state.Locked(func(t *tracker.Tracker) { _, runs = t.Engine(id) }) // it is listed until it has ended
		if !runs {
			return true
		}
	}
	return false
}

func asLifeSign(lives bool) LifeSign {
	if lives {
		return StillRuns
	}
	return HasEnded
}

// KnownBetter adds facts to a release that the agent knows and the launcher does not: that the
// engine was stopped, and why, or that it was killed for lack of memory. The launcher is often the
// first to see that its engine has ended. It changes the request.
func (s *Engines) KnownBetter(ctx context.Context, request *bursarv1.ReleaseRequest) *bursarv1.ReleaseRequest {
	id := request.GetId()
	var engine host.Engine
	var end *bursarv1.EngineEnd
	var machine int64
	s.state.Locked(func(t *tracker.Tracker) {
		grant, _ := t.Get(id)
		p := grant.GetProcess()
		engine = host.Engine{ID: id, PID: p.GetPid(), StartTime: p.GetStartTime(), Cgroup: p.GetCgroup()}
		end = t.Ended(id)
		machine = t.Sample().GetMemoryTotalBytes()
	})
	said := processMarks(request, machine)
	sayUse(request, tracker.Use{})
	if end != nil { // found out already, and on its way
		sayUse(request, tracker.Use{Peak: end.GetMeasuredPeak(), Source: end.GetMeasuredPeakSource(), CPUTime: end.GetCpuTime()})
		if end.GetReason() != tracker.ProcessEnded { // the name of the caller says more
			request.Reason = joinedReasons(end.GetReason(), request.GetReason())
		}
		request.ErrorOutput = cmp.Or(end.GetErrorOutput(), request.GetErrorOutput())
		if end.GetExitStatus() != nil {
			request.ExitStatus = end.GetExitStatus()
		}
		request.Incidents = end.GetIncidents()
		return request
	}
	if engine.PID == 0 {
		request.Incidents = nil // the agent counts, and not its callers
		return request
	}
	reason := s.endReason(id)
	exit := request.GetExitStatus()
	var lack contain.Lack
	if exit != nil {
		if exit, lack = s.cgroups.LackOfMemory(ctx, engine, exit); reason == "" && exit.GetOutOfMemory() {
			reason = endText(exit, lack)
		}
	}
	engine.Moved, engine.Given = !cgroup.Whole(engine.Cgroup), engine.Cgroup != "" && !s.cgroups.Made(id, engine.Cgroup)
	marks := s.marks(ctx, engine, exit, lack, said)
	s.state.Locked(func(t *tracker.Tracker) {
		request.Incidents = t.Incidents(id)
		sayUse(request, t.LastUse(id, marks))
	})
	request.Reason, request.ExitStatus = joinedReasons(reason, request.GetReason()), exit
	return request
}

// joinedReasons are the reason that the agent knows and the one that a caller gives. That of a stop
// comes first; otherwise the caller knows best.
func joinedReasons(known, given string) string {
	if given == "" || known == given {
		return known
	}
	if strings.HasPrefix(known, "stopped") && !strings.HasPrefix(given, "stopped") {
		return spelling.Cut(known+"; "+given, maxReason)
	}
	return given
}

// HasProcess reports whether an allocation has a process here.
func (s *Engines) HasProcess(id string) (engine bool) {
	s.state.Locked(func(t *tracker.Tracker) {
		grant, held := t.Get(id)
		engine = held && grant.GetProcess().GetPid() != 0
	})
	return engine
}
