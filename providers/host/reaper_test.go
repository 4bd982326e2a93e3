package host

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// reaped is a machine on which the process 90 has started an engine with the main process 100.
func reaped(t *testing.T) (run func(pid, parent, session int32), machine *machine) {
	t.Helper()
	machine = newMachine(t)
	machine.write("proc/self/mountinfo", "")
	run = func(pid, parent, session int32) {
		machine.run(fakeProcess{pid: pid, parent: parent, start: uint64(pid), session: session, group: session, state: "S", threads: 1})
	}
	run(1, 0, 1)
	run(90, 1, 90)
	run(100, 90, 90)
	return run, machine
}

func lookAt(t *testing.T, machine *machine, meter *Meter, engines ...Engine) []Usage {
	t.Helper()
	machine.now = machine.now.Add(5 * time.Second)
	usages := meter.Engines(t.Context(), engines)
	for _, usage := range usages {
		if usage.Err != nil {
			t.Error(usage.Err)
		}
	}
	return usages
}

// The processes that the kernel gave to the engine's reaper are the engine's, even if they were
// never seen with their first parent.
func TestWhatAReaperGetsIsItsEngines(t *testing.T) {
	run, machine := reaped(t)
	meter := machine.meter(Options{})
	engine := Engine{ID: "a", PID: 100, StartTime: 100, Reaper: Reaper{90, 90}}
	run(101, 90, 101) // a daemon
	run(102, 101, 102)
	usage := lookAt(t, machine, meter, engine)[0]
	expect(t, "with a daemon", usage, true, 3)
	if !usage.Reaped {
		t.Error("its reaper is not seen")
	}
	want := []Orphan{{PID: 101, StartTime: 101, Descends: true}}
	if diff := cmp.Diff(want, usage.Orphans); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	machine.remove("proc/100")
	expect(t, "without its main process", lookAt(t, machine, meter, engine)[0], false, 2)
	machine.remove("proc/90") // run -9 is gone, too
	run(101, 1, 101)
	usage = lookAt(t, machine, meter, engine)[0]
	expect(t, "without its reaper", usage, false, 2)
	if usage.Reaped {
		t.Error("its reaper is seen")
	}
	again := machine.meter(Options{}) // of a restarted agent
	engine.Left = usage.Orphans
	expect(t, "after a restart", lookAt(t, machine, again, engine)[0], false, 2)
	expect(t, "and later", lookAt(t, machine, again, engine)[0], false, 2)
	machine.run(fakeProcess{pid: 101, parent: 1, start: 300, session: 101, group: 101, state: "S", threads: 1})
	run(102, 1, 102)
	expect(t, "another has the pid of one", lookAt(t, machine, again, engine)[0], false, 1)
	expect(t, "nothing was known", lookAt(t, machine, machine.meter(Options{}), Engine{ID: "a", PID: 100, StartTime: 100})[0], false, 0)
}

// A pid proves nothing: another process may have it, and two engines may name one reaper.
func TestWhatIsNotAnEnginesReaper(t *testing.T) {
	run, machine := reaped(t)
	run(101, 90, 101)
	run(200, 90, 200)
	meter := machine.meter(Options{})
	for when, test := range map[string]struct {
		engines []Engine
		want    []int
	}{
		"an earlier process of its pid": {[]Engine{{ID: "a", PID: 100, StartTime: 100, Reaper: Reaper{90, 80}}}, []int{1}},
		"of two engines": {[]Engine{
			{ID: "a", PID: 100, StartTime: 100, Reaper: Reaper{90, 90}}, {ID: "b", PID: 200, StartTime: 200, Reaper: Reaper{90, 90}},
		}, []int{1, 1}},
		"of one, above another": {[]Engine{
			{ID: "a", PID: 100, StartTime: 100, Reaper: Reaper{90, 90}}, {ID: "b", PID: 200, StartTime: 200},
		}, []int{2, 1}},
		"the main process of another": {[]Engine{
			{ID: "outer", PID: 90, StartTime: 90}, {ID: "a", PID: 100, StartTime: 100, Reaper: Reaper{90, 90}},
		}, []int{1, 3}},
	} {
		for i, usage := range lookAt(t, machine, meter, test.engines...) {
			if usage.Processes != test.want[i] {
				t.Errorf("%s: engine %s has %d processes; want %d", when, usage.ID, usage.Processes, test.want[i])
			}
		}
		meter = machine.meter(Options{})
	}
}

// An engine's keeper is in its cgroup but is no process of the engine.
func TestAReaperInTheCgroupIsNotCounted(t *testing.T) {
	run, machine := reaped(t)
	machine.write("proc/self/mountinfo", "36 25 0:32 / /sys/fs/cgroup rw - cgroup2 none rw\n")
	machine.write("proc/self/cgroup", "0::/agent\n")
	machine.write("proc/100/cgroup", "0::/e\n")
	machine.write("sys/fs/cgroup/e/memory.current", "1048576\n")
	machine.write("sys/fs/cgroup/e/memory.stat", "inactive_anon 0\nactive_anon 1048576\ninactive_file 0\nactive_file 0\nunevictable 0\n")
	machine.write("sys/fs/cgroup/e/cpu.stat", "usage_usec 5\n")
	machine.write("sys/fs/cgroup/e/cgroup.procs", "90\n100\n101\n")
	run(101, 90, 101)
	meter := machine.meter(Options{})
	engine := Engine{ID: "a", PID: 100, StartTime: 100, Cgroup: "/e", Reaper: Reaper{90, 90}}
	if usage := lookAt(t, machine, meter, engine)[0]; !usage.Alive || !usage.Reaped {
		t.Errorf("%+v", usage)
	}
	machine.remove("proc/100")
	machine.write("sys/fs/cgroup/e/cgroup.procs", "90\n101\n")
	expect(t, "a daemon is left", lookAt(t, machine, meter, engine)[0], false, 1)
	machine.write("sys/fs/cgroup/e/cgroup.procs", "90\n")
	expect(t, "a daemon is left in another cgroup", lookAt(t, machine, meter, engine)[0], false, 1)
	machine.remove("proc/101")
	expect(t, "its keeper is left", lookAt(t, machine, meter, engine)[0], false, 0)
}

// Under hidepid the reaper of another user's engine is invisible, and so are the processes below
// it.
func TestAnEngineWhoseReaperIsHiddenLives(t *testing.T) {
	run, machine := reaped(t)
	meter := machine.meter(Options{})
	engine := Engine{ID: "a", PID: 100, StartTime: 100, Reaper: Reaper{90, 90}}
	run(101, 90, 101)
	_ = lookAt(t, machine, meter, engine)
	for _, path := range []string{"proc/100", "proc/90", "proc/101"} {
		machine.remove(path)
	}
	there := []int{1, 90, 101}
	meter.exists = func(pid int) bool { return slices.Contains(there, pid) }
	if u := meter.Engines(t.Context(), []Engine{engine})[0]; u.Alive || u.Processes == 0 || !errors.Is(u.Err, ErrHidden) {
		t.Errorf("its reaper is hidden: %+v", u)
	}
	there = []int{1}
	if u := meter.Engines(t.Context(), []Engine{engine})[0]; u.Alive || u.Processes != 0 || u.Err != nil {
		t.Errorf("its reaper has gone: %+v", u)
	}
}
