package cgroup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/providers/host"
)

// frozenBy is what an agent hands to Stop.
type frozenBy struct {
	driver interface {
		Freeze(ctx context.Context, name string) (bool, error)
		Thaw(name string) error
	}
	path  string
	empty func() (bool, error)
	// none is the kernel without a freezer.
	none bool
	// froze is called while the cgroup is frozen.
	froze func()
}

func (f frozenBy) Empty(context.Context) (bool, error) { return f.empty() }

func (f frozenBy) Freeze(ctx context.Context) (bool, error) {
	if f.none {
		return false, ErrNoFreezing
	}
	all, err := f.driver.Freeze(ctx, f.path)
	if f.froze != nil {
		f.froze()
	}
	return all, err
}

func (f frozenBy) Thaw() error { return f.driver.Thaw(f.path) }

// endsAll ends what a test has left in a cgroup.
func endsAll(t *testing.T, d *Direct, name string) {
	t.Helper()
	t.Cleanup(func() {
		eventually(func() bool {
			_, _ = d.Freeze(context.WithoutCancel(t.Context()), name)
			pids, _ := d.tree.members(d.tree.main, name)
			for _, pid := range pids {
				_ = syscall.Kill(int(pid), syscall.SIGKILL)
			}
			_ = d.Thaw(name)
			return len(pids) == 0
		})
	})
}

