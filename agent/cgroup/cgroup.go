package cgroup

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
)

var (
	// ErrBusy says that a cgroup has processes and stays.
	ErrBusy = errors.New("cgroup has processes")
	// ErrNone says that an engine has no cgroup of ours.
	ErrNone = errors.New("no cgroup")
)

// Limits are the limits that the kernel holds an engine to.
type Limits struct {
	// MemoryMax is the most memory in bytes, swap included; 0: no limit.
	MemoryMax int64
	// CPUMillis is the most processor time, in thousandths of a core; 0: no limit.
	CPUMillis int64
	// CPUWeight is the engine's share of busy processors, 1 to 10000; 0 means 100, the kernel's
	// default.
	CPUWeight int64
}

// Facts are the kernel's data about an engine's cgroup.
type Facts struct {
	// OOMKills is the number of its processes that were killed for lack of memory since the cgroup
	// was made.
	OOMKills int64
	// AtLimit is set if, since the cgroup was made, its memory has reached its own limit and could
	// not be reclaimed.
	AtLimit bool
	// MemoryMax is the kernel's limit of the cgroup in bytes; 0 means none.
	MemoryMax int64
	// Empty is set if no process is in the cgroup or below it.
	Empty bool
}

// Found is a cgroup of ours.
type Found struct {
	ID string // of the allocation
	// Path is the cgroup's path in the hierarchy that accounts for memory.
	Path string
}

// Member is a process of an engine.
type Member struct {
	PID int32
	// StartTime is in clock ticks after boot (field 22 of /proc/PID/stat). A process with the same
	// pid and another start time is not moved. 0 means that the caller knows that the pid was not
	// reused.
	StartTime uint64
}

// Members lists the current processes of an engine. The first one should be the one that lives
// longest.
type Members func() ([]Member, error)

// Freezer stops the processes of engines' cgroups for a moment.
type Freezer interface {
	// Freeze stops all processes in and below an engine's cgroup until Thaw: none of them can start
	// another one. name is the cgroup's path. Freeze reports whether all have stopped within two
	// seconds. The caller must always call Thaw, also after an error. ErrNoFreezing: they cannot be
	// frozen.
	Freeze(ctx context.Context, name string) (all bool, err error)
	// Thaw lets the processes go on. If the cgroup is not frozen, or gone, it does nothing.
	Thaw(name string) error
}

// Driver makes cgroups of engines. An engine is named by the id of its allocation.
type Driver interface {
	Freezer

	// Name describes the driver in a few words, for the log.
	Name() string
	// Adopt makes a cgroup for a running engine and moves all its processes there. It repeats until
	// no new process is outside. A second call moves the processes that are outside then.
	//
	// Adopt returns the cgroup's path, or "" if the cgroup exists but does not account for memory.
	// It may return a path and an error if a limit could not be set.
	Adopt(ctx context.Context, id string, limits Limits, members Members) (string, error)
	// Lost names the limit or the container that a move would take from a process; "" if there is
	// none. ErrNone: there is no such process.
	Lost(pid int32) (string, error)
	// PathOf returns the cgroup of a process in the hierarchy that accounts for memory. ErrNone:
	// there is no such process.
	PathOf(pid int32) (string, error)
	// Set changes the limits. ErrNone: there is no such cgroup.
	Set(ctx context.Context, id string, limits Limits) error
	// Facts reads the kernel's data. ErrNone: the cgroup does not exist.
	Facts(ctx context.Context, id string) (Facts, error)
	// Find lists the existing cgroups of engines, in no particular order.
	Find(ctx context.Context) ([]Found, error)
	// Remove removes the cgroup. If the cgroup is gone, that is no error. ErrBusy: it has processes
	// and stays.
	Remove(ctx context.Context, id string) error
	// Close releases the driver's connections and files. The engines' cgroups stay.
	Close() error
}

// ErrID refuses an id that cannot be part of a cgroup's name.
var ErrID = errors.New("want an id of letters, digits, - and _")

var goodID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// CheckID refuses ids that could produce the name of another cgroup or unit. Ids come from outside.
func CheckID(id string) error {
	if !goodID.MatchString(id) {
		return fmt.Errorf("%q: %w", id, ErrID)
	}
	return nil
}

// The suffixes of cgroups for engines that were running before the agent moved them.
const (
	adoptedSuffix = ".adopted"
	scopeSuffix   = ".scope"
	unitPrefix    = "bursar-engine-"
)

// ScopeName returns the systemd unit of an engine that was running before the agent moved it.
func ScopeName(id string) string { return unitPrefix + id + scopeSuffix }

// ServiceName returns the systemd unit of an engine that starts in it.
func ServiceName(id string) string { return unitPrefix + id + ".service" }

// IsNameOf reports whether a driver would give this path to the engine's cgroup.
func IsNameOf(id, name string) bool {
	switch base := path.Base(name); base {
	case id, id + adoptedSuffix:
		return path.Base(path.Dir(name)) == engines
	default:
		return base == ScopeName(id) || base == ServiceName(id)
	}
}

// Whole reports whether all memory of an engine is charged to the cgroup of this path. The kernel
// charges memory to the cgroup in which a process first touches it. So the cgroup of an engine that
// was moved has only the charges since the move.
func Whole(name string) bool {
	base := path.Base(name)
	scope := strings.HasPrefix(base, unitPrefix) && strings.HasSuffix(base, scopeSuffix)
	return !scope && !strings.HasSuffix(base, adoptedSuffix)
}
