package engine

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
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

	// All guarded by the lock of the state. since is when the launch has failed; zero: it is under
	// way.
	since  time.Time
	ending bool
	logged bool // that it is ended
}

// keepers are those of launches that are under way or have failed, and those that should have ended
// with their engines.
type keepers struct {
	engines     *Engines
	unconfirmed []*unconfirmedKeeper // guarded by the lock of the state
	// once is when the list of the last incarnation is read, and file is held while the list is
	// written.
	once sync.Once
	file sync.Mutex
	// held are the allocations whose keepers should have ended, since when; of the measuring loop
	// alone.
	held map[string]time.Time
}

// note notes a keeper that has just started: it has to end unless forget is called. The result is
// nil if it has ended.
func (k *keepers) note(id string, uid uint32, keeper launch.Spawned) *unconfirmedKeeper {
	s := k.engines
	k.read(time.Now())
	found, err := s.meter.Identify(keeper.PID)
	if err != nil || found.UID != uid && found.UID != uint32(os.Geteuid()) { //nolint:gosec // a uid
		return nil
	}
	noted := &unconfirmedKeeper{Unconfirmed: launch.Unconfirmed{
		ID: id, UID: uid, KeeperPID: found.PID, KeeperStartTime: found.StartTime, Cgroup: keeper.Cgroup, BootID: s.state.BootID(),
	}}
	s.state.Locked(func(*tracker.Tracker) { k.unconfirmed = append(k.unconfirmed, noted) })
	if err := k.save(); err != nil {
		s.log.Warn("the keeper of a launch could not be noted: if its user stops it and the agent ends, it stays", "allocation_id", id, "error", err)
	}
	return noted
}

// forget takes a keeper off the list: its launch ends well, or it has ended.
func (k *keepers) forget(noted *unconfirmedKeeper) error {
	if noted == nil {
		return nil
	}
	k.engines.state.Locked(func(*tracker.Tracker) {
		k.unconfirmed = slices.DeleteFunc(k.unconfirmed, func(other *unconfirmedKeeper) bool { return other == noted })
	})
	return k.save()
}

// leave leaves the keeper of a launch that has failed to the hook.
func (k *keepers) leave(noted *unconfirmedKeeper) {
	if noted == nil {
		return
	}
	gone := false
	k.engines.state.Locked(func(*tracker.Tracker) {
		noted.since = time.Now()
		gone = !slices.Contains(k.unconfirmed, noted)
		if gone {
			k.unconfirmed = append(k.unconfirmed, noted)
		}
	})
	if gone {
		_ = k.save() // this incarnation knows it
	}
}

// save writes the list of keepers as it is now.
func (k *keepers) save() error {
	k.file.Lock()
	defer k.file.Unlock()
	var list []launch.Unconfirmed
	k.engines.state.Locked(func(*tracker.Tracker) {
		list = make([]launch.Unconfirmed, 0, len(k.unconfirmed))
		for _, noted := range k.unconfirmed {
			list = append(list, noted.Unconfirmed)
		}
	})
	return k.engines.records.PutUnconfirmed(list) //nolint:wrapcheck // says it
}

// read reads the list that the last incarnation has left, once. All of these launches have
// failed: their keepers saw the end of that incarnation.
func (k *keepers) read(now time.Time) {
	s := k.engines
	k.once.Do(func() {
		list, err := s.records.Unconfirmed()
		if err != nil {
			s.log.Warn("the keepers of earlier launches are not known: one that its user has stopped stays", "error", err)
		}
		s.state.Locked(func(*tracker.Tracker) {
			for _, left := range list {
				if left.BootID == s.state.BootID() {
					k.unconfirmed = append(k.unconfirmed, &unconfirmedKeeper{Unconfirmed: left, since: now})
				}
			}
		})
	})
}

// passed ends the keepers of launches that have failed, with all that they have
// started, unless they have done so themselves in good time. A keeper's user can stop it with a
// signal, and a home directory on a network can hold it. Only the measuring loop calls it.
func (k *keepers) passed(ctx context.Context, now time.Time) {
	k.read(now)
	var due []*unconfirmedKeeper
	k.engines.state.Locked(func(*tracker.Tracker) {
		for _, noted := range k.unconfirmed {
			if !noted.ending && !noted.since.IsZero() && now.Sub(noted.since) >= abandonedPatience {
				noted.ending = true
				due = append(due, noted)
			}
		}
	})
	for _, noted := range due {
		k.engines.background(func() { k.endUnconfirmed(ctx, noted) })
	}
}

