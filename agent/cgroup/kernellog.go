package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Kill is a process that the kernel killed for lack of memory.
type Kill struct {
	PID int32
	// At is the time of the kill after boot.
	At time.Duration
	// Limit is set if a cgroup's limit caused the kill. Otherwise the machine had no memory left.
	Limit bool
	// Cgroup is the cgroup whose limit it was, if the log names it.
	Cgroup string
}

const (
	// maxKills is the number of kills kept. No more are expected between two calls of Read.
	maxKills = 1024
	// recordSize is more than the kernel's longest record, in bytes.
	recordSize = 8192
	// maxRecords bounds one Read; a kernel log has fewer records. The next Read continues.
	maxRecords = 1 << 17
	// initialPIDs is the namespace of the pids in the kernel's log (PROC_PID_INIT_INO).
	initialPIDs = "pid:[4026531836]"
)

// KernelLog finds kills in the kernel's log. It is safe for concurrent use.
type KernelLog struct {
	mu     sync.Mutex
	source io.Reader // guarded by mu, as all below
	buffer []byte
	parser killParser
	kills  []Kill // in their order
}

// OpenKernelLog opens /dev/kmsg at its oldest record: kills while no agent ran count too. It
// returns the errors of opening. ErrNone: this process is in a pid namespace, where the log's pids
// have no meaning.
func OpenKernelLog(proc string) (*KernelLog, io.Closer, error) {
	switch namespace, err := os.Readlink(filepath.Join(proc, "self", "ns", "pid")); {
	case err != nil:
		return nil, nil, fmt.Errorf("kernel log: %w", err)
	case namespace != initialPIDs:
		return nil, nil, fmt.Errorf("kernel log: its pids are not those that are seen here: %w", ErrNone)
	}
	fd, err := syscall.Open("/dev/kmsg", syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("kernel log: open /dev/kmsg: %w", err)
	}
	device := device(fd)
	return NewKernelLog(device), device, nil
}

// device is a descriptor whose Read does not block. An *os.File would wait for the next record.
type device int

func (d device) Read(to []byte) (int, error) { return syscall.Read(int(d), to) } //nolint:wrapcheck // what to do depends on the number

func (d device) Close() error { return syscall.Close(int(d)) } //nolint:wrapcheck // there is no more to say

// NewKernelLog reads records in the format of /dev/kmsg. Each call of the source's Read returns one
// record, or an error: EAGAIN or io.EOF if there are no more for now, EPIPE if records were lost.
func NewKernelLog(source io.Reader) *KernelLog {
	return &KernelLog{source: source, buffer: make([]byte, recordSize)}
}

// Read reads the records that were logged since its last call. After an error, the kills that were
// found before it stay.
func (l *KernelLog) Read() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range maxRecords {
		n, err := l.source.Read(l.buffer)
		if n > 0 {
			if kill, is := l.parser.record(l.buffer[:n]); is {
				l.kills = append(l.kills, kill)
				l.kills = l.kills[max(0, len(l.kills)-maxKills):]
			}
		}
		switch {
		case err == nil, errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN), errors.Is(err, io.EOF):
			return nil
		default:
			return fmt.Errorf("kernel log: %w", err)
		}
	}
	return nil
}

// Of returns the last kill of a process that started at a time after boot.
func (l *KernelLog) Of(pid int32, started time.Duration) (Kill, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range slices.Backward(l.kills) {
		// The log's clock may be a little behind the clock of start times, which also counts while
		// the machine sleeps. The kernel reuses a pid only after some thousands of others.
		if k.PID == pid && k.At >= started-clockSlack {
			return k, true
		}
	}
	return Kill{}, false
}

// AtLimitOf returns how many processes were killed since a time after boot because the limit of a
// cgroup was reached, and the last of them.
func (l *KernelLog) AtLimitOf(path string, since time.Duration) (last Kill, kills int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.kills {
		// The slack is smaller than for a pid, because a cgroup's name can be reused at once.
		if k.Limit && k.Cgroup == path && k.At >= since-time.Second {
			last = k
			kills++
		}
	}
	return last, kills
}

const clockSlack = 10 * time.Second

// killParser parses the lines by which the kernel logs kills, one after the other (mm/oom_kill.c
// and mm/memcontrol.c). Their order is: since Linux 4.19 "oom-kill:constraint=…,oom_memcg=…",
// before that "Memory cgroup out of memory: Kill process …" or "Tasks in … killed as a result of
// limit of …"; then "Killed process N". Since 5.1 the cause precedes "Killed process N" on its
// line.
type killParser struct {
	limit  bool
	cgroup string
}

var (
	killed      = regexp.MustCompile(`(?:^|: )Killed process (\d+)[ :(]`)
	resultOf    = regexp.MustCompile(`^Tasks? in .* killed as a result of limit of (\S+)`)
	constraints = regexp.MustCompile(`^oom-kill:constraint=(\w+),`)
	oomCgroup   = regexp.MustCompile(`,oom_memcg=([^,]*),`)
)

// record takes one record "priority,sequence,microseconds,flags[,…];text", with lines of
// properties behind it.
func (p *killParser) record(record []byte) (Kill, bool) {
	head, rest, found := bytes.Cut(record, []byte(";"))
	text, _, _ := bytes.Cut(rest, []byte("\n"))
	fields := strings.Split(string(head), ",")
	if !found || len(fields) < 4 {
		return Kill{}, false
	}
	// Programs can write to the log too, but never with the kernel's facility, which is 0.
	priority, err := strconv.ParseUint(fields[0], 10, 32)
	if err != nil || priority > 7 {
		return Kill{}, false
	}
	at, err := strconv.ParseUint(fields[2], 10, 53)
	if err != nil {
		return Kill{}, false
	}
	return p.line(string(text), time.Duration(at)*time.Microsecond)
}

func (p *killParser) line(text string, at time.Duration) (Kill, bool) {
	text = strings.TrimSpace(text)
	switch {
	case strings.HasPrefix(text, "oom-kill:"):
		constraint := constraints.FindStringSubmatch(text)
		*p = killParser{limit: constraint != nil && constraint[1] == "CONSTRAINT_MEMCG"}
		if name := oomCgroup.FindStringSubmatch(text); name != nil && p.limit {
			p.cgroup = name[1]
		}
		return Kill{}, false
	case resultOf.MatchString(text):
		*p = killParser{limit: true, cgroup: resultOf.FindStringSubmatch(text)[1]}
		return Kill{}, false
	case strings.HasPrefix(text, "Memory cgroup out of memory"):
		p.limit = true
	case strings.HasPrefix(text, "Out of memory"):
		*p = killParser{}
	}
	match := killed.FindStringSubmatch(text)
	if match == nil {
		return Kill{}, false
	}
	pid, err := strconv.ParseInt(match[1], 10, 32)
	if err != nil {
		return Kill{}, false
	}
	kill := Kill{PID: int32(pid), At: at, Limit: p.limit, Cgroup: p.cgroup}
	// During many kills in a short time, the kernel logs the preceding lines only for the first
	// kill. They do not belong to the next one.
	*p = killParser{}
	return kill, true
}
