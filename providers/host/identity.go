package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// ErrNoProcess means that no process has this pid now.
var ErrNoProcess = errors.New("no such process")

// ErrHidden means that a process has this pid but the process table hides it from this process. See
// Meter.Blind.
var ErrHidden = errors.New("a process that is there and cannot be seen in /proc")

// Identity identifies a process even if its pid is reused, within one boot.
type Identity struct {
	PID int32
	// StartTime is in clock ticks after boot (field 22 of /proc/PID/stat).
	StartTime uint64
	// UID is the real user id: the user that started the process, whatever its privileges are.
	UID uint32
	// State is the letter in field 3 of /proc/PID/stat, the state of the first thread.
	State byte
	// Threads is the number of threads, field 20.
	Threads int32
}

// Ended reports whether the process has ended and waits for its parent to reap it (a zombie). A
// process whose first thread has ended while others run has the same state letter, but has not
// ended.
func (i Identity) Ended() bool { return ended(i.State, i.Threads) }

// Identify identifies the process that has the pid now. ErrNoProcess: there is none. ErrHidden: it
// exists, but this process cannot see it. A zombie is no error; see Identity.Ended.
func (m *Meter) Identify(pid int32) (Identity, error) {
	var s scratch
	for {
		before, err := m.readStat(&s, pid)
		if err != nil {
			return Identity{}, err
		}
		data, err := s.read(m.file(pid, "status"))
		if err != nil {
			return Identity{}, m.processError(pid, err)
		}
		uid, process, err := parseOwner(data)
		if err != nil {
			return Identity{}, fmt.Errorf("process %d: %w", pid, err)
		}
		if process != pid {
			return Identity{}, fmt.Errorf("%w: %d is a thread of process %d", ErrNoProcess, pid, process)
		}
		// The two files are read one after the other: the pid must not have been reused in between.
		after, err := m.readStat(&s, pid)
		if err != nil {
			return Identity{}, err
		}
		if before.start == after.start {
			return Identity{PID: pid, StartTime: after.start, UID: uid, State: after.state, Threads: after.threads}, nil
		}
	}
}

// parseOwner finds the real user id in /proc/PID/status; the owner of the directory would be root
// for a process that is not dumpable. It also finds the process's id, which differs from PID if PID
// is a thread.
func parseOwner(data []byte) (uid uint32, pid int32, err error) {
	var haveUID, havePID bool
	for line := range bytes.Lines(data) {
		name, values, _ := bytes.Cut(line, []byte(":"))
		isUID, isPID := string(name) == "Uid", string(name) == "Tgid"
		if !isUID && !isPID {
			continue
		}
		first, _, _ := bytes.Cut(bytes.TrimSpace(values), []byte("\t"))
		value, err := strconv.ParseUint(string(first), 10, 32)
		if err != nil || isPID && value > 1<<31-1 {
			return 0, 0, fmt.Errorf("%w status line %q", errMalformed, line)
		}
		if isUID {
			uid, haveUID = uint32(value), true
		} else {
			pid, havePID = int32(value), true //nolint:gosec // checked above
		}
	}
	if !haveUID || !havePID {
		return 0, 0, fmt.Errorf("%w status: no Uid or no Tgid", errMalformed)
	}
	return uid, pid, nil
}

// CgroupOf returns the process's cgroup as a path in its hierarchy: the memory controller's if that
// is mounted as version 1, otherwise the unified one; "" on a machine without cgroups.
// ErrNoProcess: no process has the pid.
func (m *Meter) CgroupOf(pid int32) (string, error) {
	var s scratch
	thread := pid
	if got, err := m.readStat(&s, pid); err == nil && got.headless() {
		thread, _ = m.liveThread(&s, got)
	}
	paths, err := m.cgroupPaths(&s, strconv.Itoa(int(thread)))
	if err != nil {
		return "", m.processError(pid, err)
	}
	known, err := m.hierarchies(&s)
	if err != nil {
		return "", err
	}
	return paths[known.MemoryController()], nil
}

// OwnCgroup returns the process's cgroup if the cgroup and those below it contain only the process
// and its descendants, so that its use is the engine's use; otherwise "". The root, this process's
// own cgroup and its ancestors never count as an engine's. ErrNoProcess: no process has the pid.
func (m *Meter) OwnCgroup(pid int32) (string, error) {
	var s scratch
	name, err := m.CgroupOf(pid)
	if err != nil || name == "" || name == "/" {
		return "", err
	}
	known, err := m.hierarchies(&s)
	if err != nil {
		return "", err
	}
	mine, err := m.cgroupPaths(&s, "self")
	if err != nil {
		return "", err
	}
	if _, above := cgroupfs.Within(name, mine[known.MemoryController()]); above {
		return "", nil
	}
	at, err := known.Find(known.MemoryController(), name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // Not visible from here, so not readable either.
	}
	if err != nil {
		return "", err
	}
	members, all, err := newDescent(&s, m.now, descentTime).Members(at.Directory(), nil)
	if err != nil || !all {
		return "", err
	}
	for _, member := range members {
		if descends, err := m.descends(&s, member, pid); err != nil || !descends {
			return "", err
		}
	}
	return name, nil
}

// descends reports whether a process is the ancestor, or one of its descendants, or has ended.
func (m *Meter) descends(s *scratch, pid, ancestor int32) (bool, error) {
	for first := true; pid != ancestor; first = false {
		process, err := m.readStat(s, pid)
		if errors.Is(err, ErrNoProcess) {
			return first, nil
		}
		if err != nil || process.parent <= 1 {
			return false, err
		}
		pid = process.parent
	}
	return true, nil
}

// file returns the path of a process's file.
func (m *Meter) file(pid int32, name string) string {
	var path strings.Builder
	path.Grow(len(m.proc) + len(name) + 12)
	path.WriteString(m.proc)
	path.WriteByte('/')
	path.WriteString(strconv.Itoa(int(pid)))
	path.WriteByte('/')
	path.WriteString(name)
	return path.String()
}

// readStat reads and parses /proc/PID/stat.
func (m *Meter) readStat(s *scratch, pid int32) (stat, error) {
	data, err := s.read(m.file(pid, "stat"))
	if err != nil {
		return stat{}, m.processError(pid, err)
	}
	got, err := parseStat(data)
	if err != nil {
		return stat{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return got, nil
}
