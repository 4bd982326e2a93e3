package host

import (
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// wideEngine is an engine with more cgroups below its own than are visited, and a process in the
// last of them. Its root has ended.
func wideEngine(t *testing.T, v1 bool) (*machine, Engine) {
	t.Helper()
	machine := newMachine(t)
	directory, stat := "sys/fs/cgroup/", "inactive_anon 0\nactive_anon 1048576\ninactive_file 0\nactive_file 0\nunevictable 0\n"
	if v1 {
		machine.write("proc/self/mountinfo", "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup none rw,memory\n")
		machine.write("proc/self/cgroup", "4:memory:/agent\n")
		directory += "memory/"
		machine.write(directory+"e/memory.usage_in_bytes", "1048576\n")
		stat = "total_inactive_anon 0\ntotal_active_anon 1048576\ntotal_inactive_file 0\ntotal_active_file 0\ntotal_unevictable 0\n"
	} else {
		machine.write("proc/self/mountinfo", "36 25 0:32 / /sys/fs/cgroup rw - cgroup2 none rw\n")
		machine.write("proc/self/cgroup", "0::/agent\n")
		machine.write(directory+"e/memory.current", "1048576\n")
		machine.write(directory+"e/cpu.stat", "usage_usec 5\n")
		machine.write(directory+"e/cgroup.events", "populated 1\nfrozen 0\n")
	}
	machine.write(directory+"e/memory.stat", stat)
	machine.write(directory+"e/cgroup.procs", "")
	for i := range mostCgroups + 50 {
		mkdir(t, filepath.Join(machine.root, directory, "e", strconv.Itoa(i)))
	}
	return machine, Engine{ID: "a", PID: 100, StartTime: 100, Cgroup: "/e"}
}

// A dead engine does not stay for ever because it has left more cgroups than are visited.
func TestAnEngineEndsThoughNotAllOfItsCgroupsCanBeLookedAt(t *testing.T) {
	for name, c := range map[string]struct {
		v1, given bool
		uid       uint64
		holds     bool // the process in the last cgroup is the engine's
	}{
		"version 2":                          {uid: 1000, holds: true},
		"version 1":                          {v1: true, uid: 1000, holds: true},
		"version 1, made by another":         {v1: true, given: true, uid: 1000, holds: true},
		"version 1, made by another, others": {v1: true, given: true, uid: 1001},
		"version 2, made by another, others": {given: true, uid: 1001},
	} {
		t.Run(name, func(t *testing.T) {
			machine, engine := wideEngine(t, c.v1)
			engine.Given, engine.User = c.given, new(uint32(1000))
			hidden := fakeProcess{pid: 200, parent: 1, start: 200, session: 200, state: "S", threads: 1, uid: c.uid}
			at := "4:memory:/e/299\n"
			if !c.v1 {
				at = "0::/e/299\n"
			}
			machine.write("proc/200/cgroup", at)
			machine.run(hidden)
			meter := machine.meter(Options{})
			look := func(after time.Duration) int {
				machine.now = machine.now.Add(after)
				return meter.Engines(t.Context(), []Engine{engine})[0].Processes
			}
			var got []int
			for range 10 {
				got = append(got, look(5*time.Second))
			}
			if (got[9] > 0) != c.holds {
				t.Errorf("counted %v", got)
			}
			machine.remove("proc/200")
			if !c.v1 {
				machine.write("sys/fs/cgroup/e/cgroup.events", "populated 0\nfrozen 0\n")
			}
			got = nil
			for range 6 {
				got = append(got, look(5*time.Second))
			}
			if got[5] > 0 {
				t.Errorf("counted %v after the last one has ended", got)
			}
		})
	}
}

// One scan does not prove that no process is left: a process may start another one meanwhile, and
// end.
func TestOneLookAtAllProcessesIsNotEnough(t *testing.T) {
	machine, engine := wideEngine(t, true)
	meter := machine.meter(Options{})
	var got string
	for range 6 {
		got += fmt.Sprint(meter.Engines(t.Context(), []Engine{engine})[0].Processes)
		machine.now = machine.now.Add(subtreeEvery / 2)
	}
	if got != "110000" {
		t.Errorf("counted %s, want nobody from the second look on", got)
	}
	if looks := meter.tracker.subtree.number; looks != 3 {
		t.Errorf("%d looks within 25 s, want 3", looks)
	}
}
