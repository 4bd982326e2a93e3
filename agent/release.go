package agent

import (
	"context"
	"errors"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/agent/contain"
	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/socket"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/spelling"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers/host"
)

// Release gives an allocation back, and stops watching its engine. While a process of the engine
// lives, the allocation only becomes releasing, and an engine that this agent has launched is
// stopped. If no coordinator answers, Release goes on until its caller's deadline. When its caller
// has gone it goes on for the configured patience, if that is not more than 15 s and there are not
// too many such calls: a launcher whose engine has ended may end, too. If it does not go on, the
// agent itself finds the engine's end.
func (s *service) Release(ctx context.Context, request *bursarv1.ReleaseRequest) (*bursarv1.ReleaseResponse, error) {
	a := s.agent
	ctx, cancel := a.detached.detach(ctx, a.settings().Patience)
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)() //nolint:contextcheck // two contexts end the call
	if err := a.ownHost(ctx, request.GetId()); err != nil {
		return nil, err
	}
	request = proto.CloneOf(request)
	ends := a.endOf(ctx, request.GetId())
	if ends == stillRuns && a.hasLaunched(request.GetId()) {
		return s.releaseByStop(ctx, request)
	}
	request.ProcessEnded = ends == hasEnded
	answer, err := relay(ctx, a, a.deps.Allocations.Release, a.knownBetter(ctx, request))
	if err == nil && ends == notKnown && answer.msg.GetAllocation().GetReleasing() && a.foundEnded(ctx, request.GetId()) {
		request.ProcessEnded = true
		answer, err = relay(ctx, a, a.deps.Allocations.Release, a.knownBetter(ctx, request))
	}
	switch {
	case err != nil && s.stopping.Err() != nil:
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("the agent is shutting down: ask again"))
	case err != nil:
		return nil, err
	}
	engine := a.isEngine(request.GetId())
	if answer.msg.GetAllocation() == nil {
		a.locked(func(t *tracker.Tracker) { t.Released(request.GetId()) })
	} else {
		a.observe(ctx, answer.msg.GetAllocation(), answer.asOf)
	}
	if engine {
		a.scheduleSave() // a restart before that finds the process ended, and says so again
		a.watchEngine(ctx, request.GetId())
		// What the engine had touched can be granted once a sample shows that it is free.
		a.measureIn(0)
		a.syncDue.noLaterThan(time.Now().Add(measureGap))
	}
	return answer.msg, nil
}

// releaseByStop releases an engine that this agent has launched, and that runs: it is stopped, and
// its allocation ends with it.
func (s *service) releaseByStop(ctx context.Context, request *bursarv1.ReleaseRequest) (*bursarv1.ReleaseResponse, error) {
	a := s.agent
	reason := request.GetReason()
	if c := socket.CallerOf(ctx); reason == "" && c != nil {
		reason = "released by " + c.Actor.Name
	}
	answer, err := relay(ctx, a, a.deps.Allocations.Stop, &bursarv1.StopRequest{Id: request.GetId(), Reason: reason, Release: true})
	if err != nil {
		return nil, err
	}
	a.observe(ctx, answer.msg.GetAllocation(), answer.asOf)
	a.syncDue.noLaterThan(time.Now()) // the answer has the order to stop
	return &bursarv1.ReleaseResponse{Allocation: answer.msg.GetAllocation()}, nil
}

// hasLaunched reports whether this agent has started the engine of an allocation. If that cannot be
// read, the engine is taken for its launcher's own.
func (a *Agent) hasLaunched(id string) bool {
	_, err := a.records().Note(id)
	return err == nil
}

// lifeSign is what the agent knows of the processes of an engine.
type lifeSign uint8

const (
	notKnown  lifeSign = iota // it tracks no process of the allocation, or could not look
	stillRuns                 // a process lives
	hasEnded                  // none lives
)

