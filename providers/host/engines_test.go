package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
)

// TestWalksOverPageTablesAreRationed gives many engines memory that only a walk can measure, and a
// clock by which each walk takes 10 ms. A pass may take at most 100 ms for all of them, and each
// engine gets its turn.
func TestWalksOverPageTablesAreRationed(t *testing.T) {
	machine := newMachine(t)
	machine.write("proc/self/mountinfo", "")
	var engines []Engine
	for i := range int32(30) {
		root := 100 + 10*i
		for pid := root; pid < root+2; pid++ {
			machine.run(fakeProcess{
				pid: pid, parent: 1 + (root-1)*(pid-root), start: uint64(pid), state: "S", threads: 1,
				image: uint64(root), anon: 1000 << 10, pss: 600 << 10,
			})
		}
		engines = append(engines, Engine{ID: fmt.Sprint(i), PID: root, StartTime: uint64(root)})
	}
	now := time.Unix(0, 0)
	meter, err := NewMeter(Options{Root: machine.root, Now: func() time.Time {
		now = now.Add(5 * time.Millisecond)
		return now
	}})
	if err != nil {
		t.Fatal(err)
	}
	const largest, exact = 1000 << 20, 1200 << 20
	var before int
	for pass := range 5 {
		var walked int
		for _, usage := range meter.Engines(t.Context(), engines) {
			switch {
			case usage.Err != nil:
				t.Fatal(usage.Err)
			case usage.UnreclaimableBytes == exact:
				walked++
			case usage.UnreclaimableBytes != largest:
				t.Fatalf("%s: %d bytes, want %d or %d", usage.ID, usage.UnreclaimableBytes, largest, exact)
			}
		}
		if walked-before > 20 || walked < before {
			t.Errorf("pass %d: %d engines looked at closely, %d before", pass, walked, before)
		}
		before = walked
		now = now.Add(5 * time.Second)
	}
	if before != len(engines) {
		t.Errorf("%d of %d engines had their turn", before, len(engines))
	}
}

// TestOldKernel: before Linux 4.5, status does not distinguish the kinds of memory of a process;
// statm does, in pages.
func TestOldKernel(t *testing.T) {
	machine := newMachine(t)
	machine.write("proc/self/mountinfo", "")
	machine.run(fakeProcess{pid: 100, parent: 1, start: 100, state: "S", threads: 1})
	machine.write("proc/100/status", "VmRSS:\t2048 kB\n")
	machine.write("proc/100/statm", "10000 512 256 1 0 300 0\n")
	usage := machine.meter(Options{}).Engines(t.Context(), []Engine{{PID: 100, StartTime: 100}})[0]
	page := int64(os.Getpagesize())
	if usage.Err != nil || usage.MemoryBytes != 512*page || usage.UnreclaimableBytes != 256*page {
		t.Errorf("%+v", usage)
	}
}

func TestEnginesWithoutTimeAreUncertainNotEnded(t *testing.T) {
	machine := newMachine(t)
	machine.write("proc/self/mountinfo", "")
	machine.run(fakeProcess{pid: 100, parent: 1, start: 100, state: "S", threads: 1})
	meter := machine.meter(Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	usage := meter.Engines(ctx, []Engine{{PID: 100, StartTime: 100}})[0]
	if !usage.Alive || !errors.Is(usage.Err, context.Canceled) {
		t.Errorf("%+v", usage)
	}
	if usage = meter.Engines(t.Context(), []Engine{{PID: 100, StartTime: 100}})[0]; usage.Err != nil || usage.Processes != 1 {
		t.Errorf("the next call: %+v", usage)
	}
}

// TestConcurrentUse makes all calls at once that the package comment allows, for the race detector.
func TestConcurrentUse(t *testing.T) {
	meter, err := NewMeter(Options{})
	if err != nil {
		t.Fatal(err)
	}
	self := int32(os.Getpid())
	me, err := meter.Identify(self)
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for _, call := range []func() error{
		func() error { _, err := meter.Capacity(t.Context()); return err },
		func() error { _, err := meter.BootID(); return err },
		func() error { _, err := meter.Identify(self); return err },
		func() error { _, err := meter.CgroupOf(self); return err },
		func() error { _, err := meter.OwnCgroup(self); return err },
		func() error {
			if s := meter.Sample(t.Context()); s.MemoryTotalBytes == nil {
				return fmt.Errorf("memory is unknown: %v", s.Degraded)
			}
			return nil
		},
		func() error {
			return meter.Engines(t.Context(), []Engine{{PID: self, StartTime: me.StartTime}})[0].Err
		},
	} {
		wait.Go(func() {
			for range 10 {
				if err := call(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
}
