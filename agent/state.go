package agent

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bursar/bursar/agent/statefile"
	"github.com/bursar/bursar/agent/tracker"
)

// load reads the state file. One that is damaged, or of another host and boot, is set aside.
func (a *Agent) load() (statefile.State, error) {
	saved, err := a.dir.Load()
	var damaged *statefile.DamagedError
	switch {
	case errors.Is(err, statefile.ErrNone):
		return statefile.State{}, nil
	case errors.As(err, &damaged):
		aside, asideErr := a.dir.SetAside(time.Now())
		if asideErr != nil {
			return statefile.State{}, errors.Join(err, asideErr)
		}
		a.log.Error("the state file is damaged and was set aside: engines are taken over from what the coordinator knows", "error", err, "aside", aside)
		return statefile.State{}, nil
	case err != nil:
		return statefile.State{}, err
	}
	if held := a.settings().held(saved.HostID); held.HostID != a.settings().HostID {
		a.live.Store(&held) // the state directory was not there when the agent was made
	}
	switch {
	case saved.HostID == a.settings().HostID:
		if saved.CutOff > 0 {
			a.log.Warn("the last change of the state was not written in full and is left out: nobody was told that it is stored", "bytes", saved.CutOff)
		}
		return saved, nil
	case saved.BootID == a.bootID && len(saved.Engines) > 0:
		return statefile.State{}, &ConfigError{
			"hostId", a.settings().HostID,
			fmt.Sprintf("%q, under which %d engines of this boot were confirmed (state file %s); or another stateDir", saved.HostID, len(saved.Engines), a.dir.File()),
		}
	}
	aside, err := a.dir.SetAside(time.Now())
	if err != nil {
		return statefile.State{}, err
	}
	a.log.Warn("the state file is another host's and was set aside", "was", saved.HostID, "aside", aside)
	return statefile.State{}, nil
}

// saveLoop stores changes that no call waits for, so that a slow disk delays neither measuring nor
// heartbeats.
func (a *Agent) saveLoop(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.unsaved:
			a.loops.save.do(func() { _ = a.save() }) // it has said so; the next change tries again
		}
	}
}

func (a *Agent) scheduleSave() {
	select {
	case a.unsaved <- struct{}{}:
	default:
	}
}

// save stores what has changed. All calls that wait while a save is under way are served by the
// next one.
func (a *Agent) save() error {
	a.saving.Lock()
	defer a.saving.Unlock()
	unsaved := false
	a.locked(func(t *tracker.Tracker) { unsaved = t.Unsaved() })
	if !unsaved {
		return nil
	}
	began := time.Now()
	intact := a.dir.Intact()
	err := a.append()
	if err != nil {
		if all := a.write(a.dir.Begin); all == nil || errors.Is(err, statefile.ErrFull) {
			err = all
		} else {
			err = errors.Join(err, all)
		}
	}
	a.metrics.saved(time.Since(began), err)
	a.notStored.set(intact, err)
	if err == nil && !intact {
		a.log.Warn("the state directory or its lock was removed while the agent runs: it was made again, with all that is known", "file", a.dir.File())
	}
	if err != nil {
		a.log.Error("the state was not saved: after a restart the agent would rely on the coordinator", "error", err)
	}
	return err
}

// append adds what has changed to the log. If that is not enough, or no log takes it, the whole
// state has to be written.
func (a *Agent) append() error {
	var change tracker.Change
	enough := false
	a.locked(func(t *tracker.Tracker) { change, enough = t.Change() })
	if !enough {
		return statefile.ErrFull
	}
	return a.stored(a.dir.Append(change))
}

// write stores all there is.
func (a *Agent) write(save func(statefile.State) error) error {
	s := statefile.State{HostID: a.settings().HostID, Incarnation: a.incarnation, SavedAt: time.Now()}
	a.locked(func(t *tracker.Tracker) { s.Snapshot = t.Snapshot() })
	return a.stored(save(s))
}

func (a *Agent) stored(err error) error {
	if err != nil {
		a.locked((*tracker.Tracker).NotSaved)
	}
	return err
}

// saveLast leaves a state that an older agent can read, too: that one may be started next.
func (a *Agent) saveLast() error {
	if err := a.save(); err != nil {
		return err
	}
	a.saving.Lock()
	defer a.saving.Unlock()
	if err := a.write(a.dir.Save); err != nil {
		a.log.Warn("the state is stored, but not for an agent of an older version", "error", err)
	}
	return nil
}

// notStored says why the state cannot be stored. The host takes no new engines meanwhile: an agent
// that is started again would not know them.
type notStored struct{ why atomic.Pointer[string] }

func (n *notStored) set(intact bool, err error) {
	if err == nil {
		n.why.Store(nil)
		return
	}
	why := "the state cannot be stored: " + err.Error()
	if !intact {
		why = "the state directory was removed and cannot be made again: " + err.Error()
	}
	n.why.Store(&why)
}

// checkState has the whole state written if its directory was removed, and says why the state
// cannot be stored; empty: it can. It does not wait for a disk.
func (a *Agent) checkState() (problem string) {
	if a.saving.TryLock() { // else a save is under way, which finds out
		intact := a.dir.Intact()
		a.saving.Unlock()
		if !intact {
			a.locked((*tracker.Tracker).SaveAll)
			a.scheduleSave()
		}
	}
	if why := a.notStored.why.Load(); why != nil {
		return *why
	}
	return ""
}
