package host

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// realMeter measures this machine; the test moves its clock.
func realMeter(t *testing.T, options Options) (*Meter, *time.Time) {
	t.Helper()
	now := time.Unix(0, 0)
	options.Now = func() time.Time { return now }
	meter, err := NewMeter(options)
	if err != nil {
		t.Fatal(err)
	}
	return meter, &now
}

// measured returns the engine's usage 5 s after the last call.
func measured(t *testing.T, meter *Meter, now *time.Time, engine Engine) Usage {
	t.Helper()
	*now = now.Add(5 * time.Second)
	usage := meter.Engines(t.Context(), []Engine{engine})[0]
	if usage.Err != nil {
		t.Fatal(usage.Err)
	}
	return usage
}

func (e *realEngine) engine(meter *Meter) Engine {
	root := e.identity(meter)
	return Engine{ID: "a", PID: root.PID, StartTime: root.StartTime}
}

// expect checks the exact figures.
func expect(t *testing.T, when string, usage Usage, alive bool, processes int) {
	t.Helper()
	if usage.Alive != alive || usage.Processes != processes {
		t.Errorf("%s: alive %v with %d processes, want %v with %d", when, usage.Alive, usage.Processes, alive, processes)
	}
}

func TestKillingAChildOfAnEngineLeavesTheEngine(t *testing.T) {
	meter, now := realMeter(t, Options{})
	e := startEngine(t, obedient, nil)
	engine := e.engine(meter)
	expect(t, "alone", measured(t, meter, now, engine), true, 1)
	child, session := e.do("fork"), e.do("fork-session")
	expect(t, "with two children", measured(t, meter, now, engine), true, 3)
	e.do("kill-unreaped %s", child)
	expect(t, "with a zombie", measured(t, meter, now, engine), true, 2)
	e.do("kill %s", session)
	expect(t, "after both", measured(t, meter, now, engine), true, 1)
}

func TestKillingAnEngineLeavesItsOrphans(t *testing.T) {
	meter, now := realMeter(t, Options{})
	e := startEngine(t, obedient, nil)
	engine := e.engine(meter)
	e.do("fork")
	e.do("fork-session")
	expect(t, "running", measured(t, meter, now, engine), true, 3)
	e.kill()
	usage := measured(t, meter, now, engine)
	expect(t, "root killed", usage, false, 2)
	if usage.MemoryBytes == 0 {
		t.Error("the orphans use no memory")
	}
	expect(t, "and later", measured(t, meter, now, engine), false, 2)
}

// TestOrphansAreFoundBySession: the agent starts, or restarts, after the engine's root has ended.
func TestOrphansAreFoundBySession(t *testing.T) {
	meter, now := realMeter(t, Options{})
	e := startEngine(t, obedient, &unix.SysProcAttr{Setsid: true})
	engine := e.engine(meter)
	e.do("fork")
	e.kill()
	expect(t, "first look", measured(t, meter, now, engine), false, 1)
	expect(t, "second look", measured(t, meter, now, engine), false, 1)
}

func TestAProcessWhoseFirstThreadEndedIsAlive(t *testing.T) {
	meter, now := realMeter(t, Options{})
	e := startEngine(t, leaderless, nil)
	identity := e.identity(meter)
	if identity.State != 'Z' || identity.Ended() {
		t.Errorf("%+v has ended: %v", identity, identity.Ended())
	}
	expect(t, "without its first thread", measured(t, meter, now, e.engine(meter)), true, 1)
	touchSlowly(t, e, func() Usage { return measured(t, meter, now, e.engine(meter)) })
}

