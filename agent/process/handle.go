package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers/host"
)

// ErrEnded says that the process has ended; another process may have its pid.
var ErrEnded = errors.New("process has ended")

// pollEvery is how often a process is checked if there are no pidfds.
const pollEvery = 200 * time.Millisecond

// Ref identifies a process: within one boot, no two processes have the same Ref.
type Ref struct {
	PID int32
	// StartTime is in clock ticks after boot (field 22 of /proc/PID/stat).
	StartTime uint64
}

// Identifier returns the process that has a pid now. host.ErrNoProcess: no process has it.
type Identifier interface {
	Identify(pid int32) (host.Identity, error)
}

// Opener opens processes.
type Opener struct {
	identifier Identifier
	proc       string
	slots      slots   // shared by all Stops
	tables     *tables // shared by all calls of Led
	// pidfdOpen is unix.PidfdOpen; tests replace it by an older kernel.
	pidfdOpen func(pid, flags int) (int, error)
}

// NewOpener returns an Opener for this machine, whose process table is at proc, usually /proc.
func NewOpener(identifier Identifier, proc string) *Opener {
	return &Opener{identifier: identifier, proc: proc, slots: newSlots(), tables: newTables(), pidfdOpen: unix.PidfdOpen}
}

// Handle is one process.
type Handle struct {
	ref        Ref
	identifier Identifier
	proc       string
	closed     chan struct{}
	closeOnce  sync.Once
	lastAlive  atomic.Uint64
	// unseen is set until the process was seen, if the process table hides it.
	unseen atomic.Bool

	// file is a pidfd; nil if the kernel has none.
	file *os.File
}

// Open opens a process. ErrEnded: it has ended. It also opens a process that the process table
// hides: Wait notices its end, but Signal does not signal it.
func (o *Opener) Open(ref Ref) (*Handle, error) {
	if ref.PID <= 1 { // 0 and below would signal groups; 1 is never an engine
		return nil, fmt.Errorf("process %d: want a pid above 1", ref.PID)
	}
	h := &Handle{ref: ref, identifier: o.identifier, proc: o.proc, closed: make(chan struct{})}
	fd, err := o.pidfdOpen(int(ref.PID), unix.PIDFD_NONBLOCK)
	switch {
	case err == nil:
		h.file = os.NewFile(uintptr(fd), "pidfd")
	case errors.Is(err, unix.ESRCH):
		return nil, ErrEnded
	case errors.Is(err, unix.EINVAL):
		// a thread of a process; or a kernel between 5.3 and 5.10, without the flag
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
		// an older kernel, or a seccomp filter
	default:
		return nil, fmt.Errorf("open process %d: %w", ref.PID, err)
	}
	at := now()
	// This check follows the opening: if the pid is this process's now, so is the pidfd.
	err = h.check()
	if errors.Is(err, host.ErrHidden) {
		// The pid may belong to another process by now. The end of either process means that this
		// one has ended. It gets no signal until it was seen.
		h.unseen.Store(true)
		return h, nil
	}
	if err != nil {
		h.Close()
		return nil, err
	}
	h.lastAlive.Store(at)
	return h, nil
}

// check returns ErrEnded unless this process still has the pid.
func (h *Handle) check() error {
	_, err := h.identify()
	return err
}

// identify reads the current identity of the process. ErrEnded: it has ended.
func (h *Handle) identify() (host.Identity, error) {
	identity, err := h.identifier.Identify(h.ref.PID)
	switch {
	case errors.Is(err, host.ErrNoProcess):
		return host.Identity{}, ErrEnded
	case err != nil:
		return host.Identity{}, fmt.Errorf("identify process %d: %w", h.ref.PID, err)
	case identity.StartTime != h.ref.StartTime || identity.Ended():
		return host.Identity{}, ErrEnded
	}
	h.unseen.Store(false)
	return identity, nil
}

