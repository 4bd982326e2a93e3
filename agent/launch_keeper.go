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
	"github.com/bursar/bursar/providers/host"
)

const (
	// abandonedPatience is how long the keeper of a launch that failed has to end its engine. It
	// gives the engine 10 s.
	abandonedPatience = 12 * time.Second
	// keeperPatience is how long a keeper has to end after its engine. It copies the last output
	// for at most a second.
	keeperPatience = 5 * time.Second
)

// unconfirmedKeeper is the keeper of a launch that is under way or has failed. The list of them is
// kept in a file, too: an agent may end while a keeper is held.
type unconfirmedKeeper struct {
	launch.Unconfirmed

	// All guarded by Agent.mu. since is when the launch has failed; zero: it is under way.
	since  time.Time
	ending bool
	logged bool // that it is ended
}

// noteKeeper notes a keeper that has just started: it has to end unless forgetKeeper is called.
// The result is nil if it has ended.
func (a *Agent) noteKeeper(id string, uid uint32, keeper launch.Spawned) *unconfirmedKeeper {
	a.readKeepers(time.Now())
	found, err := a.deps.Meter.Identify(keeper.PID)
	if err != nil || found.UID != uid && found.UID != uint32(os.Geteuid()) { //nolint:gosec // a uid
		return nil
	}
	k := &unconfirmedKeeper{Unconfirmed: launch.Unconfirmed{
		ID: id, UID: uid, KeeperPID: found.PID, KeeperStartTime: found.StartTime, Cgroup: keeper.Cgroup, BootID: a.bootID,
	}}
	a.mu.Lock()
	a.unconfirmedKeepers = append(a.unconfirmedKeepers, k)
	a.mu.Unlock()
	if err := a.saveKeepers(); err != nil {
		a.log.Warn("the keeper of a launch could not be noted: if its user stops it and the agent ends, it stays", "allocation_id", id, "error", err)
	}
	return k
}

// forgetKeeper takes a keeper off the list: its launch ends well, or it has ended.
func (a *Agent) forgetKeeper(k *unconfirmedKeeper) error {
	if k == nil {
		return nil
	}
	a.mu.Lock()
	a.unconfirmedKeepers = slices.DeleteFunc(a.unconfirmedKeepers, func(other *unconfirmedKeeper) bool { return other == k })
	a.mu.Unlock()
	return a.saveKeepers()
}

// leaveKeeper leaves the keeper of a launch that has failed to endUnconfirmedKeepers.
func (a *Agent) leaveKeeper(k *unconfirmedKeeper) {
	if k == nil {
		return
	}
	a.mu.Lock()
	k.since = time.Now()
	gone := !slices.Contains(a.unconfirmedKeepers, k)
	if gone {
		a.unconfirmedKeepers = append(a.unconfirmedKeepers, k)
	}
	a.mu.Unlock()
	if gone {
		_ = a.saveKeepers() // this incarnation knows it
	}
}

// saveKeepers writes the list of keepers as it is now.
func (a *Agent) saveKeepers() error {
	a.keepersFile.Lock()
	defer a.keepersFile.Unlock()
	a.mu.Lock()
	list := make([]launch.Unconfirmed, 0, len(a.unconfirmedKeepers))
	for _, k := range a.unconfirmedKeepers {
		list = append(list, k.Unconfirmed)
	}
	a.mu.Unlock()
	return a.records().PutUnconfirmed(list) //nolint:wrapcheck // says it
}

// readKeepers reads the list that the last incarnation has left, once. All of these launches have
// failed: their keepers saw the end of that incarnation.
func (a *Agent) readKeepers(now time.Time) {
	a.keepersRead.Do(func() {
		list, err := a.records().Unconfirmed()
		if err != nil {
			a.log.Warn("the keepers of earlier launches are not known: one that its user has stopped stays", "error", err)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, k := range list {
			if k.BootID == a.bootID {
				a.unconfirmedKeepers = append(a.unconfirmedKeepers, &unconfirmedKeeper{Unconfirmed: k, since: now})
			}
		}
	})
}

// endUnconfirmedKeepers ends the keepers of launches that have failed, with all that they have
// started, unless they have done so themselves in good time. A keeper's user can stop it with a
// signal, and a home directory on a network can hold it. Only the measuring loop calls it.
func (a *Agent) endUnconfirmedKeepers(ctx context.Context, now time.Time) {
	a.readKeepers(now)
	var due []*unconfirmedKeeper
	a.mu.Lock()
	for _, k := range a.unconfirmedKeepers {
		if !k.ending && !k.since.IsZero() && now.Sub(k.since) >= abandonedPatience {
			k.ending = true
			due = append(due, k)
		}
	}
	a.mu.Unlock()
	for _, k := range due {
		a.running.Go(func() { a.endUnconfirmedKeeper(ctx, k) })
	}
}

func (a *Agent) endUnconfirmedKeeper(ctx context.Context, k *unconfirmedKeeper) {
	if a.there(k) {
		engine := process.Engine{Root: process.Ref{PID: k.KeeperPID, StartTime: k.KeeperStartTime}, User: &k.UID}
		if !a.launches.has(k.ID) && !a.runs(k.ID) { // else the cgroup is that of the next attempt
			engine.Cgroup, engine.Made = k.Cgroup, a.cgroups.Made(k.ID, k.Cgroup)
			engine.Guarded, engine.Freezer = a.cgroups.Guarded(ctx, k.ID, k.Cgroup), a.cgroups.Freezer(ctx, k.ID, k.Cgroup)
		}
		err := a.opener.Stop(ctx, engine, 0)
		level := slog.LevelWarn
		if k.logged { // it waits for a disk, and was told of
			level = slog.LevelDebug
		}
		a.log.Log(ctx, level, "the keeper of a launch that failed was held, and is ended with all that it has started",
			"allocation_id", k.ID, "pid", k.KeeperPID, "error", err)
	}
	if a.there(k) {
		a.mu.Lock()
		defer a.mu.Unlock()
		k.since, k.ending, k.logged = time.Now(), false, true
		return
	}
	if err := a.forgetKeeper(k); err != nil {
		a.log.Warn("the list of the keepers of launches could not be written", "error", err)
	}
}

// there reports whether a keeper has not ended.
func (a *Agent) there(k *unconfirmedKeeper) bool {
	found, err := a.deps.Meter.Identify(k.KeeperPID)
	return err == nil && found.StartTime == k.KeeperStartTime && !found.Ended()
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
	engine, err := a.deps.Meter.Identify(kept.PID)
	switch {
	case errors.Is(err, host.ErrNoProcess):
	case err != nil:
		return true, nil // as long as it cannot be seen, it has not ended
	case engine.StartTime == kept.StartTime && !engine.Ended():
		return false, nil // it was released, and runs on
	}
	reaper := process.Ref{PID: kept.KeeperPID, StartTime: kept.KeeperStartTime}
	if lives, _ := a.opener.Below(reaper); lives {
		return false, nil // and so do others of it, without their main process
	}
	keeper, err := a.opener.Open(reaper)
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