func TestIdentify(t *testing.T) {
	meter, _ := realMeter(t, Options{})
	e := startEngine(t, obedient, nil)
	self := e.identity(meter)
	if self.UID != uint32(os.Getuid()) || self.Ended() || self.StartTime == 0 {
		t.Errorf("%+v", self)
	}
	child := e.do("fork")
	e.do("kill-unreaped %s", child)
	pid, err := strconv.ParseInt(child, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	zombie, err := meter.Identify(int32(pid))
	if err != nil || !zombie.Ended() || zombie.StartTime < self.StartTime {
		t.Errorf("a zombie: %+v, %v", zombie, err)
	}
	e.kill()
	f := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ErrNoProcess) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = meter.Identify(self.PID)
	f("a process that ended", err)
	_, err = meter.CgroupOf(self.PID)
	f("its cgroup", err)
	_, err = meter.OwnCgroup(self.PID)
	f("its own cgroup", err)
	for _, pid := range []int32{0, -1, 1<<31 - 1} {
		_, err = meter.Identify(pid)
		f(fmt.Sprint("pid ", pid), err)
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		if thread.Name() != strconv.Itoa(os.Getpid()) {
			id, _ := strconv.ParseInt(thread.Name(), 10, 32)
			_, err = meter.Identify(int32(id))
			f("a thread", err)
		}
	}
	if id, err := meter.BootID(); err != nil || len(id) != 36 {
		t.Errorf("boot id %q, %v", id, err)
	}
}

// TestCPUTimeOfChildrenThatEndedIsKept: the CPU time of short-lived children counts as the
// engine's.
func TestCPUTimeOfChildrenThatEndedIsKept(t *testing.T) {
	meter, now := realMeter(t, Options{})
	e := startEngine(t, obedient, nil)
	engine := e.engine(meter)
	measured(t, meter, now, engine)
	// 20 ticks of 10 ms in 5 s are 40 millis; starting and reaping a child costs something, too.
	for _, command := range []string{"burn 20", "burn-child 20"} {
		e.do("%s", command)
		if usage := measured(t, meter, now, engine); usage.CPUMillis < 40 || usage.CPUMillis > 120 || usage.Processes != 1 {
			t.Errorf("%s: %d millis, %d processes", command, usage.CPUMillis, usage.Processes)
		}
	}
	child := e.do("fork")
	measured(t, meter, now, engine)
	e.do("kill %s", child)
	if usage := measured(t, meter, now, engine); usage.CPUMillis < 0 || usage.CPUMillis > 120 {
		t.Errorf("after an idle child ended: %d millis", usage.CPUMillis)
	}
}

// TestMemoryTouchedSlowlyGrowsUnreclaimable measures an engine's process tree while the engine
// allocates memory step by step.
func TestMemoryTouchedSlowlyGrowsUnreclaimable(t *testing.T) {
	meter, now := realMeter(t, Options{})
	e := startEngine(t, obedient, nil)
	touchSlowly(t, e, func() Usage { return measured(t, meter, now, e.engine(meter)) })
}

const (
	step = 16 << 20
	// slack covers the test engine's own memory, and the lag of the kernel's counters.
	slack = 4 << 20
)

func touchSlowly(t *testing.T, e *realEngine, look func() Usage) {
	t.Helper()
	base := look()
	for n := int64(1); n <= 4; n++ {
		e.do("touch %d", step>>20)
		usage := look()
		if grown := usage.UnreclaimableBytes - base.UnreclaimableBytes; grown < n*step-slack || grown > n*step+slack {
			t.Errorf("%d MiB touched: unreclaimable grew by %d MiB", n*step>>20, grown>>20)
		}
		if usage.MemoryBytes < usage.UnreclaimableBytes {
			t.Errorf("%d bytes held, of that %d unreclaimable", usage.MemoryBytes, usage.UnreclaimableBytes)
		}
	}
}

// TestPageCacheIsReclaimable measures an engine's process tree while the engine writes, reads and
// maps a file.
func TestPageCacheIsReclaimable(t *testing.T) {
	meter, now := realMeter(t, Options{})
	e := startEngine(t, obedient, nil)
	file := filepath.Join(t.TempDir(), "large")
	look := func() Usage { return measured(t, meter, now, e.engine(meter)) }
	base := look()
	for _, command := range []string{"write " + file + " 64", "cache " + file} {
		e.do("%s", command)
		usage := look()
		if grown := usage.UnreclaimableBytes - base.UnreclaimableBytes; grown > slack {
			t.Errorf("%s: unreclaimable grew by %d MiB", command, grown>>20)
		}
	}
	e.do("map %s", file)
	usage := look()
	grown, held := usage.UnreclaimableBytes-base.UnreclaimableBytes, usage.MemoryBytes-base.MemoryBytes
	want := int64(0)
	if inMemory(t, filepath.Dir(file)) {
		want = 64 << 20 // If /tmp is in memory, the file is shared memory, not page cache.
	}
	if grown < want-slack || grown > want+slack || held < 64<<20-slack {
		t.Errorf("64 MiB of a file mapped: held grew by %d MiB, unreclaimable by %d MiB", held>>20, grown>>20)
	}
}

