package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/providers/host"
	"github.com/bursar/bursar/test/proc"
)

// These tests are about this machine's kernel: they need root, and a hierarchy that accounts for
// memory.

const asEngine = "BURSAR_TEST_ENGINE"

func TestMain(m *testing.M) {
	switch os.Getenv(asEngine) {
	case "":
	case asKeeper:
		os.Exit(beKeeper())
	case asComet:
		os.Exit(beComet())
	default:
		beEngine()
		return
	}
	os.Exit(m.Run())
}

// beEngine obeys lines: "touch N" takes N MiB, "spin D" uses one processor for as long by the
// clock and tells how much of that it was given, and the end of its input ends it.
func beEngine() {
	var held [][]byte
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		verb, argument, _ := strings.Cut(lines.Text(), " ")
		switch verb {
		case "touch":
			n, _ := strconv.Atoi(argument)
			block := make([]byte, n*mib)
			for i := 0; i < len(block); i += 4096 {
				block[i] = 1
			}
			held = append(held, block)
			_, _ = fmt.Fprintln(os.Stdout, "touched", len(held))
		case "spin":
			d, _ := time.ParseDuration(argument)
			_, _ = fmt.Fprintln(os.Stdout, "spun", spin(d))
		}
	}
}

// spin returns the processor time that it was given, in thousandths of a core.
func spin(d time.Duration) int64 {
	began, before := time.Now(), used()
	rounds := 0
	for time.Since(began) < d {
		rounds++
	}
	return (used() - before).Milliseconds() * 1000 / time.Since(began).Milliseconds()
}

func used() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// engine is a process that is played by this binary.
type engine struct {
	t       *testing.T
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
}

func start(t *testing.T) *engine {
	t.Helper()
	return startAs(t, "1")
}

func startAs(t *testing.T, role string) *engine {
	t.Helper()
	e := &engine{t: t, command: exec.CommandContext(t.Context(), os.Args[0])}
	e.command.Env = append(os.Environ(), asEngine+"="+role, "GOGC=off")
	in, err := e.command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.command.Start(); err != nil {
		t.Fatal(err)
	}
	e.in, e.out = in, bufio.NewScanner(out)
	t.Cleanup(func() { _ = e.end() })
	return e
}

func (e *engine) pid() int32 { return int32(e.command.Process.Pid) }

func (e *engine) tell(line string) {
	e.t.Helper()
	if _, err := io.WriteString(e.in, line+"\n"); err != nil {
		e.t.Fatal(err)
	}
}

// answer is the number at the end of the next line, or false: there is none any more.
func (e *engine) answer() (int64, bool) {
	e.t.Helper()
	if !e.out.Scan() {
		return 0, false
	}
	_, number, _ := strings.Cut(e.out.Text(), " ")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		e.t.Fatal(err)
	}
	return n, true
}

func (e *engine) end() error {
	_ = e.in.Close()
	return e.command.Wait()
}

// onThisMachine makes cgroups below one of the test's own, in every hierarchy that this machine
// has.
func onThisMachine(t *testing.T) *Direct {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("want root: cgroups are made here")
	}
	parent := fmt.Sprintf("/bursar-test-cgroup-%d", os.Getpid())
	d := openDirect(t, DirectOptions{Parent: parent})
	if slices.Contains(d.missing, memory) {
		t.Fatal("want a hierarchy that accounts for memory: ", d.Name())
	}
	t.Cleanup(func() {
		for _, h := range append(slices.Clone(d.tree.all), d.tree.freezer) {
			if h == nil {
				continue
			}
			folder, _ := h.folder(parent)
			var err error
			// What was killed is not gone at once.
			if eventually(func() bool { err = d.tree.remove(folder); return !errors.Is(err, ErrBusy) }); err != nil {
				t.Error(err)
			}
		}
	})
	return d
}