// signalled ends a process of a frozen cgroup.
func signalled(t *testing.T, pid int32) {
	t.Helper()
	if err := syscall.Kill(int(pid), syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

func opener(t *testing.T) *process.Opener {
	t.Helper()
	meter, err := host.NewMeter(host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return process.NewOpener(meter, "/proc")
}

// engineOf is what an agent knows of an engine in a cgroup of its own.
func (c comet) engineOf(t *testing.T, d *Direct, path string) process.Engine {
	t.Helper()
	return process.Engine{
		Root: process.Ref{PID: c.root, StartTime: identify(t, c.root).StartTime}, User: new(uint32(os.Getuid())),
		Cgroup: path, Made: true, Guarded: d.Guarded(path), Freezer: frozenBy{driver: d, path: path, empty: func() (bool, error) { return d.tree.empty(path) }},
	}
}

func TestAnEngineThatForksAndExitsIsEndedAndItsKeeperSaysHow(t *testing.T) {
	d := onThisMachine(t)
	for how, enter := range map[string]func(id string, pid int32) (string, error){
		"launched": func(id string, pid int32) (string, error) { return d.Enter(t.Context(), id, Limits{}, pid) },
		"adopted": func(id string, pid int32) (string, error) {
			return d.Adopt(t.Context(), id, Limits{}, func() ([]Member, error) { return []Member{{PID: pid}}, nil })
		},
	} {
		t.Run(how, func(t *testing.T) {
			var path string
			c := startComet(t, func(keeper int32) {
				var err error
				if path, err = enter(how, keeper); err != nil {
					t.Fatal(err)
				}
				endsAll(t, d, path)
			})
			began := time.Now()
			if err := opener(t).Stop(t.Context(), c.engineOf(t, d, path), 100*time.Millisecond); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("it took %v", took)
			}
			if facts, err := d.Facts(t.Context(), how); err != nil || !facts.Empty {
				t.Fatalf("the cgroup has processes: %+v, %v", facts, err)
			}
			if got := c.last(); got != "ended signal: killed" {
				t.Errorf("the keeper says %q", got)
			}
			if err := d.Remove(t.Context(), how); err != nil {
				t.Error(err)
			}
		})
	}
}

// If the kernel cannot freeze, such an engine may escape, but its Stop does not say that it has
// ended.
func TestWithoutAFreezerAStopDoesNotTakeACometForEnded(t *testing.T) {
	d := onThisMachine(t)
	var path string
	c := startComet(t, func(keeper int32) {
		var err error
		if path, err = d.Enter(t.Context(), "e1", Limits{}, keeper); err != nil {
			t.Fatal(err)
		}
		endsAll(t, d, path)
	})
	e := c.engineOf(t, d, path)
	e.Freezer = frozenBy{driver: d, path: path, empty: func() (bool, error) { return d.tree.empty(path) }, none: true}
	err := opener(t).Stop(t.Context(), e, 100*time.Millisecond)
	facts, factsErr := d.Facts(t.Context(), "e1")
	if factsErr != nil {
		t.Fatal(factsErr)
	}
	if survived, is := errors.AsType[*process.SurvivedError](err); is == facts.Empty || is && survived.Frozen || !is && err != nil {
		t.Errorf("the cgroup is empty: %t; the error is %v", facts.Empty, err)
	}
}

// A Stop whose agent ends leaves the engine as it is: not frozen.
func TestAStopThatEndsEarlyLeavesNothingFrozen(t *testing.T) {
	d := onThisMachine(t)
	var path string
	c := startComet(t, func(keeper int32) {
		var err error
		if path, err = d.Enter(t.Context(), "e1", Limits{}, keeper); err != nil {
			t.Fatal(err)
		}
		endsAll(t, d, path)
	})
	e := c.engineOf(t, d, path)
	ctx, cancel := context.WithCancel(t.Context())
	e.Freezer = frozenBy{driver: d, path: path, froze: cancel}
	if err := opener(t).Stop(ctx, e, 0); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	at := place(t, d, path)
	state, err := os.ReadFile(filepath.Join(at.folder, at.file))
	if got := strings.TrimSpace(string(state)); got != at.off {
		t.Errorf("it is %s, want %s: %v", got, at.off, err)
	}
}

// place is where a cgroup is frozen.
func place(t *testing.T, d *Direct, path string) freezing {
	t.Helper()
	at, err := d.tree.freezing(path)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestAnotherAgentThawsAndOthersCgroupsAreNeverFrozen(t *testing.T) {
	d := onThisMachine(t)
	e := start(t)
	path, err := d.Enter(t.Context(), "e1", Limits{}, e.pid())
	if err != nil {
		t.Fatal(err)
	}
	if all, err := d.Freeze(t.Context(), path); !all || err != nil {
		t.Fatal(all, err)
	}
	next := openDirect(t, DirectOptions{Parent: filepath.Dir(d.base)})
	found, err := next.Find(t.Context())
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	if err := next.Thaw(found[0].Path); err != nil {
		t.Fatal(err)
	}
	e.tell("touch 1")
	if _, alive := e.answer(); !alive {
		t.Error("it does not go on")
	}
	at := place(t, d, path)
	for what, name := range map[string]string{
		"the root": "/", "the agent's own parent": filepath.Dir(d.base), "that of all engines": d.base, "one below an engine's": path + "/inner",
		"a service": "/system.slice/sshd.service", "one of a name like ours": "/elsewhere/e1",
	} {
		if _, err := d.Freeze(t.Context(), name); !errors.Is(err, ErrNoFreezing) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := os.Chown(filepath.Join(at.folder, at.file), 4712, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Freeze(t.Context(), path); !errors.Is(err, ErrNoFreezing) {
		t.Error("one that another user may freeze:", err)
	}
	if err := e.end(); err != nil {
		t.Error(err)
	}
}

// An agent that is in the cgroup itself would never come to thaw it.
func TestACgroupThatHasTheAgentIsNeverFrozen(t *testing.T) {
	d := onThisMachine(t)
	path, err := d.Enter(t.Context(), "e1", Limits{}, int32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		for _, h := range append(slices.Clone(d.tree.all), d.tree.freezer) {
			if h == nil {
				continue
			}
			folder, _ := h.folder(h.own)
			if err := os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte("0"), 0); err != nil {
				t.Error(err)
			}
		}
	}()
	if _, err := d.Freeze(t.Context(), path); !errors.Is(err, ErrNoFreezing) {
		t.Error(err)
	}
}

// An engine that an earlier version of the agent has moved has no freezer cgroup, until the agent
// sees it again.
func TestAnEngineOfAnEarlierVersionCanBeFrozenOnceItIsAdoptedAgain(t *testing.T) {
	d := onThisMachine(t)
	if d.tree.freezer == nil {
		return // version 2 freezes every cgroup
	}
	e := start(t)
	members := func() ([]Member, error) { return []Member{{PID: e.pid()}}, nil }
	later := d.tree.freezer
	d.tree.freezer = nil
	path, err := d.Adopt(t.Context(), "e1", Limits{}, members)
	d.tree.freezer = later
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Freeze(t.Context(), path); !errors.Is(err, ErrNoFreezing) {
		t.Error("without a freezer cgroup:", err)
	}
	if again, err := d.Adopt(t.Context(), "e1", Limits{}, members); again != path || err != nil {
		t.Fatal(again, err)
	}
	if all, err := d.Freeze(t.Context(), path); !all || err != nil {
		t.Error(all, err)
	}
	if err := d.Thaw(path); err != nil {
		t.Error(err)
	}
	if err := e.end(); err != nil {
		t.Error(err)
	}
}

// A batch system suspends its jobs by a freezer cgroup of its own.
func TestAProcessStaysInAFreezerCgroupOfSomebodyElse(t *testing.T) {
	d := onThisMachine(t)
	if d.tree.freezer == nil {
		return // version 2 freezes every cgroup
	}
	e := start(t)
	theirs, _ := d.tree.freezer.folder(filepath.Dir(d.base) + "/job-7")
	if err := os.MkdirAll(theirs, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(theirs, "cgroup.procs"), []byte(strconv.Itoa(int(e.pid()))), 0); err != nil {
		t.Fatal(err)
	}
	path, err := d.Adopt(t.Context(), "e1", Limits{}, func() ([]Member, error) { return []Member{{PID: e.pid()}}, nil })
	if err != nil {
		t.Fatal(err)
	}
	inside, err := os.ReadFile(filepath.Join(theirs, "cgroup.procs"))
	if err != nil || strings.TrimSpace(string(inside)) != strconv.Itoa(int(e.pid())) {
		t.Errorf("%q, %v", inside, err)
	}
	if _, err := d.Freeze(t.Context(), path); !errors.Is(err, ErrNoFreezing) {
		t.Error(err)
	}
	if err := d.Thaw(path); err != nil {
		t.Error(err)
	}
	if err := e.end(); err != nil {
		t.Error(err)
	}
}
