package host

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A process that is not reachable downwards from the root is listed, with the known facts about it.
func TestOrphansAreNamedWithWhatIsKnownOfThem(t *testing.T) {
	machine := newMachine(t)
	machine.write("proc/self/mountinfo", "")
	meter := machine.meter(Options{})
	run := func(pid, parent, session int32) {
		machine.run(fakeProcess{pid: pid, parent: parent, start: uint64(pid), session: session, group: session, state: "S", threads: 1})
	}
	look := func(when string, want ...Orphan) {
		t.Helper()
		machine.now = machine.now.Add(5 * time.Second)
		usage := meter.Engines(t.Context(), []Engine{{ID: "a", PID: 100, StartTime: 100}})[0]
		if diff := cmp.Diff(want, usage.Orphans); diff != "" {
			t.Errorf("%s: -want +got:\n%s", when, diff)
		}
	}
	run(1, 0, 1)
	run(100, 1, 100)
	run(101, 100, 101)
	run(102, 101, 101)
	run(103, 1, 100) // was an orphan at first sight
	run(104, 103, 100)
	look("with the root", Orphan{PID: 103, StartTime: 103}, Orphan{PID: 104, StartTime: 104})
	machine.remove("proc/100")
	run(101, 1, 101)
	run(105, 101, 101) // a child of a known process
	run(106, 1, 101)   // an orphan in the session of a known process
	want := []Orphan{
		{PID: 101, StartTime: 101, Descends: true},
		{PID: 103, StartTime: 103},
		{PID: 104, StartTime: 104},
		{PID: 106, StartTime: 106},
	}
	look("without it", want...)
	look("later", want...)
	machine.run(fakeProcess{pid: 101, parent: 1, start: 200, session: 101, group: 101, state: "S", threads: 1})
	look("another has the pid of one", Orphan{PID: 102, StartTime: 102, Descends: true}, Orphan{PID: 103, StartTime: 103},
		Orphan{PID: 104, StartTime: 104}, Orphan{PID: 105, StartTime: 105, Descends: true}, Orphan{PID: 106, StartTime: 106})
}

// In a cgroup that the caller did not create, an orphan of an engine of root is known if it was
// seen with its parent.
func TestOrphansInACgroupAreNamedIfTheyWereSeenToDescend(t *testing.T) {
	machine := newMachine(t)
	machine.write("proc/self/mountinfo", "36 25 0:32 / /sys/fs/cgroup rw - cgroup2 none rw\n")
	machine.write("proc/self/cgroup", "0::/agent\n")
	machine.write("proc/100/cgroup", "0::/e\n")
	machine.write("sys/fs/cgroup/e/memory.current", "1048576\n")
	machine.write("sys/fs/cgroup/e/memory.stat", "inactive_anon 0\nactive_anon 1048576\ninactive_file 0\nactive_file 0\nunevictable 0\n")
	machine.write("sys/fs/cgroup/e/cpu.stat", "usage_usec 5\n")
	machine.write("sys/fs/cgroup/e/cgroup.procs", "100\n101\n")
	meter := machine.meter(Options{})
	run := func(pid, parent int32) {
		machine.run(fakeProcess{pid: pid, parent: parent, start: uint64(pid), session: pid, state: "S", threads: 1})
	}
	look := func() Usage {
		return meter.Engines(t.Context(), []Engine{{ID: "a", PID: 100, StartTime: 100, Cgroup: "/e", Given: true, User: new(uint32(0))}})[0]
	}
	run(100, 1)
	run(101, 100)
	look()
	machine.remove("proc/100")
	run(101, 1)
	machine.write("sys/fs/cgroup/e/cgroup.procs", "101\n")
	usage := look()
	if usage.Alive || usage.Processes != 1 || usage.Err != nil {
		t.Errorf("%+v, want one that is left", usage)
	}
	if diff := cmp.Diff([]Orphan{{PID: 101, StartTime: 101, Descends: true}}, usage.Orphans); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// After one failed reading of the cgroup, the processes are still known.
	machine.remove("sys/fs/cgroup/e/memory.current")
	look()
	machine.write("sys/fs/cgroup/e/memory.current", "1048576\n")
	if usage := look(); usage.Err != nil || len(usage.Orphans) != 1 {
		t.Errorf("%+v after a look that failed", usage)
	}
}
