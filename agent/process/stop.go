package process

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// Stop ends an engine: SIGTERM to its root process, which ends its children as it sees fit; after the grace SIGKILL to
// all that is left of the engine. Where the root has ended already, or ends and leaves others behind, these are asked with SIGTERM too.
// It never signals a process group: an engine may share that of its launcher.
//
// It returns nil when nothing of the engine is left. The errors are that of ctx, which leaves the engine as it is then, and
// those of signals that were not allowed.
func (o *Opener) Stop(ctx context.Context, e Engine, grace time.Duration) error {
	s := stopper{opener: o, engine: e, handles: make(map[Ref]*Handle)}
	defer s.close()
	if err := s.find(); err != nil {
		return err
	}
	deadline, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	err := s.terminate(deadline)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		return nil
	}
	return s.kill(ctx)
}

// stopper is one Stop.
type stopper struct {
	opener  *Opener
	engine  Engine
	handles map[Ref]*Handle // of every process that was seen to be the engine's
}

func (s *stopper) close() {
	for _, h := range s.handles {
		h.Close()
	}
}

// find takes hold of the engine's processes as they are now.
func (s *stopper) find() error {
	members, err := Members(s.opener.proc, s.engine)
	if err != nil {
		return err
	}
	for _, ref := range members {
		if s.handles[ref] != nil {
			continue
		}
		h, err := s.opener.Open(ref)
		if errors.Is(err, ErrEnded) {
			continue
		}
		if err != nil {
			return err
		}
		s.handles[ref] = h
	}
	return nil
}

// terminate asks the engine to end and waits until nothing of it is left, or ctx ends.
func (s *stopper) terminate(ctx context.Context) error {
	if root := s.handles[s.engine.Root]; root != nil {
		if err := ignoreEnded(root.Signal(syscall.SIGTERM)); err != nil {
			return err
		}
		if err := root.Wait(ctx); err != nil {
			return err
		}
	}
	if err := s.find(); err != nil {
		return err
	}
	if err := s.signal(syscall.SIGTERM); err != nil {
		return err
	}
	return s.wait(ctx)
}

// kill ends what is left, and what that has started in the meantime.
func (s *stopper) kill(ctx context.Context) error {
	for round := range 5 { // a process that forks while it is looked for can leave one behind, which the next look finds
		known := len(s.handles)
		if err := s.find(); err != nil {
			return err
		}
		if round > 0 && len(s.handles) == known {
			return nil
		}
		if err := s.signal(syscall.SIGKILL); err != nil {
			return err
		}
		if err := s.wait(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("engine of process %d starts processes faster than they can be ended", s.engine.Root.PID)
}

func (s *stopper) signal(signal syscall.Signal) error {
	var all error
	for _, h := range s.handles {
		all = errors.Join(all, ignoreEnded(h.Signal(signal)))
	}
	return all
}

func (s *stopper) wait(ctx context.Context) error {
	for _, h := range s.handles {
		if err := h.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

func ignoreEnded(err error) error {
	if errors.Is(err, ErrEnded) {
		return nil
	}
	return err
}
