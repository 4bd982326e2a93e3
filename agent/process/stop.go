package process

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// killRounds bounds how often Stop finds and kills the remaining processes. A tree that forks all
// the time needs two or three rounds. A tree of 32,000 processes needs half of them, because of
// mostOpen.
const killRounds = 250

// LeftError lists processes that Stop left alone although they are, or may be, the engine's. See
// the package comment.
type LeftError struct {
	// Foreign are processes of another user. Unproven are processes in the session or group with
	// the root's number, which the kernel may have reused, and processes that were counted as the
	// engine's in a similar way.
	Foreign, Unproven []int32
}

func (e *LeftError) Error() string {
	var parts []string
	if len(e.Foreign) > 0 {
		parts = append(parts, "run as another user than the engine's, as far as that is known: pid "+listed(e.Foreign))
	}
	if len(e.Unproven) > 0 {
		parts = append(parts, "may be the engine's or another's, by the number of their session or group: pid "+listed(e.Unproven))
	}
	return "processes are left alone, to be ended by who knows them, that " + strings.Join(parts, "; that ")
}

func listed(pids []int32) string {
	const most = 10
	words := make([]string, 0, most+1)
	for i, pid := range pids {
		if i == most {
			words = append(words, "…")
			break
		}
		words = append(words, strconv.Itoa(int(pid)))
	}
	return strings.Join(words, ", ")
}

