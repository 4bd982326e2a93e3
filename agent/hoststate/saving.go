package hoststate

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/bursar/bursar/agent/statefile"
	"github.com/bursar/bursar/agent/tracker"
)

// SaveLoop stores changes that no call waits for, so that a slow disk delays neither measuring nor
// heartbeats. It makes each pass within pass.
func (s *State) SaveLoop(ctx context.Context, pass func(func())) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.unsaved:
			pass(func() { _ = s.Save() }) // it has said so; the next change tries again
		}
	}
}

// ScheduleSave has SaveLoop store all changes.
func (s *State) ScheduleSave() {
	select {
	case s.unsaved <- struct{}{}:
	default:
	}
}

// Save stores all changes. All calls that wait while a save is under way are served by the next
// one.
func (s *State) Save() error {
	s.saving.Lock()
	defer s.saving.Unlock()
	unsaved := false
	s.Locked(func(t *tracker.Tracker) { unsaved = t.Unsaved() })
	if !unsaved {
		return nil
	}
	began := time.Now()
	intact := s.dir.Intact()
	err := s.append()
	if err != nil {
		if all := s.write(s.dir.Begin); all == nil || errors.Is(err, statefile.ErrFull) {
			err = all
		} else {
			err = errors.Join(err, all)
		}
	}
	s.saved(time.Since(began), err)
	s.notStored.set(intact, err)
	if err == nil && !intact {
		s.log.Warn("the state directory or its lock was removed while the agent runs: it was made again, with all that is known", "file", s.dir.File())
	}
	if err != nil {
		s.log.Error("the state was not saved: after a restart the agent would rely on the coordinator", "error", err)
	}
	return err
}

// append adds all changes to the log. If that is not enough, or no log takes it, the whole state
// has to be written.
func (s *State) append() error {
	var change tracker.Change
	enough := false
	s.Locked(func(t *tracker.Tracker) { change, enough = t.Change() })
	if !enough {
		return statefile.ErrFull
	}
	return s.stored(s.dir.Append(change))
}

// write stores all there is.
func (s *State) write(save func(statefile.State) error) error {
	all := statefile.State{HostID: s.hostID(), Incarnation: s.incarnation, SavedAt: time.Now()}
	s.Locked(func(t *tracker.Tracker) { all.Snapshot = t.Snapshot() })
	return s.stored(save(all))
}

func (s *State) stored(err error) error {
	if err != nil {
		s.Locked((*tracker.Tracker).NotSaved)
	}
	return err
}

// SaveLast leaves a state that an older agent can read, too: that one may be started next.
func (s *State) SaveLast() error {
	if err := s.Save(); err != nil {
		return err
	}
	s.saving.Lock()
	defer s.saving.Unlock()
	if err := s.write(s.dir.Save); err != nil {
		s.log.Warn("the state is stored, but not for an agent of an older version", "error", err)
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

// Check has the whole state written if its directory was removed, and says why the state
// cannot be stored; empty: it can. It does not wait for a disk.
func (s *State) Check() (problem string) {
	if s.saving.TryLock() { // else a save is under way, which finds out
		intact := s.dir.Intact()
		s.saving.Unlock()
		if !intact {
			s.Locked((*tracker.Tracker).SaveAll)
			s.ScheduleSave()
		}
	}
	if why := s.notStored.why.Load(); why != nil {
		return *why
	}
	return ""
}

// Token reads the identity token that the last agent of this state directory has got.
func (s *State) Token() ([]byte, error) { return s.dir.Token() } //nolint:wrapcheck // says it

// SetToken keeps the identity token of a registration for the next agent.
func (s *State) SetToken(token []byte) error {
	s.saving.Lock()
	defer s.saving.Unlock()
	return s.dir.SetToken(token) //nolint:wrapcheck // says it
}
