package agent

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/tracker"
)

const (
	// abandonedPatience is how long the keeper of a launch that failed has to end its engine. It
	// gives the engine 10 s.
	abandonedPatience = 12 * time.Second
	// keeperPatience is how long a keeper has to end after its engine. It copies the last output
	// for at most a second.
	keeperPatience = 5 * time.Second
)

// abandoned is the keeper of a launch that failed.
type abandoned struct {
	id     string
	uid    uint32
	keeper process.Ref
	cgroup string
	since  time.Time
}

// leaveKeeper notes the keeper of a launch that has failed, for endAbandoned.
func (a *Agent) leaveKeeper(id string, uid uint32, keeper launch.Spawned) {
	found, err := a.deps.Meter.Identify(keeper.PID)
	if err != nil || found.UID != uid && found.UID != uint32(os.Geteuid()) { //nolint:gosec // a uid
		return // it has ended
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.abandoned = append(a.abandoned, abandoned{id, uid, process.Ref{PID: found.PID, StartTime: found.StartTime}, keeper.Cgroup, time.Now()})
}

// endAbandoned ends the keepers of launches that have failed, with all that they have started,
// unless they have done so themselves in good time. A keeper's user can stop it with a signal, and
// a home directory on a network can hold it. Only the measuring loop calls it.
func (a *Agent) endAbandoned(ctx context.Context, now time.Time) {
	var due []abandoned
	a.mu.Lock()
	a.abandoned = slices.DeleteFunc(a.abandoned, func(k abandoned) bool {
		if now.Sub(k.since) < abandonedPatience {
			return false
		}
		due = append(due, k)
		return true
	})
	a.mu.Unlock()
	for _, k := range due {
		if found, err := a.deps.Meter.Identify(k.keeper.PID); err != nil || found.StartTime != k.keeper.StartTime || found.Ended() {
			continue
		}
		a.running.Go(func() {
			engine := process.Engine{Root: k.keeper, User: &k.uid}
			if !a.launches.has(k.id) && !a.runs(k.id) { // else the cgroup is that of the next attempt
				engine.Cgroup, engine.Made = k.cgroup, a.cgroups.Made(k.id, k.cgroup)
				engine.Guarded, engine.Freezer = a.cgroups.Guarded(ctx, k.id, k.cgroup), a.cgroups.Freezer(ctx, k.id, k.cgroup)
			}
			err := a.opener.Stop(ctx, engine, 0)
			a.log.Warn("the keeper of a launch that failed was held, and is ended with all that it has started", "allocation_id", k.id, "pid", k.keeper.PID, "error", err)
		})
	}
}

// noteKept notes which processes were launched, for endHeldKeeper.
func (a *Agent) noteKept(id string, starting *launch.Starting) {
	keeper, err := a.deps.Meter.Identify(starting.Keeper.PID)
	if err == nil {
		err = a.records().PutKept(id, launch.Kept{
			PID: starting.PID, StartTime: starting.StartTime, KeeperPID: keeper.PID, KeeperStartTime: keeper.StartTime, BootID: a.bootID,
		})
	}
	if err != nil {
		a.log.Warn("the keeper of an engine could not be noted: if its user stops it, it stays", "allocation_id", id, "error", err)
	}
}

// endHeldKeeper ends the keeper of an engine that has ended, if the keeper has not ended long
// after it. It reports whether the keeper is still to be watched. Only the measuring loop calls it.
func (a *Agent) endHeldKeeper(ctx context.Context, id string, now time.Time) (watch bool, err error) {
	kept, err := a.records().Kept(id)
	if errors.Is(err, launch.ErrNone) || err == nil && kept.BootID != a.bootID {
		return false, nil
	}
	if err != nil {
		return false, err //nolint:wrapcheck // says it
	}
	if engine, err := a.deps.Meter.Identify(kept.PID); err == nil && engine.StartTime == kept.StartTime && !engine.Ended() {
		return false, nil // it was released, and runs on
	}
	keeper, err := a.opener.Open(process.Ref{PID: kept.KeeperPID, StartTime: kept.KeeperStartTime})
	if errors.Is(err, process.ErrEnded) {
		delete(a.held, id)
		return false, nil
	}
	if err != nil {
		return false, err //nolint:wrapcheck // says it
	}
	defer keeper.Close()
	since, seen := a.held[id]
	if !seen {
		a.held[id] = now
	}
	if !seen || now.Sub(since) < keeperPatience {
		return true, nil
	}
	level := slog.LevelWarn
	if now.Sub(since) > keeperPatience+2*cleanEvery {
		level = slog.LevelDebug // it waits for a disk, and was told of
	}
	a.log.Log(ctx, level, "the keeper of an engine that has ended was held, and is ended", "allocation_id", id, "pid", kept.KeeperPID)
	if err := keeper.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, process.ErrEnded) {
		return false, err //nolint:wrapcheck // says it
	}
	return true, nil
}

// runs reports whether an allocation has an engine that is measured.
func (a *Agent) runs(id string) (runs bool) {
	a.locked(func(t *tracker.Tracker) { _, runs = t.Engine(id) })
	return runs
}
