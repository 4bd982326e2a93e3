package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// View tells how a process sees other processes: which pids, cgroup paths and boot time it uses.
type View struct {
	// PIDs is its pid namespace if that is below the namespace of this Meter's /proc; nil: it is
	// the same.
	PIDs *PIDNamespace
	// OtherCgroups: its cgroup paths start at another root than those of this process. OtherTime:
	// its time since boot starts at another moment. Both are false if this process may not look.
	OtherCgroups, OtherTime bool
}

// PIDNamespace is the pid namespace of a process. While it is open, its id is not reused.
type PIDNamespace struct {
	meter *Meter
	file  *os.File
	id    string
	// depth is the number of levels below the namespace of the Meter's /proc.
	depth int
}

// View returns a process's view. The caller must close its PIDs. ErrNoProcess: no process has the
// pid.
func (m *Meter) View(pid int32) (View, error) {
	var s scratch
	numbers, err := m.numbers(&s, pid)
	if err != nil {
		return View{}, err
	}
	view := View{OtherCgroups: m.differs(pid, "cgroup"), OtherTime: m.differs(pid, "time")}
	if len(numbers) <= 1 {
		return view, nil
	}
	file, err := os.Open(m.file(pid, "ns/pid"))
	if err != nil {
		return View{}, m.processError(pid, err)
	}
	n := &PIDNamespace{meter: m, file: file, depth: len(numbers) - 1}
	// an error if the process has ended and something else was opened
	if n.id, err = cgroupfs.Namespace(m.file(pid, ""), "pid"); err != nil {
		return View{}, errors.Join(m.processError(pid, err), file.Close())
	}
	view.PIDs = n
	return view, nil
}

// numbers returns the pids of a process: in the namespace of /proc, in the next one below, and so
// on down to its own.
func (m *Meter) numbers(s *scratch, pid int32) ([]int32, error) {
	data, err := s.read(m.file(pid, "status"))
	if err != nil {
		return nil, m.processError(pid, err)
	}
	for line := range bytes.Lines(data) {
		values, is := bytes.CutPrefix(line, []byte("NSpid:"))
		if !is {
			continue
		}
		var list []int32
		for field := range bytes.FieldsSeq(values) {
			number, err := strconv.ParseInt(string(field), 10, 32)
			if err != nil {
				return nil, fmt.Errorf("process %d: %w status line %q", pid, errMalformed, line)
			}
			list = append(list, int32(number))
		}
		return list, nil
	}
	return []int32{pid}, nil // a kernel without pid namespaces
}

// differs reports whether a process's namespace of a kind differs from this process's.
func (m *Meter) differs(pid int32, kind string) bool {
	other, err := cgroupfs.OtherNamespace("/proc/self", m.file(pid, ""), kind)
	return err == nil && other
}

// Find returns the pid, as seen by this Meter, of the process that has a pid in the namespace.
// ErrNoProcess: there is none.
func (n *PIDNamespace) Find(ctx context.Context, pid int32) (int32, error) {
	var found uintptr
	var errno unix.Errno
	conn, err := n.file.SyscallConn()
	if err == nil {
		err = conn.Control(func(fd uintptr) {
			found, _, errno = unix.Syscall(unix.SYS_IOCTL, fd, unix.NS_GET_PID_FROM_PIDNS, uintptr(pid)) //nolint:gosec // nobody has one below 0
		})
	}
	if err != nil {
		return 0, fmt.Errorf("pid namespace: %w", err)
	}
	switch errno {
	case 0:
		return int32(found), nil
	case unix.ESRCH:
		return 0, fmt.Errorf("%w: pid %d of the pid namespace", ErrNoProcess, pid)
	default: // a kernel before Linux 6.11
		return n.search(ctx, pid)
	}
}

// search scans the process table. It finds processes of this namespace only, not of those below it.
func (n *PIDNamespace) search(ctx context.Context, pid int32) (int32, error) {
	var s scratch
	all, err := pids(n.meter.proc, nil)
	if err != nil {
		return 0, err
	}
	for _, candidate := range all {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if id, err := cgroupfs.Namespace(n.meter.file(candidate, ""), "pid"); err != nil || id != n.id {
			continue
		}
		numbers, err := n.meter.numbers(&s, candidate)
		if err == nil && len(numbers) == n.depth+1 && numbers[n.depth] == pid {
			return candidate, nil
		}
	}
	return 0, fmt.Errorf("%w: pid %d of the pid namespace", ErrNoProcess, pid)
}

// Close closes the namespace's file.
func (n *PIDNamespace) Close() error {
	if n == nil {
		return nil
	}
	return n.file.Close() //nolint:wrapcheck // it was only held
}
