package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ownCgroupOf creates a cgroup with memory and CPU accounting, and returns its directories; none if
// it cannot create one here. At the end of the test it kills the processes in it and removes it.
func ownCgroupOf(t *testing.T, meter *Meter, name string) (directories []string) {
	t.Helper()
	var s scratch
	known, err := meter.hierarchies(&s)
	if err != nil {
		t.Fatal(err)
	}
	memory := false
	for _, mount := range known.Mounts {
		main := mount.Carries(known.MemoryController())
		if mount.Root != "/" || !main && !mount.Carries("cpuacct") {
			continue
		}
		directory := filepath.Join(mount.Point, name)
		if err := os.Mkdir(directory, 0o750); err != nil {
			continue
		}
		t.Cleanup(func() { removeCgroup(t, directory) })
		directories, memory = append(directories, directory), memory || main
	}
	if !memory {
		return nil
	}
	return directories
}

func removeCgroup(t *testing.T, directory string) {
	t.Helper()
	var s scratch
	left, _, err := newDescent(&s, time.Now, time.Hour).Members(directory, nil)
	if err != nil {
		t.Error(err)
	}
	for _, pid := range left {
		fd, err := unix.PidfdOpen(int(pid), 0)
		if err != nil {
			continue // it has ended
		}
		if err := errors.Join(unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0), awaitEnd(fd), unix.Close(fd)); err != nil {
			t.Error(err)
		}
	}
	if err := os.Remove(directory); err != nil {
		t.Error(err)
	}
}

// awaitEnd waits until the process of a pidfd has ended.
func awaitEnd(pidfd int) error {
	return retried(func() error {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, -1)
		return err
	})
}

// The cgroup shows the memory of a moved engine that its processes hide; the processes show the
// memory that they touched before the move.
func TestNothingOfAnEngineThatWasMovedIsHidden(t *testing.T) {
	for _, variant := range []string{obedient, leaderless} {
		t.Run(variant, func(t *testing.T) { hidesNothing(t, variant) })
	}
}

func hidesNothing(t *testing.T, variant string) {
	t.Helper()
	meter, now := realMeter(t, Options{})
	name := fmt.Sprintf("/bursar-moved-%d", os.Getpid())
	directories := ownCgroupOf(t, meter, name)
	if len(directories) == 0 {
		t.Log("no cgroup can be made here: the fixtures have to do")
		return
	}
	e := startEngine(t, variant, nil)
	e.do("touch 32")
	engine := e.engine(meter)
	engine.Cgroup, engine.Moved = name, true
	for _, directory := range directories {
		pid := []byte(strconv.Itoa(int(engine.PID)))
		if err := os.WriteFile(filepath.Join(directory, "cgroup.procs"), pid, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	look := func() Usage { return measured(t, meter, now, engine) }
	base := look()
	if base.UnreclaimableBytes < 32<<20 {
		t.Errorf("%d MiB unreclaimable: what it had touched before is missing", base.UnreclaimableBytes>>20)
	}
	touchSlowly(t, e, look)
	base = look()
	e.do("memfd 64")
	usage := look()
	if grown := usage.UnreclaimableBytes - base.UnreclaimableBytes; grown < 64<<20-slack || grown > 64<<20+slack {
		t.Errorf("64 MiB in a file that nobody has mapped: unreclaimable grew by %d MiB", grown>>20)
	}
	e.do("daemon")
	expect(t, "with a process that left", look(), true, 2)
	e.do("burn-unreaped 20")
	if usage := look(); usage.CPUMillis < 40 || usage.CPUMillis > 120 {
		t.Errorf("a child for which nobody waits has used 20 ticks: %d millis, want 40 and something for its start", usage.CPUMillis)
	}
	// The engine's parent reaps it late.
	if err := errors.Join(e.command.Process.Kill(), unix.Waitid(unix.P_PID, int(engine.PID), nil, unix.WEXITED|unix.WNOWAIT, nil)); err != nil {
		t.Fatal(err)
	}
	expect(t, "without its root", look(), false, 1)
	engine.Moved = false
	expect(t, "in a cgroup from the start, without its root", look(), false, 1)
}

// An engine that may create cgroups below its own can create and nest many. The cost of a
// measurement is bounded, the error says that processes may be missing, and the engine does not
// count as ended.
func TestCgroupsWithoutEndDoNotHoldUpAMeasurement(t *testing.T) {
	for name, branch := range map[string]func(t *testing.T, directory string) (deepest string){
		"deep": func(t *testing.T, directory string) string {
			t.Helper()
			for range 400 {
				directory = filepath.Join(directory, "c")
				mkdir(t, directory)
			}
			return directory
		},
		"wide": func(t *testing.T, directory string) string {
			t.Helper()
			for i := range 3000 {
				mkdir(t, filepath.Join(directory, strconv.Itoa(i)))
			}
			return filepath.Join(directory, "2999")
		},
	} {
		t.Run(name, func(t *testing.T) {
			machine := newMachine(t)
			machine.write("proc/self/mountinfo", "36 25 0:32 / /sys/fs/cgroup rw - cgroup2 none rw\n")
			machine.write("proc/self/cgroup", "0::/agent\n")
			machine.run(fakeProcess{pid: 100, parent: 1, start: 100, state: "S", threads: 1})
			machine.write("proc/100/cgroup", "0::/e\n")
			machine.write("sys/fs/cgroup/e/memory.current", "1048576\n")
			machine.write("sys/fs/cgroup/e/memory.stat", "inactive_anon 0\nactive_anon 1048576\ninactive_file 0\nactive_file 0\nunevictable 0\n")
			machine.write("sys/fs/cgroup/e/cpu.stat", "usage_usec 5\n")
			machine.write("sys/fs/cgroup/e/cgroup.procs", "")
			root := filepath.Join(machine.root, "sys/fs/cgroup/e")
			deepest := branch(t, root)
			if err := os.WriteFile(filepath.Join(deepest, "cgroup.procs"), []byte("100\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			meter := machine.meter(Options{})
			usage := meter.Engines(t.Context(), []Engine{{ID: "a", PID: 100, StartTime: 100, Cgroup: "/e"}})[0]
			if !usage.Alive || usage.MemoryBytes != 1<<20 || usage.Processes != 1 || !errors.Is(usage.Err, errTooManyCgroups) {
				t.Errorf("%+v, want 1 MiB, a process at least, and to be told what was left out", usage)
			}
			if looked := mostCgroups - meter.tracker.descent.Left; looked > mostCgroups || name == "deep" && looked > deepestCgroup {
				t.Errorf("%d cgroups were looked at", looked)
			}
			if own, err := meter.OwnCgroup(100); own != "" {
				t.Errorf("own cgroup %q, %v: of one that cannot be looked at nobody knows who is in it", own, err)
			}
			machine.remove("proc/100")
			if usage = meter.Engines(t.Context(), []Engine{{ID: "a", PID: 100, StartTime: 100, Cgroup: "/e"}})[0]; usage.Processes == 0 {
				t.Error("taken for one that has ended, though nobody has looked at all that is below it")
			}
		})
	}
}

func mkdir(t *testing.T, directory string) {
	t.Helper()
	if err := os.Mkdir(directory, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(directory, "cgroup.procs"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