// endOf looks whether a process of an allocation's engine lives. The pidfd of the engine's process
// says so at once. If that process has ended, what it has left is found below the engine's reaper,
// in the cgroup that the agent made for it, or in its session. If the last measurement has found
// other processes, and none of these places is complete, the next measurement decides.
func (a *Agent) endOf(ctx context.Context, id string) lifeSign {
	var p *bursarv1.Process
	found, others := false, false
	a.locked(func(t *tracker.Tracker) {
		grant, _ := t.Get(id)
		p, found, others = grant.GetProcess(), t.Ended(id) != nil, a.engines.known(id).others
	})
	switch {
	case found:
		return hasEnded
	case p.GetPid() == 0 || p.GetStartTime() == 0:
		return notKnown
	}
	root, reaper := process.Ref{PID: p.GetPid(), StartTime: p.GetStartTime()}, process.Ref{PID: p.GetReaperPid(), StartTime: p.GetReaperStartTime()}
	handle, err := a.opener.Open(root)
	if err == nil {
		handle.Close()
		return stillRuns
	}
	if !errors.Is(err, process.ErrEnded) {
		a.log.Warn("it is not known whether an engine has ended that is released", "allocation_id", id, "error", err)
		return notKnown
	}
	var lives bool
	if reaper.PID != 0 {
		if lives, err = a.opener.Below(reaper); err == nil {
			return asLifeSign(lives)
		}
	}
	if p.GetCgroup() != "" && a.cgroups.Made(id, p.GetCgroup()) {
		inside := a.deps.Meter.Marks(host.Engine{ID: id, PID: root.PID, StartTime: root.StartTime, Cgroup: p.GetCgroup(), Reaper: host.Reaper(reaper)}).Inside
		if inside != host.OccupancyUnknown {
			return asLifeSign(inside == host.Occupied)
		}
	}
	if b, sees := a.deps.Meter.(blinder); others || sees && b.Blind() != "" {
		return notKnown
	}
	if lives, err = a.opener.Led(ctx, root); err != nil {
		return notKnown
	}
	return asLifeSign(lives)
}

// endPatience bounds how long a Release waits for the measurement that finds an engine's end.
const endPatience = time.Second

// foundEnded measures, and reports whether the engine has ended by then. A measurement that is
// under way may have begun too early, so the one after it counts, too.
func (a *Agent) foundEnded(ctx context.Context, id string) bool {
	ctx, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	for range 2 {
		var measured chan struct{}
		a.locked(func(*tracker.Tracker) { measured = a.measured })
		a.measureIn(0)
		select {
		case <-measured:
		case <-ctx.Done():
			return false
		}
		runs := false
		a.locked(func(t *tracker.Tracker) { _, runs = t.Engine(id) }) // it is listed until it has ended
		if !runs {
			return true
		}
	}
	return false
}

func asLifeSign(lives bool) lifeSign {
	if lives {
		return stillRuns
	}
	return hasEnded
}

// knownBetter adds to a release what the agent knows and the launcher does not: that the engine
// was stopped, and why, or that it was killed for lack of memory. The launcher is often the first
// to see that its engine has ended. It changes the request.
func (a *Agent) knownBetter(ctx context.Context, request *bursarv1.ReleaseRequest) *bursarv1.ReleaseRequest {
	id := request.GetId()
	var engine host.Engine
	var end *bursarv1.EngineEnd
	var machine int64
	a.locked(func(t *tracker.Tracker) {
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
		if end.GetReason() != tracker.ProcessEnded { // which says less than who released it
			request.Reason = joinedReasons(end.GetReason(), request.GetReason())
		}
		request.ErrorOutput = orDefault(end.GetErrorOutput(), request.GetErrorOutput())
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
	reason := a.endReason(id)
	exit := request.GetExitStatus()
	var lack contain.Lack
	if exit != nil {
		if exit, lack = a.cgroups.LackOfMemory(ctx, engine, exit); reason == "" && exit.GetOutOfMemory() {
			reason = endText(exit, lack)
		}
	}
	engine.Moved, engine.Given = !cgroup.Whole(engine.Cgroup), engine.Cgroup != "" && !a.cgroups.Made(id, engine.Cgroup)
	marks := a.marks(ctx, engine, exit, lack, said)
	a.locked(func(t *tracker.Tracker) {
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

// isEngine reports whether an allocation has a process here.
func (a *Agent) isEngine(id string) (engine bool) {
	a.locked(func(t *tracker.Tracker) {
		grant, held := t.Get(id)
		engine = held && grant.GetProcess().GetPid() != 0
	})
	return engine
}
