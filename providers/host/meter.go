package host

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bursar/bursar/internal/cgroupfs"
	"github.com/bursar/bursar/internal/processtable"
)

// Defaults of Options.
const (
	DefaultSafetyBytes  = 128 << 20
	DefaultPressureHold = time.Minute
	// DefaultSomeAvg10 and DefaultFullAvg10 are in hundredths of a percent.
	DefaultSomeAvg10 = 1000
	DefaultFullAvg10 = 100
	// DefaultScarcePercent is of the memory that engines can have.
	DefaultScarcePercent = 25
)

// Options configure a Meter. The zero value measures this machine with the defaults.
type Options struct {
	// Root is the directory that contains proc and sys; default "/". Mount points are also resolved
	// below it.
	Root string
	// Cgroup is the cgroup whose limits, with those of its ancestors, cap the capacity for engines.
	// It is a path in its hierarchy. Empty: the cgroup of this process. Set it if the agent's own
	// cgroup has a limit that is not for engines.
	Cgroup string
	// CgroupOrAbove: if Cgroup does not exist, use its nearest existing ancestor. This is for a
	// systemd slice that has no cgroup for a controller because systemd may not write there, as in
	// many containers.
	CgroupOrAbove bool
	// Now is the clock; default time.Now. Differences must be monotonic.
	Now func() time.Time
	// SafetyBytes is memory to keep free for the machine itself; every Sample repeats it. 0:
	// DefaultSafetyBytes; negative: none.
	SafetyBytes int64
	// SomeAvg10 and FullAvg10: memory pressure above either sets Sample.Pressure at once. In
	// hundredths of a percent of the last 10 s; 0: DefaultSomeAvg10 and DefaultFullAvg10. Lower
	// values refuse grants earlier.
	SomeAvg10, FullAvg10 int32
	// ScarcePercent: while more than this share of the memory is available, stalls do not set
	// Sample.Pressure. The kernel also counts stalls when processes read back page cache that a
	// balloon or another cgroup has just dropped, although memory is not short. 0:
	// DefaultScarcePercent; 100: stalls alone decide.
	ScarcePercent int
	// PressureHold is how long both must stay at or below their thresholds before Sample.Pressure
	// ends. 0: DefaultPressureHold. A longer hold means fewer grants after a short stall, and less
	// flapping.
	PressureHold time.Duration
}

// Meter measures one machine. The package comment lists the methods that may run concurrently.
type Meter struct {
	options Options
	proc    string
	now     func() time.Time
	// exists reports whether a process has a pid, without the process table; nil: the process table
	// is not this machine's.
	exists func(pid int) bool

	// mounted guards cgroups: the mounts, read once.
	mounted sync.Mutex
	cgroups *hierarchies

	// swapless: the machine had no swap at the last reading, so the swap use of cgroups need not be
	// read.
	swapless atomic.Bool
	// lazyOfEngines is the lazily freed memory, in bytes, that the last Engines excluded from the
	// unreclaimable memory of engines.
	lazyOfEngines atomic.Int64

	sampler sampler
	tracker tracker
}

// NewMeter returns a Meter. It fails only for invalid options. Unreadable sources are reported by
// the calls that need them, and retried by the next call.
func NewMeter(options Options) (*Meter, error) {
	if options.Cgroup != "" && (!path.IsAbs(options.Cgroup) || path.Clean(options.Cgroup) != options.Cgroup) {
		return nil, fmt.Errorf("cgroup %q: want a clean path that begins with a slash, such as \"/system.slice\"", options.Cgroup)
	}
	if options.SomeAvg10 < 0 || options.FullAvg10 < 0 {
		return nil, fmt.Errorf("pressure thresholds %d and %d: want hundredths of a percent, not negative", options.SomeAvg10, options.FullAvg10)
	}
	if options.ScarcePercent < 0 || options.ScarcePercent > 100 {
		return nil, fmt.Errorf("scarce %d: want a percentage, 0 to 100", options.ScarcePercent)
	}
	if options.PressureHold < 0 {
		return nil, fmt.Errorf("pressure hold %v: want a duration that is not negative", options.PressureHold)
	}
	byDefault(&options.Root, "/")
	byDefault(&options.SafetyBytes, DefaultSafetyBytes)
	byDefault(&options.SomeAvg10, DefaultSomeAvg10)
	byDefault(&options.FullAvg10, DefaultFullAvg10)
	byDefault(&options.PressureHold, DefaultPressureHold)
	byDefault(&options.ScarcePercent, DefaultScarcePercent)
	options.SafetyBytes = max(0, options.SafetyBytes)
	if options.Now == nil {
		options.Now = time.Now
	}
	var exists func(pid int) bool
	if filepath.Clean(options.Root) == "/" {
		exists = processtable.Exists
	}
	return &Meter{
		options: options, exists: exists,
		proc:    filepath.Join(options.Root, "proc"),
		now:     options.Now,
		tracker: tracker{clock: time.Now},
		sampler: sampler{gate: pressureGate{some: options.SomeAvg10, full: options.FullAvg10, hold: options.PressureHold}},
	}, nil
}

// byDefault replaces a zero value.
func byDefault[T comparable](option *T, value T) {
	var zero T
	if *option == zero {
		*option = value
	}
}

// hierarchies are the cgroup mounts of the machine.
type hierarchies struct {
	cgroupfs.Hierarchies

	// ownMeminfo: something is mounted over /proc/meminfo. lxcfs does this to show a container's
	// limit as the machine's memory.
	ownMeminfo bool
}

// hierarchies returns the cgroup mounts. It reads them until one reading has succeeded.
func (m *Meter) hierarchies(s *scratch) (hierarchies, error) {
	m.mounted.Lock()
	defer m.mounted.Unlock()
	if m.cgroups != nil {
		return *m.cgroups, nil
	}
	data, err := s.read(filepath.Join(m.proc, "self", "mountinfo"))
	if err != nil {
		return hierarchies{}, err
	}
	mounts, err := cgroupfs.ParseMounts(data)
	if err != nil {
		return hierarchies{}, err //nolint:wrapcheck // it says what it is about
	}
	m.cgroups = &hierarchies{
		Hierarchies: cgroupfs.Hierarchies{Top: m.options.Root, Mounts: mounts},
		ownMeminfo:  bytes.Contains(data, []byte(" /proc/meminfo ")),
	}
	return *m.cgroups, nil
}

// cgroupPaths reads a process's cgroups; "self" is this process.
func (m *Meter) cgroupPaths(s *scratch, pid string) (cgroupfs.Paths, error) {
	data, err := s.read(filepath.Join(m.proc, pid, "cgroup"))
	if err != nil {
		return nil, err
	}
	return cgroupfs.ParsePaths(data) //nolint:wrapcheck // it says what it is about
}

var errMalformed = cgroupfs.ErrMalformed

var errNoBootID = errors.New("no boot id")

// BootID returns the kernel's id of this boot. Within one boot, a pid with its start time is
// unique.
func (m *Meter) BootID() (string, error) {
	var s scratch
	file := filepath.Join(m.proc, "sys", "kernel", "random", "boot_id")
	data, err := s.read(file)
	if err != nil {
		return "", err
	}
	id := string(bytes.TrimSpace(data))
	if id == "" {
		return "", fmt.Errorf("%s: %w", file, errNoBootID)
	}
	return id, nil
}
