package host

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// stall is pressure stall information over the last 10 s, in hundredths of a percent (the kernel's
// accounting/psi): the share of time in which some task, or all tasks at once, waited for the
// resource. Nil: the kernel does not report it.
type stall struct {
	some, full *int32
}

// parsePressure parses /proc/pressure/* or a cgroup's *.pressure.
func parsePressure(data []byte) (stall, error) {
	var got stall
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		kind, rest, _ := bytes.Cut(line, []byte(" "))
		value, found := bytes.CutPrefix(rest, []byte("avg10="))
		if !found {
			return stall{}, fmt.Errorf("%w pressure line %q", errMalformed, line)
		}
		value, _, _ = bytes.Cut(value, []byte(" "))
		percent, err := strconv.ParseFloat(string(value), 64)
		if err != nil || !(percent >= 0 && percent <= 1000) {
			return stall{}, fmt.Errorf("%w pressure line %q", errMalformed, line)
		}
		hundredths := int32(percent*100 + 0.5)
		switch string(kind) {
		case "some":
			got.some = &hundredths
		case "full": // For CPU since Linux 5.13, but meaningless there.
			got.full = &hundredths
		}
	}
	if got.some == nil {
		return stall{}, fmt.Errorf("%w pressure: no line \"some\"", errMalformed)
	}
	return got, nil
}

// readPressure reads one pressure file.
func (s *scratch) readPressure(file string) (stall, error) {
	data, err := s.read(file)
	return pressureIn(file, data, err)
}

// pressureIn parses the content of a pressure file. Missing information is no error: a kernel
// before 4.20 has no file. A kernel that was built or booted without the accounting (psi=0) has no
// file, or fails to read it (before 5.2). A cgroup with cgroup.pressure off (since 6.1), and a
// removed cgroup, have no file either.
func pressureIn(file string, data []byte, err error) (stall, error) {
	if cgroupfs.Absent(err) || errors.Is(err, unix.EOPNOTSUPP) {
		return stall{}, nil
	}
	if err != nil {
		return stall{}, err
	}
	got, err := parsePressure(data)
	if err != nil {
		return stall{}, fmt.Errorf("%s: %w", file, err)
	}
	return got, nil
}

// worse keeps the higher value of each figure.
func (a stall) worse(b stall) stall {
	higher := func(x, y *int32) *int32 {
		if x == nil || y != nil && *y > *x {
			return y
		}
		return x
	}
	return stall{some: higher(a.some, b.some), full: higher(a.full, b.full)}
}

// pressureOf returns the maximum of the machine's pressure and that of each cgroup on the path.
// Only the cgroupfs.Unified hierarchy has pressure files, on a hybrid machine, too. If it returns
// an error, the result covers the readable files.
func (m *Meter) pressureOf(s *scratch, resource string) (stall, error) {
	worst, problem := s.readPressure(filepath.Join(m.proc, "pressure", resource))
	at, found, err := m.locate(s, cgroupfs.Unified)
	if err != nil || !found {
		return worst, errors.Join(problem, err)
	}
	for _, level := range at.Ancestry() {
		here, err := s.readPressure(filepath.Join(level.Directory(), resource+".pressure"))
		problem = errors.Join(problem, err)
		worst = worst.worse(here)
	}
	return worst, problem
}

// pressureGate decides whether the machine is under pressure. It closes as soon as a figure is
// above its threshold, and opens when all figures have been back for the hold time.
type pressureGate struct {
	some, full int32
	hold       time.Duration

	closed bool
	// since is the time when the figures came back below the thresholds; zero: not yet.
	since time.Time
}

// update takes a measurement and reports whether the gate is closed. An incomplete measurement can
// close the gate, but not open it.
func (g *pressureGate) update(now time.Time, figures stall, known bool) bool {
	above := figures.some != nil && *figures.some > g.some || figures.full != nil && *figures.full > g.full
	switch {
	case above:
		g.closed, g.since = true, time.Time{}
	case !known:
		g.since = time.Time{}
	case g.closed && g.since.IsZero():
		g.since = now
	}
	if g.closed && !g.since.IsZero() && now.Sub(g.since) >= g.hold {
		g.closed = false
	}
	return g.closed
}
