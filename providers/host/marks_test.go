package host

import (
	"testing"
	"time"
)

// TestMarksOfACgroup: the kernel's marks at the end of an engine, with both versions.
func TestMarksOfACgroup(t *testing.T) {
	lists := func(prefix string) string {
		return prefix + "inactive_anon 0\n" + prefix + "active_anon 0\n" + prefix + "inactive_file " + mib(690) + "\n" + prefix + "active_file 0\n" + prefix + "unevictable 0\n"
	}
	for name, test := range map[string]struct {
		v1     bool
		stat   string
		files  []string
		change func(*Engine)
		want   Marks
	}{
		"version 2": {
			false, lists("") + "slab_reclaimable " + mib(2) + "\nfile_mapped " + mib(1) + "\n",
			[]string{"memory.peak", mib(700) + "\n"},
			nil,
			Marks{MostBytes: 700 << 20, CacheBytes: 692 << 20, MappedBytes: 1 << 20, CPUTime: 7 * time.Second},
		},
		"version 2 before Linux 5.19": {false, lists(""), nil, nil, Marks{CPUTime: 7 * time.Second}},
		"version 1": {
			true, lists("total_") + "total_mapped_file " + mib(1) + "\n",
			[]string{"memory.max_usage_in_bytes", mib(700) + "\n", "memory.kmem.usage_in_bytes", mib(3) + "\n"},
			nil,
			Marks{MostBytes: 700 << 20, CacheBytes: 693 << 20, MappedBytes: 1 << 20, CPUTime: 7 * time.Second},
		},
		"moved":        {true, lists("total_"), []string{"memory.max_usage_in_bytes", mib(700)}, func(e *Engine) { e.Moved = true }, Marks{MostBytes: 700 << 20, CacheBytes: 690 << 20, CPUTime: 7 * time.Second, Moved: true}},
		"out of range": {true, lists("total_"), []string{"memory.max_usage_in_bytes", "18446744073709551615\n"}, nil, Marks{CPUTime: 7 * time.Second}},
		"garbage":      {true, "garbage\n", []string{"memory.max_usage_in_bytes", "1\n"}, nil, Marks{CPUTime: 7 * time.Second}},
		"another's":    {true, lists("total_"), []string{"memory.max_usage_in_bytes", mib(700)}, func(e *Engine) { e.Given = true }, Marks{}},
		"none":         {true, lists("total_"), nil, func(e *Engine) { e.Cgroup = "" }, Marks{}},
		"gone":         {true, lists("total_"), nil, func(e *Engine) { e.Cgroup = "/e/gone" }, Marks{}},
	} {
		machine, engine := engineCgroup(t, test.v1, test.stat, test.files...)
		if test.change != nil {
			test.change(&engine)
		}
		if test.want != (Marks{}) {
			test.want.Inside = Occupied
		}
		if got := machine.meter(Options{}).Marks(engine); got != test.want {
			t.Errorf("%s: %+v; want %+v", name, got, test.want)
		}
	}
}

// TestCPUTimeOfAnEngine: the CPU time is the total of the processes, and continues when the engine
// is moved to a cgroup, whose counter starts then.
func TestCPUTimeOfAnEngine(t *testing.T) {
	machine, engine := engineCgroup(t, true, "total_inactive_anon 0\ntotal_active_anon 0\ntotal_inactive_file 0\ntotal_active_file 0\ntotal_unevictable 0\n", "memory.usage_in_bytes", "0\n")
	moved := engine
	moved.Moved = true
	engine.Cgroup = ""
	meter := machine.meter(Options{})
	process := fakeProcess{pid: 100, parent: 1, start: 100, state: "S", threads: 1, pss: -1}
	for i, step := range []struct {
		engine        Engine
		own, children uint64 // ticks
		cgroup        string // nanoseconds
		want          time.Duration
	}{
		{engine, 300, 1000, "0", 13 * time.Second},
		{engine, 400, 1000, "0", 14 * time.Second},
		{moved, 500, 1000, "1000000000", 15 * time.Second},
		{moved, 500, 1000, "3000000000", 17 * time.Second},
		{moved, 500, 1000, "2000000000", 17 * time.Second}, // a counter that steps back
	} {
		process.own, process.children = step.own, step.children
		machine.run(process)
		machine.write("sys/fs/cgroup/e/a/cpuacct.usage", step.cgroup+"\n")
		machine.now = machine.now.Add(time.Second)
		if got := meter.Engines(t.Context(), []Engine{step.engine})[0]; got.CPUTime != step.want {
			t.Errorf("step %d: %s, want %s (%v)", i, got.CPUTime, step.want, got.Err)
		}
	}
}
