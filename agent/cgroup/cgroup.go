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
	// CPUWeight is its share of the processors if they do not suffice for all, 1 to 10000; 0: 100,
	// the kernel's default.
	CPUWeight int64
}

// Facts are what the kernel says about an engine's cgroup.
type Facts struct {
	// OOMKills is how many of its processes were killed for lack of memory since it was made.
	OOMKills int64
	// AtLimit: since it was made, memory has reached the cgroup's own limit and could not be
	// reclaimed.
	AtLimit bool
	// MemoryMax is its limit in bytes, as the kernel has it; 0: none.
	MemoryMax int64
	// Empty: no process is in it, nor below it.
	Empty bool
}

// Found is a cgroup of ours.
type Found struct {
	ID string // of the allocation
	// Path is the cgroup's, in the hierarchy that accounts for memory.
	Path string
}

// Member is a process of an engine.
type Member struct {
	PID int32
	// StartTime is in clock ticks after boot (field 22 of /proc/PID/stat). A process of the same
	// pid that started at another time is not moved. 0: the pid is known to be still the
	// process's.
	StartTime uint64
}

// Members lists the processes of an engine that are there now, the one that will be there longest
// first.
type Members func() ([]Member, error)

// Freezer stops the processes of engines' cgroups for a moment.
type Freezer interface {
	// Freeze stops all processes of an engine's cgroup, and below it, until Thaw: none of them can
	// start another one. The cgroup is named by its path. Freeze reports whether all have stopped
	// within two seconds. The caller must call Thaw in any case, also after an error.
	// ErrNoFreezing: they cannot be frozen.
	Freeze(ctx context.Context, name string) (all bool, err error)
	// Thaw lets them go on. If the cgroup is not frozen, or gone, it does nothing.
	Thaw(name string) error
}

// Driver makes cgroups of engines. An engine is named by the id of its allocation.
type Driver interface {
	Freezer

	// Name says in a few words how cgroups are made, for the log.
	Name() string
	// Adopt makes a cgroup for an engine that runs and moves all its processes there. It looks
	// again until no process that has started in the meantime is outside. Adopting again moves the
	// processes that are outside then.
	//
	// It returns the cgroup's path, or "" if the cgroup is there but does not account for memory.
	// There may be an error next to it: a limit that could not be set.
	Adopt(ctx context.Context, id string, limits Limits, members Members) (string, error)
	// Lost names what a process would leave behind if it was moved: a limit that it is under now,
	// or its container. "": nothing. ErrNone: there is no such process.
	Lost(pid int32) (string, error)
	// PathOf is the cgroup of a process, in the hierarchy that accounts for memory. ErrNone: there
	// is no such process.
	PathOf(pid int32) (string, error)
	// Set changes the limits. ErrNone: there is no such cgroup.
	Set(ctx context.Context, id string, limits Limits) error
	// Facts reads what the kernel says. ErrNone: there is no such cgroup, any more or at all.
	Facts(ctx context.Context, id string) (Facts, error)
	// Find lists the cgroups of engines that there are, in no particular order.
	Find(ctx context.Context) ([]Found, error)
	// Remove removes the cgroup; one that is gone is no error. ErrBusy: it has processes, and
	// stays.
	Remove(ctx context.Context, id string) error
	// Close closes what the driver has open. Cgroups stay.
	Close() error
}

// ErrID refuses what cannot be part of the name of a cgroup.
var ErrID = errors.New("want an id of letters, digits, - and _")

var goodID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// CheckID refuses ids from which the name of another cgroup or unit would be made: ids come from
// outside.
func CheckID(id string) error {
	if !goodID.MatchString(id) {
		return fmt.Errorf("%q: %w", id, ErrID)
	}
	return nil
}

// The ends of names of cgroups that engines were moved to when they ran already.
const (
	adoptedSuffix = ".adopted"
	scopeSuffix   = ".scope"
	unitPrefix    = "bursar-engine-"
)

// ScopeName is the systemd unit of an engine that ran already.
func ScopeName(id string) string { return unitPrefix + id + scopeSuffix }

// ServiceName is the systemd unit of an engine that is started there.
func ServiceName(id string) string { return unitPrefix + id + ".service" }

// IsNameOf reports whether a driver would give that path to the cgroup of an engine.
func IsNameOf(id, name string) bool {
	switch base := path.Base(name); base {
	case id, id + adoptedSuffix:
		return path.Base(path.Dir(name)) == engines
	default:
		return base == ScopeName(id) || base == ServiceName(id)
	}
}

// Whole reports whether all memory of an engine is charged to the cgroup of this path. Memory
// stays charged to the cgroup in which a process has touched it. So an engine that was moved to
// ours has only that charged there which it has touched since.
func Whole(name string) bool {
	base := path.Base(name)
	scope := strings.HasPrefix(base, unitPrefix) && strings.HasSuffix(base, scopeSuffix)
	return !scope && !strings.HasSuffix(base, adoptedSuffix)
}