// inMemory reports whether files in a directory are kept only in memory.
func inMemory(t *testing.T, directory string) bool {
	t.Helper()
	var system unix.Statfs_t
	if err := unix.Statfs(directory, &system); err != nil {
		t.Fatal(err)
	}
	return system.Type == unix.TMPFS_MAGIC || system.Type == unix.RAMFS_MAGIC
}

// TestForkedProcessesShareTheirMemory: a shell with a large variable forks, and the copy has not
// modified it.
func TestForkedProcessesShareTheirMemory(t *testing.T) {
	meter, now := realMeter(t, Options{})
	script := `x=$(head -c 33554432 /dev/zero | tr '\0' x); exec 3<&0; echo; read _; (echo; read _ <&3) & read _; exit`
	shell := exec.Command("/bin/sh", "-c", script)
	in, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // ends both
		_ = shell.Process.Kill()
		_ = shell.Wait()
	})
	ready := func() {
		t.Helper()
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	ready()
	root, err := meter.Identify(int32(shell.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	engine := Engine{ID: "a", PID: root.PID, StartTime: root.StartTime}
	alone := measured(t, meter, now, engine)
	if alone.UnreclaimableBytes < 32<<20 {
		t.Fatalf("a shell with a variable of 32 MiB holds %d bytes", alone.UnreclaimableBytes)
	}
	if _, err := in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	ready()
	two := measured(t, meter, now, engine)
	expect(t, "forked", two, true, 2)
	if two.UnreclaimableBytes > alone.UnreclaimableBytes+slack || two.MemoryBytes > alone.MemoryBytes+2*slack {
		t.Errorf("one holds %d MiB, it and its copy %d MiB, of that %d MiB unreclaimable",
			alone.MemoryBytes>>20, two.MemoryBytes>>20, two.UnreclaimableBytes>>20)
	}
	if two.UnreclaimableBytes < alone.UnreclaimableBytes-slack {
		t.Errorf("a copy made memory vanish: %d MiB, then %d MiB", alone.UnreclaimableBytes>>20, two.UnreclaimableBytes>>20)
	}
}

// TestThisMachine measures the machine that the test runs on.
func TestThisMachine(t *testing.T) {
	meter, now := realMeter(t, Options{})
	capacity, err := meter.Capacity(t.Context())
	if err != nil || capacity.Errors != nil {
		t.Fatal(err, capacity.Errors)
	}
	meter.Sample(t.Context())
	*now = now.Add(time.Second)
	if err := burn("10"); err != nil {
		t.Fatal(err)
	}
	s := meter.Sample(t.Context())
	if s.Degraded != nil {
		t.Fatal(s.Degraded)
	}
	total, available := *s.MemoryTotalBytes, *s.MemoryAvailableBytes
	if total != capacity.MemoryBytes || available <= 0 || available > total {
		t.Errorf("%d of %d bytes available, capacity %d", available, total, capacity.MemoryBytes)
	}
	left, err := meter.Available(t.Context())
	if difference := left - available; err != nil || difference > 256<<20 || difference < -256<<20 {
		t.Errorf("%d bytes available, %v; the sample a moment ago said %d", left, err, available)
	}
	if *s.CPUTotalMillis != capacity.CPUMillis || *s.CPUUsedMillis <= 0 || *s.CPUUsedMillis > *s.CPUTotalMillis {
		t.Errorf("%d of %d millis used, capacity %d", *s.CPUUsedMillis, *s.CPUTotalMillis, capacity.CPUMillis)
	}
	if s.Processes < 1 || *s.Load1Millis < 0 || *s.SwapUsedBytes < 0 || s.MemorySafetyBytes != DefaultSafetyBytes {
		t.Errorf("%+v", s)
	}
}

// realCgroup creates a cgroup with a memory controller, or returns "" if this machine or this user
// cannot.
func realCgroup(t *testing.T, meter *Meter, limit int64) (name, directory string) {
	t.Helper()
	var s scratch
	known, err := meter.hierarchies(&s)
	if err != nil {
		t.Fatal(err)
	}
	name = fmt.Sprintf("/bursar-test-%d", os.Getpid())
	for _, mount := range known.Mounts {
		if !mount.Carries(known.MemoryController()) || mount.Root != "/" {
			continue
		}
		directory = filepath.Join(mount.Point, name)
		if err := os.Mkdir(directory, 0o750); err != nil {
			continue
		}
		t.Cleanup(func() {
			if err := os.Remove(directory); err != nil {
				t.Error(err)
			}
		})
		file := "memory.max"
		if mount.Controllers != nil {
			file = "memory.limit_in_bytes"
		}
		if err := os.WriteFile(filepath.Join(directory, file), []byte(strconv.FormatInt(limit, 10)), 0o600); err == nil {
			return name, directory
		}
	}
	return "", ""
}

// TestHeadroomInACgroup computes the agent's headroom from the kernel's own figures: the available
// memory in a cgroup with a limit, minus the promised and untouched memory of an engine in it. It
// must stay the same while the engine touches its memory slowly, and while it fills the page cache.
// The limit makes the figures independent of other activity on the machine.
func TestHeadroomInACgroup(t *testing.T) {
	const limit, entitled = 512 << 20, 256 << 20
	finder, _ := realMeter(t, Options{})
	name, directory := realCgroup(t, finder, limit)
	if name == "" {
		t.Log("no cgroup can be made here: the process trees above and the fixtures have to do")
		return
	}
	meter, now := realMeter(t, Options{Cgroup: name})
	e := startEngine(t, obedient, nil)
	if err := os.WriteFile(filepath.Join(directory, "cgroup.procs"), []byte(strconv.Itoa(e.command.Process.Pid)), 0o600); err != nil {
		t.Fatal(err)
	}
	engine := e.engine(meter)
	var err error
	if engine.Cgroup, err = meter.OwnCgroup(engine.PID); err != nil || engine.Cgroup != name {
		t.Fatalf("own cgroup %q, %v", engine.Cgroup, err)
	}
	capacity, err := meter.Capacity(t.Context())
	if err != nil || capacity.MemoryBytes != limit || !strings.Contains(capacity.MemorySource, name) {
		t.Fatalf("%+v, %v", capacity, err)
	}
	headroom := func(usage Usage) int64 {
		t.Helper()
		sample := meter.Sample(t.Context())
		if sample.Degraded != nil {
			t.Fatal(sample.Degraded)
		}
		return *sample.MemoryAvailableBytes - max(0, entitled-usage.UnreclaimableBytes)
	}
	base := headroom(measured(t, meter, now, engine))
	check := func(when string, usage Usage) {
		t.Helper()
		expect(t, when, usage, true, 1)
		if moved := headroom(usage) - base; moved < -slack || moved > slack {
			t.Errorf("%s: the headroom moved by %d KiB", when, moved>>10)
		}
	}
	touchSlowly(t, e, func() Usage {
		usage := measured(t, meter, now, engine)
		check("touching", usage)
		return usage
	})
	file := filepath.Join(t.TempDir(), "large")
	if inMemory(t, filepath.Dir(file)) {
		return // not page cache
	}
	before := measured(t, meter, now, engine)
	e.do("write %s 64", file)
	e.do("cache %s", file)
	filled := measured(t, meter, now, engine)
	check("page cache filled", filled)
	if grown := filled.MemoryBytes - before.MemoryBytes; grown < 32<<20 {
		t.Errorf("the cgroup is charged %d MiB for a file of 64 MiB", grown>>20)
	}
	e.kill()
	expect(t, "killed", measured(t, meter, now, engine), false, 0)
}
