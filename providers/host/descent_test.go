package host

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// However many cgroups engines have created below their own, a call visits them for at most
// descentTime in total. Different engines run out of time in different calls.
func TestLooksBelowCgroupsEndInTime(t *testing.T) {
	machine := newMachine(t)
	machine.write("proc/self/mountinfo", "36 25 0:32 / /sys/fs/cgroup rw - cgroup2 none rw\n")
	machine.write("proc/self/cgroup", "0::/agent\n")
	const many, below = 4, 15
	var engines []Engine
	for i := range int32(many) {
		pid, name := 100+i, fmt.Sprintf("/e%d", i)
		machine.run(fakeProcess{pid: pid, parent: 1, start: uint64(pid), state: "S", threads: 1})
		machine.write(fmt.Sprintf("proc/%d/cgroup", pid), "0::"+name+"\n")
		directory := "sys/fs/cgroup" + name
		machine.write(directory+"/memory.current", "1048576\n")
		machine.write(directory+"/memory.stat", "inactive_anon 0\nactive_anon 1048576\ninactive_file 0\nactive_file 0\nunevictable 0\n")
		machine.write(directory+"/cpu.stat", "usage_usec 5\n")
		machine.write(directory+"/cgroup.procs", "")
		for n := range below {
			mkdir(t, filepath.Join(machine.root, directory, strconv.Itoa(n)))
		}
		engines = append(engines, Engine{ID: name, PID: pid, StartTime: uint64(pid), Cgroup: name})
	}
	const each = time.Millisecond // the simulated time for one
	meter, now, looks := machine.meter(Options{}), machine.now, 0
	meter.tracker.clock = func() time.Time {
		now = now.Add(each)
		looks++
		return now
	}
	turns := map[string]bool{}
	for range many {
		looks = 0
		whole := 0
		for _, usage := range meter.Engines(t.Context(), engines) {
			if usage.MemoryBytes != 1<<20 || usage.Err != nil && !errors.Is(usage.Err, errTooManyCgroups) {
				t.Errorf("%+v", usage)
			}
			if usage.Err == nil {
				turns[usage.ID] = true
				whole++
			}
		}
		if most := int(descentTime / each / below); whole == 0 || whole > most {
			t.Errorf("%d engines were looked at in full, want %d at most", whole, most)
		}
		if most := int(descentTime/each) + many + 2; looks > most {
			// one for each engine to notice that it is late
			t.Errorf("%d looks of %v in a call, want %d at most", looks, each, most)
		}
	}
	if len(turns) != many {
		t.Errorf("looked at in full within %d calls: %v, want each once", many, turns)
	}
}
