package host

import (
	"context"
	"errors"
	"time"
)

// Defaults of Options.
const (
	DefaultSafetyBytes  = 128 << 20
	DefaultPressureHold = time.Minute
	// DefaultSomeAvg10 and DefaultFullAvg10 are in hundredths of a percent.
	DefaultSomeAvg10 = 1000
	DefaultFullAvg10 = 100
)

// ErrNoProcess says that no process has this pid now.
var ErrNoProcess = errors.New("no such process")

// Options say where and how a Meter looks. The zero value measures this machine with the defaults.
type Options struct {
	// Root is the directory that holds proc and sys; default "/". Mount points are looked up below it too.
	Root string
	// Cgroup is the cgroup whose limits, and its ancestors', cap what engines can have, as a path below the cgroup mount. Empty:
	// the cgroup of this process. Set it where the agent's own cgroup has a limit that is not for engines.
	Cgroup string
	// Now is the clock; default time.Now. Differences must be monotonic.
	Now func() time.Time
	// SafetyBytes is memory kept free for the machine itself, passed on in every Sample. 0: DefaultSafetyBytes; negative: none.
	SafetyBytes int64
	// SomeAvg10 and FullAvg10: memory pressure above either means Sample.Pressure at once. In hundredths of a percent of the
	// last 10 s; 0: DefaultSomeAvg10 and DefaultFullAvg10. Lower refuses grants earlier.
	SomeAvg10, FullAvg10 int32
	// PressureHold is how long both must have been back at or below their thresholds before Sample.Pressure ends.
	// 0: DefaultPressureHold. Longer means fewer grants after a bad moment and less flapping.
	PressureHold time.Duration
}

// Meter measures one machine. The package comment says which methods may be called together.
type Meter struct {
	options Options
}

// NewMeter returns a Meter. It fails only for options that make no sense; sources that cannot be read are reported by the
// calls that need them, and tried again by the next.
func NewMeter(options Options) (*Meter, error) {
	return &Meter{options: options}, nil
}

// Capacity is what the machine has at most.
type Capacity struct {
	// MemoryBytes and CPUMillis are the least of the machine's and every limit on the path to the root.
	MemoryBytes int64
	CPUMillis   int64
	// MemorySource and CPUSource name what set the figure: "host", or a limit such as "cgroup /a/b memory.max".
	MemorySource string
	CPUSource    string
	// Errors has what could not be read, by source. With an entry here the true figure may be lower.
	Errors map[string]string
}

// Capacity measures the static bound. It fails where the machine's own size is unknown.
func (m *Meter) Capacity(ctx context.Context) (Capacity, error) { return Capacity{}, ctx.Err() }

// Sample is one measurement of the machine. A nil field is unknown.
type Sample struct {
	Time time.Time
	// MemoryTotalBytes is the machine's memory, or the lowest cgroup limit on the path. MemoryAvailableBytes is what could be
	// used without swapping: the least of the machine's and of what each of those limits leaves.
	MemoryTotalBytes     *int64
	MemoryAvailableBytes *int64
	// MemorySafetyBytes is Options.SafetyBytes as it applies.
	MemorySafetyBytes int64
	// CPUTotalMillis is the CPU within every limit; CPUUsedMillis the part of it that could not be had since the last Sample
	// (nil in the first).
	CPUTotalMillis *int64
	CPUUsedMillis  *int64
	// Load1Millis is the load average over one minute, in thousandths.
	Load1Millis *int64
	// Pressure stall information over 10 s, in hundredths of a percent: the worst of the machine and of each cgroup on the
	// path. Nil too where the kernel has none.
	MemorySomeAvg10 *int32
	MemoryFullAvg10 *int32
	CPUSomeAvg10    *int32
	// Pressure is memory pressure with hysteresis.
	Pressure      bool
	SwapUsedBytes *int64
	Processes     int
	// Degraded has what could not be read, by source.
	Degraded map[string]string
}

// Sample measures the machine now. It never fails: see Sample.Degraded.
func (m *Meter) Sample(ctx context.Context) Sample { return Sample{} }

// Identity tells processes apart across reuse of pids, within one boot.
type Identity struct {
	PID int32
	// StartTime is in clock ticks after boot (field 22 of /proc/PID/stat).
	StartTime uint64
	// UID is the real user id.
	UID uint32
	// State is the letter of field 3 of /proc/PID/stat.
	State byte
	// Threads is the number of threads, field 20.
	Threads int
}

// Ended reports whether the process has ended and only waits for its parent to take note (a zombie). A process whose first
// thread has ended while others run shows the same state letter and has not ended.
func (i Identity) Ended() bool {
	return i.State == 'X' || i.State == 'x' || i.State == 'Z' && i.Threads <= 1
}

// BootID returns the kernel's id of this boot.
func (m *Meter) BootID() (string, error) { return "", nil }

// Identify says who has the pid now. ErrNoProcess: nobody. A zombie is returned without an error; see Identity.Ended.
func (m *Meter) Identify(pid int32) (Identity, error) { return Identity{}, ErrNoProcess }

// CgroupOf returns the process's cgroup as a path below the cgroup mount: that of the memory controller where it is mounted
// as version 1, else the unified one. ErrNoProcess: nobody has the pid.
func (m *Meter) CgroupOf(pid int32) (string, error) { return "", ErrNoProcess }

// OwnCgroup returns the process's cgroup if only the process and its descendants are in it, so that the cgroup's usage is the
// engine's; else "". ErrNoProcess: nobody has the pid.
func (m *Meter) OwnCgroup(pid int32) (string, error) { return "", ErrNoProcess }

// Engine is a process tree to measure.
type Engine struct {
	ID        string
	PID       int32
	StartTime uint64
	// Cgroup is its own, as CgroupOf gives it; "" if it has none of its own.
	Cgroup string
}

// Usage is what one engine used.
type Usage struct {
	ID string
	// Alive: the root process with that start time exists and is no zombie. Processes may be left when it is not.
	Alive bool
	// MemoryBytes is all memory held, page cache in a cgroup included. UnreclaimableBytes is the part that the kernel cannot
	// take back without swapping; where it is not known exactly it errs low.
	MemoryBytes        int64
	UnreclaimableBytes int64
	// CPUMillis is the mean since the last call, in thousandths of a core; 0 at the first.
	CPUMillis int64
	// Processes that have not ended.
	Processes int
	// Err says what could not be measured; the other fields hold what could.
	Err error
}

// Engines measures the engines, in their order. It reads the process table at most once however many there are.
func (m *Meter) Engines(ctx context.Context, engines []Engine) []Usage { return nil }
