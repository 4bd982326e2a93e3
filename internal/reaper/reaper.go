// Package reaper makes this process the child subreaper of a command: what the command leaves
// behind when it ends becomes a child of this process, which waits for it and can end it. This
// process must have no other child. A Reaper serves one command; Signal may be called while Wait
// runs.
package reaper

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/processtable"
)

// Reaper is that of one command.
type Reaper struct {
	waited chan struct{} // closed when the command has been waited for
	deaths chan Death
}

// Death is the end of a process that the command has left behind.
type Death struct {
	PID    int
	Status syscall.WaitStatus
}

// New makes this process a child subreaper. The error says that the kernel does not let it, or
// that this process has children already, such as those of a shell that has become this program:
// they are not the command's.
func New() (*Reaper, error) {
	if err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WALL|unix.WNOWAIT|unix.WNOHANG, nil); !errors.Is(err, unix.ECHILD) {
		return nil, errors.New("become a child subreaper: this process has children")
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become a child subreaper: %w", err)
	}
	return &Reaper{waited: make(chan struct{}), deaths: make(chan Death)}, nil
}

// Start waits for orphans from now on, so that none stays a zombie. It leaves the command, which
// has this pid, to its own parent's Wait.
func (r *Reaper) Start(leader int) {
	go func() {
		defer close(r.deaths)
		led := true // the command has its pid; later another process may have it
		for {
			pid, err := ended()
			if err != nil {
				return
			}
			if pid == leader && led {
				<-r.waited
				led = false
				continue
			}
			status, err := wait(pid)
			select {
			case <-r.waited:
				if err == nil {
					r.deaths <- Death{pid, status}
				}
			default:
			}
		}
	}()
}

// Deaths returns the ends of the processes that the command has left behind. The channel is closed
// when none is left. The caller has waited for the command. Deaths is called once.
func (r *Reaper) Deaths() <-chan Death {
	close(r.waited)
	return r.deaths
}

// ended returns a child that has ended, and leaves it a zombie. The error says that there is no
// child.
func ended() (int, error) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WALL|unix.WNOWAIT, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return pidOf(&info), err //nolint:wrapcheck // nobody is told
	}
}

func wait(pid int) (syscall.WaitStatus, error) {
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(pid, &status, unix.WALL, nil)
		if !errors.Is(err, unix.EINTR) {
			return status, err //nolint:wrapcheck // nobody is told
		}
	}
}

// Processes are the pids of what runs below this process.
func Processes() (pids []int) {
	table := processtable.Read()
	for pid, p := range table {
		if !p.Ended && table.Descends(pid, os.Getpid()) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// Signal sends a signal to each process below this one, and returns the pids of those that it may
// not signal: they run as another user.
func Signal(signal syscall.Signal) (refused []int) {
	for _, pid := range Processes() {
		if errors.Is(signalOne(pid, signal), unix.EPERM) {
			refused = append(refused, pid)
		}
	}
	return refused
}

// signalOne signals a process if it is still below this one. A pidfd holds it, so that its pid
// cannot become another's in between.
func signalOne(pid int, signal syscall.Signal) error {
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM): // an older kernel, or a filter
		return unix.Kill(pid, signal) //nolint:wrapcheck // the caller decides by it
	case err != nil:
		return err //nolint:wrapcheck // it has ended
	}
	defer unix.Close(fd)
	if !isBelow(pid) {
		return nil
	}
	return unix.PidfdSendSignal(fd, signal, nil, 0) //nolint:wrapcheck // the caller decides by it
}

// isBelow reports whether a process has this one above it.
func isBelow(pid int) bool {
	const deepest = 1 << 16 // what is read at different moments may form a circle
	for range deepest {
		p, there := processtable.Look(pid)
		if !there || p.Parent <= 1 {
			return false
		}
		if pid = p.Parent; pid == os.Getpid() {
			return true
		}
	}
	return false
}

// pidOf reads si_pid, which follows four ints on 64-bit machines.
func pidOf(info *unix.Siginfo) int {
	return int((*struct{ signal, errno, code, pad, pid int32 })(unsafe.Pointer(info)).pid) //nolint:gosec // the head of the same 128 bytes
}