func (k *keepers) endUnconfirmed(ctx context.Context, noted *unconfirmedKeeper) {
	s := k.engines
	if k.there(noted) {
		engine := process.Engine{Root: process.Ref{PID: noted.KeeperPID, StartTime: noted.KeeperStartTime}, User: &noted.UID}
		if !s.launches.has(noted.ID) && !s.runs(noted.ID) { // else the cgroup is that of the next attempt
			engine.Cgroup, engine.Made = noted.Cgroup, s.cgroups.Made(noted.ID, noted.Cgroup)
			engine.Guarded, engine.Freezer = s.cgroups.Guarded(ctx, noted.ID, noted.Cgroup), s.cgroups.Freezer(ctx, noted.ID, noted.Cgroup)
		}
		err := s.opener.Stop(ctx, engine, 0)
		level := slog.LevelWarn
		if noted.logged { // it waits for a disk, and was told of
			level = slog.LevelDebug
		}
		s.log.Log(ctx, level, "the keeper of a launch that failed was held, and is ended with all that it has started",
			"allocation_id", noted.ID, "pid", noted.KeeperPID, "error", err)
	}
	if k.there(noted) {
		s.state.Locked(func(*tracker.Tracker) { noted.since, noted.ending, noted.logged = time.Now(), false, true })
		return
	}
	if err := k.forget(noted); err != nil {
		s.log.Warn("the list of the keepers of launches could not be written", "error", err)
	}
}

// mustEnd reports whether a launch of an allocation is under way or has failed: its engine has not
// begun.
func (k *keepers) mustEnd(id string) (must bool) {
	k.read(time.Now())
	k.engines.state.Locked(func(*tracker.Tracker) {
		must = slices.ContainsFunc(k.unconfirmed, func(noted *unconfirmedKeeper) bool { return noted.ID == id })
	})
	return must
}

// notBegun reports whether nothing of a launched engine was executed: its keeper is that of a
// launch that has failed, or that was under way when the last incarnation of the agent ended.
func (k *keepers) notBegun(e host.Engine) (certain bool) {
	kept, launched := k.of(e.ID, e.PID, e.StartTime)
	if !launched {
		return false
	}
	k.read(time.Now())
	k.engines.state.Locked(func(*tracker.Tracker) {
		certain = slices.ContainsFunc(k.unconfirmed, func(noted *unconfirmedKeeper) bool {
			return noted.ID == e.ID && noted.KeeperPID == kept.KeeperPID && noted.KeeperStartTime == kept.KeeperStartTime
		})
	})
	return certain
}

// of returns the record of the launch that has started a process as the engine of an allocation.
// False: no launch of this boot has.
func (k *keepers) of(id string, pid int32, startTime uint64) (kept launch.Kept, launched bool) {
	kept, err := k.engines.records.Kept(id)
	return kept, err == nil && kept.BootID == k.engines.state.BootID() && kept.PID == pid && kept.StartTime == startTime
}

// there reports whether a keeper has not ended.
func (k *keepers) there(noted *unconfirmedKeeper) bool {
	found, err := k.engines.meter.Identify(noted.KeeperPID)
	return err == nil && found.StartTime == noted.KeeperStartTime && !found.Ended()
}

// noteKept notes which processes were launched, for endHeld.
func (k *keepers) noteKept(id string, starting *launch.Starting) {
	s := k.engines
	keeper, err := s.meter.Identify(starting.Keeper.PID)
	if err == nil {
		err = s.records.PutKept(id, launch.Kept{
			PID: starting.PID, StartTime: starting.StartTime, KeeperPID: keeper.PID, KeeperStartTime: keeper.StartTime, BootID: s.state.BootID(),
		})
	}
	if err != nil {
		s.log.Warn("the keeper of an engine could not be noted: if its user stops it, it stays", "allocation_id", id, "error", err)
	}
}

// endHeld ends the keeper of an engine that has ended, if the keeper has not ended long
// after it. It reports whether the keeper is still to be watched. Only the measuring loop calls it.
func (k *keepers) endHeld(ctx context.Context, id string, now time.Time) (watch bool, err error) {
	s := k.engines
	kept, err := s.records.Kept(id)
	if errors.Is(err, launch.ErrNone) || err == nil && kept.BootID != s.state.BootID() {
		return false, nil
	}
	if err != nil {
		return false, err //nolint:wrapcheck // says it
	}
	engine, err := s.meter.Identify(kept.PID)
	switch {
	case errors.Is(err, host.ErrNoProcess):
	case err != nil:
		return true, nil // as long as it cannot be seen, it has not ended
	case engine.StartTime == kept.StartTime && !engine.Ended():
		return false, nil // it was released, and runs on
	}
	reaper := process.Ref{PID: kept.KeeperPID, StartTime: kept.KeeperStartTime}
	if lives, _ := s.opener.Below(reaper); lives {
		return false, nil // and so do others of it, without their main process
	}
	keeper, err := s.opener.Open(reaper)
	if errors.Is(err, process.ErrEnded) {
		delete(k.held, id)
		return false, nil
	}
	if err != nil {
		return false, err //nolint:wrapcheck // says it
	}
	defer keeper.Close()
	since, seen := k.held[id]
	if !seen {
		k.held[id] = now
	}
	if !seen || now.Sub(since) < keeperPatience {
		return true, nil
	}
	level := slog.LevelWarn
	if now.Sub(since) > keeperPatience+2*cleanEvery {
		level = slog.LevelDebug // it waits for a disk, and was told of
	}
	s.log.Log(ctx, level, "the keeper of an engine that has ended was held, and is ended", "allocation_id", id, "pid", kept.KeeperPID)
	if err := keeper.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, process.ErrEnded) {
		return false, err //nolint:wrapcheck // says it
	}
	return true, nil
}
