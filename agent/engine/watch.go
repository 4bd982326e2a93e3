package engine

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Watch opens the processes of new engines, and closes those of engines that have ended. It goes on
// with the checks of engines that an earlier incarnation has launched.
func (s *Engines) Watch(ctx context.Context) {
	var unwatched []tracker.Engine
	s.state.Locked(func(t *tracker.Tracker) {
		for id := range s.set.byID {
			s.set.unwatchStale(t, id)
		}
		for _, current := range t.Engines() {
			if e := s.set.find(current.ID); e == nil || e.handle == nil {
				unwatched = append(unwatched, current)
			}
		}
	})
	for _, e := range unwatched {
		s.watchProcess(ctx, e.ID, e.Process)
	}
	s.resume() //nolint:contextcheck // checks outlive the pass
}

// WatchEngine does so for one allocation, after a call about it.
func (s *Engines) WatchEngine(ctx context.Context, id string) {
	var current tracker.Engine
	unwatched := false
	s.state.Locked(func(t *tracker.Tracker) {
		s.set.unwatchStale(t, id)
		var listed bool
		current, listed = t.Engine(id)
		e := s.set.find(id)
		unwatched = listed && (e == nil || e.handle == nil)
	})
	if unwatched {
		s.watchProcess(ctx, id, current.Process)
	}
}

// watchProcess waits for the end of one engine's process. If that does not work, the next
// measurement finds its end.
func (s *Engines) watchProcess(ctx context.Context, id string, p *bursarv1.Process) {
	if p.GetStartTime() == 0 || p.Uid == nil { //nolint:protogetter // 0 is root
		p = s.complete(id, p)
	}
	handle, err := s.opener.Open(process.Ref{PID: p.GetPid(), StartTime: p.GetStartTime()})
	if err != nil {
		if !errors.Is(err, process.ErrEnded) {
			s.log.Warn("an engine's end will only be noticed by measuring", "allocation_id", id, "error", err)
		}
		return
	}
	ctx = context.WithoutCancel(ctx) // the goroutine waits until the handle is closed
	s.state.Locked(func(t *tracker.Tracker) {
		_, listed := t.Engine(id)
		// The engine may have ended, or another goroutine was faster.
		if e := s.set.find(id); !listed || e != nil && e.handle != nil {
			handle.Close()
			return
		}
		s.set.enter(id).handle = handle
		s.background(func() {
			if handle.Wait(ctx) == nil {
				s.measureDue.In(SettleTime)
			}
		})
	})
}

// complete finds out when an engine's process started, and which user it runs as. The start is not
// known if the coordinator was given the pid alone; the user is not known if an agent of an
// earlier version has confirmed the engine.
func (s *Engines) complete(id string, p *bursarv1.Process) *bursarv1.Process {
	now, err := s.meter.Identify(p.GetPid())
	if err != nil || p.GetStartTime() != 0 && p.GetStartTime() != now.StartTime {
		return p
	}
	completed := proto.CloneOf(p)
	completed.StartTime, completed.BootId, completed.Uid = now.StartTime, s.state.BootID(), &now.UID
	s.state.Locked(func(t *tracker.Tracker) { t.SetProcess(id, completed) })
	return completed
}

// Unwatch closes the processes of all engines, and ends their checks.
func (s *Engines) Unwatch() {
	s.state.Locked(func(*tracker.Tracker) { s.set.unwatchAll() })
}

// exitStatus says how an engine's process ended, if the kernel tells.
func (s *Engines) exitStatus(id string) (exit *bursarv1.ExitStatus) {
	s.state.Locked(func(*tracker.Tracker) {
		if e := s.set.find(id); e != nil && e.handle != nil {
			exit = e.handle.ExitStatus()
		}
	})
	return exit
}
