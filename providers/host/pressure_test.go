package host

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// TestPressureBeginsAtOnceAndEndsAfterTheHold drives the gate through a short stall, with samples
// 20 s apart.
func TestPressureBeginsAtOnceAndEndsAfterTheHold(t *testing.T) {
	gate := pressureGate{some: 1000, full: 100, hold: time.Minute}
	now := time.Unix(0, 0)
	const unknown = -1
	for step, s := range []struct {
		some, full int32
		want       bool
		why        string
	}{
		{0, 0, false, "at rest"},
		{unknown, unknown, false, "unknown is no pressure"},
		{1000, 100, false, "at the thresholds"},
		{1001, 0, true, "some is above: at once"},
		{500, 0, true, "back, the hold begins"},
		{500, 0, true, "back for 20 s"},
		{500, 0, true, "back for 40 s"},
		{0, 101, true, "full is above: the hold is void"},
		{0, 0, true, "back again"},
		{0, 0, true, "back for 20 s"},
		{unknown, unknown, true, "unknown: the hold is void"},
		{0, 0, true, "back again"},
		{0, 0, true, "back for 20 s"},
		{0, 0, true, "back for 40 s"},
		{0, 0, false, "back for 60 s: over"},
		{0, 0, false, "at rest"},
	} {
		now = now.Add(20 * time.Second)
		var figures stall
		if s.some != unknown {
			figures = stall{some: &s.some, full: &s.full}
		}
		if got := gate.update(now, figures, s.some != unknown); got != s.want {
			t.Errorf("step %d (%s): pressure is %v", step, s.why, got)
		}
	}
}

func TestPressureIsBelievedFromAPartOfItsSources(t *testing.T) {
	machine := newMachine(t)
	machine.load("testdata/machines/v2.txtar")
	machine.write("proc/pressure/memory", "some avg10=50.00 avg60=0 avg300=0 total=0\n")
	machine.write("sys/fs/cgroup/system.slice/agent.service/memory.pressure", "nonsense\n")
	got := machine.meter(Options{ScarcePercent: 100}).Sample(t.Context())
	if !got.Pressure || got.MemorySomeAvg10 != nil || got.Degraded[SourcePressure] == "" {
		t.Errorf("%v %v %v", got.Pressure, got.MemorySomeAvg10, got.Degraded)
	}
}

func TestStallsWithPlentyOfMemoryAreNoPressure(t *testing.T) {
	for _, test := range []struct {
		available string
		want      bool
	}{{"7000000", false}, {"1000000", true}} { // of 8000000 kB
		machine := newMachine(t)
		machine.load("testdata/machines/v2.txtar")
		machine.write("proc/meminfo", "MemTotal: 8000000 kB\nMemFree: 900000 kB\nMemAvailable: "+test.available+" kB\nBuffers: 0 kB\nCached: 0 kB\n")
		machine.write("proc/pressure/memory", "some avg10=50.00 avg60=0 avg300=0 total=0\nfull avg10=40.00 avg60=0 avg300=0 total=0\n")
		got := machine.meter(Options{Cgroup: "/"}).Sample(t.Context())
		if got.Pressure != test.want || got.MemorySomeAvg10 == nil || *got.MemorySomeAvg10 != 5000 {
			t.Errorf("%s kB available: pressure %v, want %v (%v)", test.available, got.Pressure, test.want, got.Degraded)
		}
	}
}

// TestKernelsWithoutPressure simulates the errors of open and read if the accounting is absent, or
// may not be read.
func TestKernelsWithoutPressure(t *testing.T) {
	for _, test := range []struct {
		why  string
		err  error
		fine bool
	}{
		{"no CONFIG_PSI, psi=0, or turned off for the cgroup", unix.ENOENT, true},
		{"psi=0 on Linux 4.20 to 5.1, and on RHEL 8", unix.EOPNOTSUPP, true},
		{"the cgroup was removed before it was read", unix.ENODEV, true},
		{"a security module says no", unix.EACCES, false},
		{"a container's seccomp or mask says no", unix.EPERM, false},
		{"a broken disk under a fixture", unix.EIO, false},
	} {
		got, err := pressureIn("memory.pressure", nil, &fs.PathError{Op: "read", Path: "memory.pressure", Err: test.err})
		if got.some != nil || got.full != nil || (err == nil) != test.fine || !test.fine && !errors.Is(err, test.err) {
			t.Errorf("%s (%v): %v, %v", test.why, test.err, got, err)
		}
	}
	got, err := pressureIn("cpu.pressure", []byte("some avg10=1.50 avg60=0.00 avg300=0.00 total=1\n"), nil)
	if err != nil || got.some == nil || *got.some != 150 || got.full != nil {
		t.Errorf("CPU before Linux 5.13 has no line full: %v, %v", got, err)
	}
}

// TestPressureGate drives the gate through random measurements. It is closed from a figure above
// its threshold on. It opens after a sample only if that sample and all others within the hold time
// before it were known and not above.
func TestPressureGate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hold := time.Duration(rapid.IntRange(0, 90).Draw(t, "hold")) * time.Second
		gate := pressureGate{some: 1000, full: 100, hold: hold}
		now := time.Unix(0, 0)
		var past []weather
		closed := false
		for range rapid.IntRange(1, 60).Draw(t, "samples") {
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
			some, full := rapid.Int32Range(0, 1500).Draw(t, "some"), rapid.Int32Range(0, 150).Draw(t, "full")
			figures, known := stall{some: &some, full: &full}, rapid.IntRange(0, 5).Draw(t, "known") > 0
			if !known && rapid.Bool().Draw(t, "nothing") {
				figures = stall{}
			}
			above := figures.some != nil && (some > 1000 || full > 100)
			past = append(past, weather{now, above, known})
			if above {
				closed = true
			} else if closed && calmSince(past, hold) {
				closed = false
			}
			if got := gate.update(now, figures, known); got != closed {
				t.Fatalf("sample %d at %s: closed %v, want %v", len(past), now.Sub(time.Unix(0, 0)), got, closed)
			}
		}
	})
}

// weather is one sample of the property above.
type weather struct {
	at           time.Time
	above, known bool
}

// calmSince reports whether the newest samples, over at least the hold time, are known and not
// above.
func calmSince(past []weather, hold time.Duration) bool {
	newest := past[len(past)-1].at
	for i := len(past) - 1; i >= 0 && past[i].known && !past[i].above; i-- {
		if newest.Sub(past[i].at) >= hold {
			return true
		}
	}
	return false
}