func TestTheKernelKeepsAnEngineToItsMemory(t *testing.T) {
	d := onThisMachine(t)
	e := start(t)
	path, err := d.Enter(t.Context(), "e1", Limits{MemoryMax: 64 * mib}, e.pid())
	if err != nil {
		t.Fatal(err)
	}
	if at, err := d.tree.PathOf(e.pid()); err != nil || at != path {
		t.Fatalf("the process is in %s, want %s: %v", at, path, err)
	}
	log, device, err := OpenKernelLog("/proc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = device.Close() })
	if err := log.Read(); err != nil {
		t.Fatal(err)
	}
	e.tell("touch 16")
	if _, alive := e.answer(); !alive {
		t.Fatal("ended below its limit")
	}
	identity := identify(t, e.pid())
	e.tell("touch 128")
	if _, alive := e.answer(); alive {
		t.Fatal("lives above its limit")
	}
	var exit *exec.ExitError
	if err := e.end(); !errors.As(err, &exit) || exit.String() != "signal: killed" {
		t.Fatal(err)
	}
	facts, err := d.Facts(t.Context(), "e1")
	if err != nil || facts != (Facts{OOMKills: 1, AtLimit: true, MemoryMax: 64 * mib, Empty: true}) {
		t.Errorf("%+v, %v", facts, err)
	}
	// What an agent knows if an engine has no cgroup of its own.
	if err := log.Read(); err != nil {
		t.Fatal(err)
	}
	started := time.Duration(identity.StartTime) * (time.Second / 100)
	if kill, found := log.Of(e.pid(), started); !found || !kill.Limit || kill.Cgroup != path {
		t.Errorf("in the kernel's log: %+v, %t", kill, found)
	}
	if err := d.Remove(t.Context(), "e1"); err != nil {
		t.Error(err)
	}
}

func identify(t *testing.T, pid int32) host.Identity {
	t.Helper()
	meter, err := host.NewMeter(host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	identity, err := meter.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	return identity
}

// throttled is how often the kernel has held an engine back for its quota of processor time.
func throttled(t *testing.T, d *Direct, id string) int64 {
	t.Helper()
	for _, h := range d.tree.all {
		folder, _ := h.folder(path.Join(d.base, id))
		content, _ := os.ReadFile(filepath.Join(folder, "cpu.stat"))
		for line := range strings.Lines(string(content)) {
			if value, found := strings.CutPrefix(line, "nr_throttled "); found {
				n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
		}
	}
	t.Fatal("no hierarchy tells how often it was held back")
	return 0
}

// TestTheKernelKeepsAnEngineToItsProcessorTime looks at what the kernel counts: how much an engine
// gets without a quota depends on who else is busy.
func TestTheKernelKeepsAnEngineToItsProcessorTime(t *testing.T) {
	d := onThisMachine(t)
	e := start(t)
	if _, err := d.Enter(t.Context(), "e1", Limits{CPUMillis: 250, CPUWeight: 100}, e.pid()); err != nil {
		t.Fatal(err)
	}
	for range 20 { // on a machine so busy that it does not get that much, once more
		e.tell("spin 1500ms")
		// The quota is counted by periods of 100 ms, of which the first and the last may be cut.
		if with, _ := e.answer(); with > 330 {
			t.Errorf("%d thousandths of a core, want at most about 250", with)
		}
		if throttled(t, d, "e1") > 0 {
			break
		}
	}
	before := throttled(t, d, "e1")
	if before == 0 {
		t.Fatal("it was never held back")
	}
	if err := d.Set(t.Context(), "e1", Limits{}); err != nil {
		t.Fatal(err)
	}
	e.tell("spin 500ms")
	_, _ = e.answer()
	if after := throttled(t, d, "e1"); after != before {
		t.Errorf("held back %d times without a quota", after-before)
	}
}

func TestARunningTreeThatForksIsAdopted(t *testing.T) {
	d := onThisMachine(t)
	shell := exec.CommandContext(t.Context(), "/bin/sh", "-c", "while :; do /bin/sleep 0.2 & /bin/sleep 0.01; done")
	held := proc.StartGroup(t, shell)
	pid := int32(shell.Process.Pid)
	root := process.Ref{PID: pid, StartTime: identify(t, pid).StartTime}
	members := func() ([]Member, error) {
		refs, err := process.Members("/proc", process.Engine{Root: root})
		var list []Member
		for _, ref := range refs {
			list = append(list, Member(ref))
		}
		return list, err //nolint:wrapcheck // a test's
	}
	for {
		if list, err := members(); err != nil || len(list) > 3 {
			break // it has begun to fork
		}
	}
	path, err := d.Adopt(t.Context(), "e1", Limits{MemoryMax: 256 * mib}, members)
	if err != nil {
		t.Fatal(err)
	}
	places := len(d.tree.all)
	if d.tree.freezer != nil {
		places++
	}
	for range 20 {
		list, err := members()
		if err != nil || len(list) == 0 {
			t.Fatal(err, len(list))
		}
		for _, m := range list {
			pid := m.PID
			inside := eventually(func() bool {
				cgroups, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(int(pid)), "cgroup"))
				return err != nil || strings.Count(string(cgroups), path+"\n") == places || !runs(pid)
			})
			if !inside {
				t.Fatalf("process %d is outside", pid)
			}
		}
	}
	if err := d.Remove(t.Context(), "e1"); !errors.Is(err, ErrBusy) {
		t.Error("removed with processes:", err)
	}
	if !held.There() {
		t.Error("it has ended")
	}
}

// eventually looks at something until it is so, for at most ten seconds.
func eventually(so func() bool) bool {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		if so() {
			return true
		}
	}
	return false
}

// runs reports whether a process has not ended: version 1 shows one that ends as if it were
// nowhere, from a little before it has.
func runs(pid int32) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(int(pid)), "stat"))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

func TestARestartFindsCgroupsAndALimitBelowUseIsRefused(t *testing.T) {
	d := onThisMachine(t)
	e := start(t)
	e.tell("touch 64")
	if _, alive := e.answer(); !alive {
		t.Fatal("ended")
	}
	adopted, err := d.Adopt(t.Context(), "e1", Limits{MemoryMax: 256 * mib}, func() ([]Member, error) { return []Member{{PID: e.pid()}}, nil })
	if err != nil {
		t.Fatal(err)
	}
	e.tell("touch 64")
	if _, alive := e.answer(); !alive {
		t.Fatal("ended")
	}
	parent := filepath.Dir(d.base)
	next := openDirect(t, DirectOptions{Parent: parent})
	found, err := next.Find(t.Context())
	if err != nil || len(found) != 1 || found[0] != (Found{ID: "e1", Path: adopted}) {
		t.Fatal(found, err)
	}
	if err := next.Set(t.Context(), "e1", Limits{MemoryMax: 16 * mib}); !errors.Is(err, ErrInUse) {
		t.Error("a limit below what is held:", err)
	}
	e.tell("touch 1")
	if _, alive := e.answer(); !alive {
		t.Error("a limit that was refused has killed it")
	}
	if facts, err := next.Facts(t.Context(), "e1"); err != nil || facts.OOMKills != 0 || facts.Empty {
		t.Errorf("%+v, %v", facts, err)
	}
	if err := e.end(); err != nil {
		t.Error(err)
	}
	if err := next.Remove(t.Context(), "e1"); err != nil {
		t.Error(err)
	}
	if found, err := next.Find(t.Context()); err != nil || len(found) != 0 {
		t.Error(found, err)
	}
}
