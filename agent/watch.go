package agent

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// watch opens the processes of new engines, and closes those of engines that have ended.
func (a *Agent) watch(ctx context.Context) {
	var unwatched []tracker.Engine
	a.locked(func(t *tracker.Tracker) {
		for id := range a.engines.byID {
			a.engines.unwatchStale(t, id)
		}
		for _, current := range t.Engines() {
			if e := a.engines.find(current.ID); e == nil || e.handle == nil {
				unwatched = append(unwatched, current)
			}
		}
	})
	for _, e := range unwatched {
		a.watchProcess(ctx, e.ID, e.Process)
	}
}

// watchEngine does so for one allocation, after a call about it.
func (a *Agent) watchEngine(ctx context.Context, id string) {
	var current tracker.Engine
	unwatched := false
	a.locked(func(t *tracker.Tracker) {
		a.engines.unwatchStale(t, id)
		var listed bool
		current, listed = t.Engine(id)
		e := a.engines.find(id)
		unwatched = listed && (e == nil || e.handle == nil)
	})
	if unwatched {
		a.watchProcess(ctx, id, current.Process)
	}
}

// watchProcess waits for the end of one engine's process. If that does not work, the next
// measurement finds its end.
func (a *Agent) watchProcess(ctx context.Context, id string, p *bursarv1.Process) {
	if p.GetStartTime() == 0 || p.Uid == nil { //nolint:protogetter // 0 is root
		p = a.complete(id, p)
	}
	handle, err := a.opener.Open(process.Ref{PID: p.GetPid(), StartTime: p.GetStartTime()})
	if err != nil {
		if !errors.Is(err, process.ErrEnded) {
			a.log.Warn("an engine's end will only be noticed by measuring", "allocation_id", id, "error", err)
		}
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	_, listed := a.tracker.Engine(id)
	// The engine may have ended, or another goroutine was faster.
	if e := a.engines.find(id); !listed || e != nil && e.handle != nil {
		handle.Close()
		return
	}
	a.engines.enter(id).handle = handle
	ctx = context.WithoutCancel(ctx) // until it is closed
	a.running.Go(func() {
		if handle.Wait(ctx) == nil {
			a.measureIn(settleTime)
		}
	})
}

// complete finds out when an engine's process started, and which user it runs as. The start is not
// known if the coordinator was given the pid alone; the user is not known if an agent of an
// earlier version has confirmed the engine.
func (a *Agent) complete(id string, p *bursarv1.Process) *bursarv1.Process {
	now, err := a.deps.Meter.Identify(p.GetPid())
	if err != nil || p.GetStartTime() != 0 && p.GetStartTime() != now.StartTime {
		return p
	}
	completed := proto.CloneOf(p)
	completed.StartTime, completed.BootId, completed.Uid = now.StartTime, a.bootID, &now.UID
	a.locked(func(t *tracker.Tracker) { t.SetProcess(id, completed) })
	return completed
}

// unwatch closes the processes of all engines.
func (a *Agent) unwatch() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.engines.unwatchAll()
}

// exitStatus says how an engine's process ended, if the kernel tells.
func (a *Agent) exitStatus(id string) *bursarv1.ExitStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := a.engines.find(id); e != nil && e.handle != nil {
		return e.handle.ExitStatus()
	}
	return nil
}