// Stop ends an engine. It sends SIGTERM to the root process, which may end its children in its own
// way. After the grace it sends SIGKILL to all remaining processes of the engine. If the root has
// ended, and other processes are left, these get SIGTERM too. Stop never signals a process group,
// because an engine may share its launcher's group.
//
// It returns nil when no process of the engine is left. Its errors are the error of ctx, after
// which the engine may run on, the errors of signals that were not allowed, and *LeftError. If the
// engine's cgroup could not be thawed, Stop joins that error, and any error of freezing it.
func (o *Opener) Stop(ctx context.Context, e Engine, grace time.Duration) error {
	s := stopper{opener: o, engine: e, descent: newDescent(e), handles: make(map[Ref]*target)}
	defer s.close()
	err := s.stop(ctx, grace)
	if s.thaw == nil {
		return err
	}
	// Frozen processes neither run nor end until they are thawed.
	for _, failed := range []error{s.freeze, s.thaw} {
		if failed != nil && !errors.Is(err, failed) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

func (s *stopper) stop(ctx context.Context, grace time.Duration) error {
	if err := s.find(ctx); err != nil {
		return err
	}
	if err := s.seesRoot(); err != nil {
		return err
	}
	deadline, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	err := s.terminate(deadline)
	freezes := s.engine.Freezer != nil && ctx.Err() == nil
	if freezes {
		// Also if find found none: only freezing finds processes that fork and exit.
		before := err
		err = s.killFrozen(ctx)
		if _, not := errors.AsType[*noFreezeError](err); not {
			freezes, err = false, before
		}
	}
	if !freezes && (err != nil || len(s.vanished) > 0 || s.unseen(ctx)) && ctx.Err() == nil {
		err = s.kill(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return err
	case len(s.left.Foreign)+len(s.left.Unproven) > 0:
		return &s.left
	}
	return nil
}

// stopper is one Stop.
type stopper struct {
	opener  *Opener
	engine  Engine
	descent *descent
	handles map[Ref]*target // open processes that may be signalled and have not ended, within the slots
	left    LeftError       // as last found
	// vanished are processes of the last round that had ended before they could be opened. They may
	// have started others.
	vanished []int32
	// freeze and thaw are the errors of the last freezing and thawing of the cgroup.
	freeze, thaw error
}

// target is an open process of the engine.
type target struct {
	*Handle

	found found
	asked bool // it has got SIGTERM
}

func (s *stopper) close() {
	for ref := range s.handles {
		s.drop(ref)
	}
}

func (s *stopper) drop(ref Ref) {
	s.handles[ref].Close()
	delete(s.handles, ref)
	s.opener.slots.release()
}

// look finds the engine's current processes and closes the targets that have ended.
func (s *stopper) look() ([]found, error) {
	list, err := findProcesses(s.opener.proc, s.engine, s.descent)
	if err != nil {
		return nil, err
	}
	for ref, h := range s.handles {
		if !slices.ContainsFunc(list, func(f found) bool { return f.Ref == ref }) || errors.Is(h.check(), ErrEnded) {
			s.drop(ref)
		}
	}
	s.left, s.vanished = LeftError{}, nil
	return list, nil
}

// find opens the engine's current processes and closes the targets that have ended.
func (s *stopper) find(ctx context.Context) error {
	list, err := s.look()
	if err != nil {
		return err
	}
	for _, f := range list {
		if h := s.handles[f.Ref]; h != nil {
			h.found = f
			continue
		}
		if err := s.open(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// open opens a process that was found, if it may be signalled and a slot is free. If no slot is
// free, the next round finds the process again.
func (s *stopper) open(ctx context.Context, f found) error {
	if len(s.handles) >= mostOpen || !s.opener.slots.acquire(ctx, len(s.handles) == 0) {
		return ctx.Err()
	}
	handle, err := s.opener.Open(f.Ref)
	if err != nil {
		s.opener.slots.release()
		if errors.Is(err, ErrEnded) {
			s.vanished = append(s.vanished, f.PID)
		}
		if errors.Is(err, ErrEnded) || errors.Is(err, syscall.EMFILE) && len(s.handles) > 0 {
			return nil
		}
		return err
	}
	h := &target{Handle: handle, found: f}
	s.handles[f.Ref] = h
	allowed, err := s.allowed(h)
	if !allowed {
		s.drop(f.Ref)
	}
	return err
}

// allowed reads the user and cgroup of a process again, which may have changed since it was found,
// and reports whether it may be signalled. Its descent does not change.
func (s *stopper) allowed(h *target) (bool, error) {
	identity, err := h.identify()
	if errors.Is(err, ErrEnded) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	inside := h.found.inside && s.inside(h.ref.PID)
	user := s.engine.User
	own := user != nil && identity.UID == *user
	switch {
	case inside && s.engine.Guarded,
		h.found.descends && (own || user != nil && *user == 0),
		inside && own && *user != 0:
		return true, nil
	case h.found.descends, h.found.measured && !own:
		s.left.Foreign = append(s.left.Foreign, h.ref.PID)
	case own && (h.found.numbered || h.found.measured):
		s.left.Unproven = append(s.left.Unproven, h.ref.PID)
	}
	return false, nil
}

// inside reports whether a process is currently in the engine's cgroup.
func (s *stopper) inside(pid int32) bool {
	fs, err := procfs.NewFS(filepath.Clean(s.opener.proc))
	if err != nil {
		return false
	}
	p, err := fs.Proc(int(pid))
	return err == nil && within(p, s.engine.Cgroup)
}

// ask sends SIGTERM and SIGCONT to a process. SIGCONT lets a stopped process clean up.
func (s *stopper) ask(h *target) error {
	if err := s.signal(h, syscall.SIGTERM); err != nil || s.handles[h.ref] != h { // it has ended
		return err
	}
	return s.signal(h, syscall.SIGCONT)
}

// terminate asks the engine to end and waits until all its processes have ended, or ctx ends.
func (s *stopper) terminate(ctx context.Context) error {
	if root := s.handles[s.engine.Root]; root != nil {
		if err := s.ask(root); err != nil {
			return err
		}
		if s.handles[s.engine.Root] != nil {
			if err := s.wait(ctx, root); err != nil {
				return err
			}
		}
		if err := s.find(ctx); err != nil {
			return err
		}
	}
	for len(s.handles) > 0 {
		var all error
		for _, h := range s.handles {
			if !h.asked {
				all = errors.Join(all, s.ask(h))
			}
		}
		if all != nil {
			return all
		}
		if err := s.waitAll(ctx); err != nil {
			return err
		}
		// Find the processes that they have started in the meantime, and those that had no slot.
		if err := s.find(ctx); err != nil {
			return err
		}
	}
	return nil
}

// kill ends the remaining processes, and those that they start in the meantime.
func (s *stopper) kill(ctx context.Context) error {
	// A process that forks during a round can leave a child behind, which the next round finds.
	began := time.Now()
	for range killRounds {
		if err := s.find(ctx); err != nil {
			return err
		}
		if len(s.handles) == 0 && len(s.vanished) == 0 {
			if !s.unseen(ctx) {
				return nil
			}
			if time.Since(began) > unseenPatience {
				break
			}
			continue
		}
		var all error
		for _, h := range s.handles {
			all = errors.Join(all, s.signal(h, syscall.SIGKILL))
		}
		if all != nil {
			return all
		}
		if err := s.waitAll(ctx); err != nil {
			return err
		}
	}
	last := s.vanished
	for ref := range s.handles {
		last = append(last, ref.PID)
	}
	return &SurvivedError{Root: s.engine.Root, Last: last}
}

// signal signals a process if it still may be signalled.
func (s *stopper) signal(h *target, signal syscall.Signal) error {
	allowed, err := s.allowed(h)
	if !allowed {
		s.drop(h.ref)
		return err
	}
	h.asked = true
	s.noteAlive(h)
	if err := h.Signal(signal); !errors.Is(err, ErrEnded) {
		return err
	}
	return nil
}

// waitAll waits until all have ended.
func (s *stopper) waitAll(ctx context.Context) error {
	for _, h := range s.handles {
		if err := s.wait(ctx, h); err != nil {
			return err
		}
	}
	return nil
}

// wait waits until a process has ended. While it runs, wait notes so: processes of its session that
// started before that time are the engine's.
func (s *stopper) wait(ctx context.Context, h *target) error {
	for {
		while, cancel := context.WithTimeout(ctx, pollEvery)
		err := h.Wait(while)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		s.noteAlive(h)
	}
}

// noteAlive notes the time if a process still runs and is in the root's session. A process that has
// ended or has left the session does not prove that the session still exists.
func (s *stopper) noteAlive(h *target) {
	if !h.found.descends {
		return
	}
	at := now()
	table, err := procfs.NewFS(s.opener.proc)
	if err != nil {
		return
	}
	if stat, err := statOf(table, int(h.ref.PID)); err == nil && refOf(stat) == h.ref {
		s.descent.touch(stat, at)
	}
}
