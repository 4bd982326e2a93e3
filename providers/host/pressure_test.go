package host

import (
	"testing"
	"time"
)

// TestPressureBeginsAtOnceAndEndsAfterTheHold drives the gate through a bad moment, as samples 20 s apart see it.
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