// Runs reports whether the pidfd shows that the process runs, even if the process table hides it.
// It returns false if this is unknown.
func (h *Handle) Runs() bool {
	ended := true
	return h.file != nil && !h.unseen.Load() &&
		h.control(func(fd uintptr) error { ended = readable(fd); return nil }) == nil && !ended
}

// Touch updates LastAlive if the process runs and the handle is not closed.
func (h *Handle) Touch() {
	at := now()
	if h.file == nil {
		select {
		case <-h.closed:
			return
		default:
		}
		if h.check() != nil {
			return
		}
	} else if ended := true; h.unseen.Load() && h.check() != nil || h.control(func(fd uintptr) error { ended = readable(fd); return nil }) != nil || ended {
		return
	}
	h.lastAlive.Store(at)
}

// LastAlive returns when Open or Touch last saw the process running, in clock ticks after boot.
func (h *Handle) LastAlive() uint64 { return h.lastAlive.Load() }

// Ref returns the identity of the process.
func (h *Handle) Ref() Ref { return h.ref }

// Wait returns nil when the process has ended. It returns an error when ctx has ended or the handle
// was closed. Only one goroutine at a time may wait.
func (h *Handle) Wait(ctx context.Context) error {
	if h.file == nil {
		return h.poll(ctx)
	}
	conn, err := h.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("wait for process %d: %w", h.ref.PID, err)
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = h.file.SetReadDeadline(time.Unix(1, 0)) // the past ends the read
		close(interrupted)
	})
	err = conn.Read(readable)
	if !stop() {
		<-interrupted
		_ = h.file.SetReadDeadline(time.Time{}) // for the next Wait
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		return fmt.Errorf("wait for process %d: %w", h.ref.PID, err)
	}
}

// readable reports whether the process of a pidfd has ended.
func readable(fd uintptr) bool {
	events := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} //nolint:gosec // a descriptor is small
	n, err := unix.Poll(events, 0)
	return err == nil && n > 0
}

func (h *Handle) poll(ctx context.Context) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		if err := h.check(); errors.Is(err, ErrEnded) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-h.closed:
			return os.ErrClosed
		case <-ticker.C:
		}
	}
}

// Signal sends a signal to the process and to no other. ErrEnded: it has ended.
func (h *Handle) Signal(signal syscall.Signal) error {
	var err error
	if h.file == nil || h.unseen.Load() {
		if err := h.check(); err != nil {
			return err
		}
	}
	if h.file == nil {
		err = unix.Kill(int(h.ref.PID), signal)
	} else {
		err = h.control(func(fd uintptr) error { return unix.PidfdSendSignal(int(fd), signal, nil, 0) })
	}
	switch {
	case errors.Is(err, unix.ESRCH):
		return ErrEnded
	case err != nil:
		return fmt.Errorf("signal process %d: %w", h.ref.PID, err)
	}
	return nil
}

func (h *Handle) control(f func(fd uintptr) error) error {
	conn, err := h.file.SyscallConn()
	if err != nil {
		return err //nolint:wrapcheck // the callers say what it is about
	}
	var result error
	if err := conn.Control(func(fd uintptr) { result = f(fd) }); err != nil {
		return err //nolint:wrapcheck // the callers say what it is about
	}
	return result
}

// Close closes the handle and ends a Wait. The process runs on.
func (h *Handle) Close() {
	h.closeOnce.Do(func() {
		close(h.closed)
		if h.file != nil {
			_ = h.file.Close() // it was only read
		}
	})
}

// ExitStatus returns how a process ended, if the kernel shows it; otherwise nil. For a zombie, the
// kernel shows it to callers that may inspect the process. After the parent has waited, it shows it
// by a pidfd since Linux 6.15.
func (h *Handle) ExitStatus() *bursarv1.ExitStatus {
	if status := h.zombieStatus(); status != nil || h.file == nil {
		return status
	}
	var status *bursarv1.ExitStatus
	_ = h.control(func(fd uintptr) error { // a closed handle has no status
		status = exitStatus(fd)
		return nil
	})
	return status
}
