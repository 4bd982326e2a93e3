package process

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

const (
	// freezeRounds bounds how often the cgroup is frozen. If all processes freeze, one round ends
	// them and the next round finds none. A process that waits for a disk may take more rounds.
	freezeRounds = 20
	// endPatience is how long a round waits for the end of the processes that it has killed.
	endPatience = 2 * time.Second
	// keeperPatience is the time that the keeper gets, once it is alone, to record how its engine
	// ended. It copies the last output for at most a second.
	keeperPatience = 5 * time.Second
	// unseenPatience is how long a Stop without a freezer chases processes that have always ended
	// before it can open them. The chase slows other work on the machine; the agent tries again
	// later.
	unseenPatience = 3 * time.Second
)

// Freezer stops the processes of an engine's cgroup for a moment.
type Freezer interface {
	// Freeze stops all processes in and below the cgroup, so none of them can start another one. It
	// reports whether all have stopped in time. After an error, the state is unknown.
	Freeze(ctx context.Context) (all bool, err error)
	// Thaw lets the processes go on.
	Thaw() error
	// Empty reports whether no process is in or below the cgroup. It also works for a cgroup that
	// cannot be frozen.
	Empty(ctx context.Context) (bool, error)
}

// SurvivedError says that processes of an engine still run after SIGKILL, or that new ones started
// faster than Stop could kill them.
type SurvivedError struct {
	Root Ref
	// Last are the processes of the last round; none if each had ended before it could be read.
	Last []int32
	// Frozen is set if they were frozen before the signal, so that they could not start others.
	Frozen bool
}

func (e *SurvivedError) Error() string {
	if e.Frozen {
		return fmt.Sprintf("processes of the engine of process %d do not end by SIGKILL, or wait for a device and could not be frozen; the last were pid %s",
			e.Root.PID, listed(e.Last))
	}
	if len(e.Last) == 0 {
		return fmt.Sprintf("processes in the cgroup of the engine of process %d start others and exit faster than they can be found", e.Root.PID)
	}
	return fmt.Sprintf("engine of process %d starts processes faster than they can be ended; the last were pid %s", e.Root.PID, listed(e.Last))
}

// killFrozen ends the remaining processes of an engine whose cgroup can be frozen. While they are
// frozen, the list of them is complete. It spares the engine's keeper until all others have ended,
// so that the keeper can record how the engine ended.
func (s *stopper) killFrozen(ctx context.Context) error {
	spare := true
	var last []int32
	for range freezeRounds {
		killed, keepers, err := s.strike(ctx, spare)
		if err != nil {
			return err
		}
		if last = killed; len(killed) == 0 && len(keepers) == 0 {
			return nil
		}
		patience := endPatience
		if len(killed) == 0 {
			patience, spare = keeperPatience, false
			for _, f := range keepers {
				if err := s.open(ctx, f); err != nil {
					return err
				}
			}
		}
		waiting, cancel := context.WithTimeout(ctx, patience)
		err = s.waitAll(waiting)
		cancel()
		if err != nil && waiting.Err() == nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
	}
	return &SurvivedError{Root: s.engine.Root, Last: last, Frozen: true}
}

// strike freezes the cgroup, sends SIGKILL to all remaining processes of the engine, and thaws. It
// returns the processes that got the signal, and the keeper if spare is set. As many of the killed
// processes as the slots allow stay open.
func (s *stopper) strike(ctx context.Context, spare bool) (killed []int32, keepers []found, err error) {
	// This may wait for a slot, because nothing is frozen yet.
	if err := s.find(ctx); err != nil {
		return nil, nil, err
	}
	defer func() {
		s.thaw = s.engine.Freezer.Thaw()
		err = errors.Join(err, s.thaw)
	}()
	if _, s.freeze = s.engine.Freezer.Freeze(ctx); s.freeze != nil {
		return nil, nil, &noFreezeError{s.freeze}
	}
	list, err := s.look()
	if err != nil {
		return nil, nil, err
	}
	for _, f := range list {
		if spare && f.inside && f.Ref != s.engine.Root && s.descent.above[f.Ref] {
			keepers = append(keepers, f)
			if s.handles[f.Ref] != nil {
				s.drop(f.Ref)
			}
			continue
		}
		struck, strikeErr := s.strikeOne(ctx, f)
		if err = errors.Join(err, strikeErr); struck {
			killed = append(killed, f.PID)
		}
	}
	return killed, keepers, err
}

// strikeOne sends SIGKILL to one process, if the rules allow it and it has not ended.
func (s *stopper) strikeOne(ctx context.Context, f found) (struck bool, err error) {
	h := s.handles[f.Ref]
	if h == nil {
		handle, err := s.opener.Open(f.Ref)
		if err != nil {
			if errors.Is(err, ErrEnded) {
				return false, nil
			}
			return false, err
		}
		h = &target{Handle: handle, found: f}
		if len(s.handles) < mostOpen && s.opener.slots.acquire(ctx, false) {
			s.handles[f.Ref] = h
		} else {
			defer handle.Close()
		}
	}
	allowed, err := s.allowed(h)
	if allowed {
		err = h.Signal(syscall.SIGKILL)
	}
	if err == nil && allowed {
		return true, nil
	}
	if s.handles[f.Ref] != nil {
		s.drop(f.Ref)
	}
	if errors.Is(err, ErrEnded) {
		return false, nil
	}
	return false, err
}

// unseen reports whether the cgroup has processes although none was found: each has started another
// one and ended before it could be read.
func (s *stopper) unseen(ctx context.Context) bool {
	if s.engine.Freezer == nil || len(s.handles)+len(s.vanished)+len(s.left.Foreign)+len(s.left.Unproven) > 0 {
		return false
	}
	empty, err := s.engine.Freezer.Empty(ctx)
	return err == nil && !empty
}

// noFreezeError says why the cgroup was not frozen.
type noFreezeError struct{ err error }

func (e *noFreezeError) Error() string { return e.err.Error() }

func (e *noFreezeError) Unwrap() error { return e.err }
