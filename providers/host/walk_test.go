package host

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestWalkThatHangsHoldsNothingUp gives an engine a process whose page tables cannot be read, like
// a process that waits for a hanging file system; a pipe without a writer simulates it. The pass
// continues without the walk, later passes do not wait again, and the walk's late result is not
// lost.
func TestWalkThatHangsHoldsNothingUp(t *testing.T) {
	machine := newMachine(t)
	machine.write("proc/self/mountinfo", "")
	forked := fakeProcess{parent: 1, state: "S", threads: 1, anon: 1000 << 10, pss: -1}
	var engines []Engine
	for root := int32(100); root <= 200; root += 100 {
		for pid := root; pid < root+2; pid++ {
			forked.pid, forked.start, forked.image = pid, uint64(pid), uint64(root)
			if pid > root {
				forked.parent = root
			} else {
				forked.parent = 1
			}
			machine.run(forked)
		}
		engines = append(engines, Engine{ID: "e", PID: root, StartTime: uint64(root)})
	}
	pipe := filepath.Join(machine.root, "proc/100/smaps_rollup")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	rollup := "Pss_Anon: 614400 kB\nPss_Shmem: 0 kB\nSwapPss: 0 kB\n"
	for _, pid := range []string{"101", "200", "201"} {
		machine.write("proc/"+pid+"/smaps_rollup", rollup)
	}
	const largest, exact = 1000 << 20, 1200 << 20
	meter := machine.meter(Options{})
	meter.tracker.shares.patience = time.Millisecond
	pass := func(want ...int64) {
		t.Helper()
		machine.now = machine.now.Add(5 * time.Second)
		for i, usage := range meter.Engines(t.Context(), engines) {
			if usage.Err != nil || !usage.Alive || usage.UnreclaimableBytes != want[i] {
				t.Errorf("engine %d: %+v, want %d", i, usage, want[i])
			}
		}
	}
	pass(largest, largest) // the first one hangs, and no second one starts
	pending := meter.tracker.shares.pending
	if pending == nil {
		t.Fatal("it did not hang")
	}
	for range 10 {
		pass(largest, largest)
	}
	if meter.tracker.shares.pending != pending {
		t.Error("another walk was begun while one hangs")
	}

	writer, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writer.WriteString(rollup); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	// The test waits for the outcome and puts it back, so that the pass finds it.
	pending.done <- <-pending.done
	machine.remove("proc/100/smaps_rollup")
	machine.write("proc/100/smaps_rollup", rollup)
	meter.tracker.shares.patience = time.Minute
	pass(exact, exact)
}
