package host

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// stat is the part of /proc/PID/stat (proc(5)) that this package uses.
type stat struct {
	pid, parent    int32
	group, session int32
	state          byte
	threads        int32
	// own is the CPU time of the process's threads, including ended ones. children is that of its
	// ended and reaped children, including theirs. In clock ticks.
	own, children uint64
	// start is in clock ticks after boot.
	start uint64
	// image identifies a program start: the start addresses of code and stack, which are random for
	// each start. A forked process that has started no other program has its parent's image. The
	// zero value: unknown, because this process may not inspect that process.
	image image
}

type image struct {
	code, stack uint64
}

// TicksPerSecond is the unit of times in /proc/PID/stat: USER_HZ, which is 100 on every
// architecture that Go supports.
const TicksPerSecond = 100

// TicksSinceBoot returns the current time in the unit of process start times: clock ticks after
// boot. 0: unknown, which no current kernel reports.
func TicksSinceBoot() uint64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return 0
	}
	return uint64(t.Nano()) / uint64(time.Second/TicksPerSecond) //nolint:gosec // since boot
}

// ended reports whether the process has ended. state is that of its first thread. If it is Z
// (zombie) but several threads are counted, only the first thread has ended.
func ended(state byte, threads int32) bool {
	return state == 'X' || state == 'x' || state == 'Z' && threads <= 1
}

func (s *stat) ended() bool { return ended(s.state, s.threads) }

// headless reports whether the process's first thread has ended while others run.
func (s *stat) headless() bool { return s.state == 'Z' && s.threads > 1 }

// total returns all CPU time of the process and its reaped children, in clock ticks.
func (s *stat) total() uint64 { return s.own + s.children }

// parseStat parses /proc/PID/stat. The second field is the program's name in parentheses. The name
// may itself contain spaces, parentheses and line feeds, so only the last parenthesis counts.
func parseStat(data []byte) (stat, error) {
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 1 || end < open {
		return stat{}, fmt.Errorf("%w stat: no program name", errMalformed)
	}
	var got stat
	pid, err := strconv.ParseInt(string(bytes.TrimSpace(data[:open])), 10, 32)
	if err != nil {
		return stat{}, fmt.Errorf("%w stat: pid: %w", errMalformed, err)
	}
	got.pid = int32(pid)

	var values [fieldsNeeded]uint64
	next := 3 // numbered as in proc(5)
	for field := range bytes.FieldsSeq(data[end+1:]) {
		if next == 3 {
			got.state = field[0]
			next++
			continue
		}
		if next == fieldsNeeded {
			break
		}
		if values[next], err = statField(field); err != nil {
			return stat{}, fmt.Errorf("%w stat: field %d: %w", errMalformed, next, err)
		}
		next++
	}
	if next <= 22 {
		return stat{}, fmt.Errorf("%w stat: %d fields", errMalformed, next-1)
	}
	for _, small := range []struct {
		field int
		to    *int32
	}{{4, &got.parent}, {5, &got.group}, {6, &got.session}, {20, &got.threads}} {
		if values[small.field] > 1<<31-1 {
			return stat{}, fmt.Errorf("%w stat: field %d is %d", errMalformed, small.field, values[small.field])
		}
		*small.to = int32(values[small.field])
	}
	for _, time := range values[14:18] {
		if time > 1<<60 { // implausible; sums must not overflow
			return stat{}, fmt.Errorf("%w stat: %d ticks of CPU time", errMalformed, time)
		}
	}
	got.own = values[14] + values[15]
	got.children = values[16] + values[17]
	got.start = values[22]
	if stack := values[28]; stack != 0 {
		got.image = image{code: values[26], stack: stack}
	}
	return got, nil
}

// statField parses a number. It returns 0 for a negative one: the priority, or the group and
// session of a process that is just being removed. These values mean nothing then.
func statField(field []byte) (uint64, error) {
	if field[0] == '-' {
		if _, err := strconv.ParseInt(string(field), 10, 64); err != nil {
			return 0, fmt.Errorf("negative: %w", err)
		}
		return 0, nil
	}
	value, err := strconv.ParseUint(string(field), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("not negative: %w", err)
	}
	return value, nil
}

// fieldsNeeded is one above the last field that is read, 28.
const fieldsNeeded = 29
