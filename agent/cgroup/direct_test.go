package cgroup

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const mib = 1 << 20

// delegated is a machine where the agent is in a cgroup below one that was handed to it.
func delegated(t *testing.T) (*unified, *Direct) {
	t.Helper()
	k := newUnified("cpuset", "cpu", "io", "memory", "pids")
	k.make(t, "/bursar")
	k.make(t, "/bursar/agent", 77)
	k.make(t, "/elsewhere", 100, 101, 102)
	return k, openDirect(t, DirectOptions{Tree: k.process(t, "/bursar/agent", "/")})
}

func openDirect(t *testing.T, o DirectOptions) *Direct {
	t.Helper()
	d, err := OpenDirect(o)
	if err == nil {
		err = d.Prepare()
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestCgroupsAreMadeBesideTheAgentsOwn(t *testing.T) {
	k, d := delegated(t)
	if name := d.Name(); name != "direct, version 2, below /bursar/bursar-engines" {
		t.Error(name)
	}
	path, err := d.Enter(t.Context(), "e1", Limits{MemoryMax: 64 * mib, CPUMillis: 1500, CPUWeight: 150}, 100)
	if err != nil || path != "/bursar/bursar-engines/e1" || !Whole(path) {
		t.Fatal(path, err)
	}
	if got := k.limits(path); got != "memory 67108864 swap 0 cpu 150000 100000 weight 150" {
		t.Error(got)
	}
	if !slices.Equal(k.cgroups[path].procs, []int{100}) {
		t.Error(k.cgroups[path].procs)
	}
	if err := d.Set(t.Context(), "e1", Limits{}); err != nil {
		t.Error(err)
	}
	if got := k.limits(path); got != "memory max swap max cpu max 100000 weight 100" {
		t.Error(got)
	}
	k.swap = false
	if err := d.Set(t.Context(), "e1", Limits{MemoryMax: mib, CPUMillis: 1, CPUWeight: 1 << 40}); err != nil {
		t.Error("without swap:", err)
	}
	if got := k.limits(path); got != "memory 1048576 swap max cpu 1000 100000 weight 10000" {
		t.Error(got)
	}
}

// stubborn is a kernel that moves no process.
type stubborn struct{ *unified }

func (s stubborn) Write(name, content string) error {
	if strings.HasSuffix(name, "/cgroup.procs") {
		return fail("write", name, syscall.EOPNOTSUPP)
	}
	return s.unified.Write(name, content)
}

func TestWhoeverCouldNotEnterIsNotTakenForOneThatDid(t *testing.T) {
	k, _ := delegated(t)
	options := k.process(t, "/bursar/agent", "/")
	options.Files = stubborn{k}
	if path, err := openDirect(t, DirectOptions{Tree: options}).Enter(t.Context(), "e1", Limits{}, 100); err == nil || path != "" {
		t.Fatalf("%q, %v", path, err)
	}
	options.Files = k
	path, err := openDirect(t, DirectOptions{Tree: options}).Adopt(t.Context(), "e1", Limits{}, func() ([]Member, error) { return []Member{{PID: 100}}, nil })
	if err != nil || Whole(path) {
		t.Errorf("%q, %v: its memory was charged elsewhere", path, err)
	}
}

func TestAdoptMovesWhatStartsMeanwhile(t *testing.T) {
	k, d := delegated(t)
	looks := 0
	path, err := d.Adopt(t.Context(), "e1", Limits{}, func() ([]Member, error) {
		looks++
		switch looks {
		case 1:
			return []Member{{PID: 100}, {PID: 999}}, nil // 999 has ended by then
		case 2:
			return []Member{{PID: 100}, {PID: 101}}, nil
		default:
			return []Member{{PID: 100}, {PID: 101}, {PID: 102}}, nil
		}
	})
	if err != nil || path != "/bursar/bursar-engines/e1.adopted" || Whole(path) {
		t.Fatal(path, err)
	}
	if got := k.cgroups[path].procs; !slices.Equal(got, []int{100, 101, 102}) || looks != 4 {
		t.Errorf("%d inside after %d looks", got, looks)
	}
	// A second time changes nothing but the limits, wherever the engine is.
	again, err := d.Adopt(t.Context(), "e1", Limits{CPUWeight: 7}, func() ([]Member, error) { return []Member{{PID: 100}}, nil })
	if err != nil || again != path || !strings.HasSuffix(k.limits(path), "weight 7") {
		t.Error(again, err, k.limits(path))
	}
}

// A process that has ended can be moved, says the kernel, and is where it was. One that is gone
// when it is to be moved may have started another one, which was in none of the lists so far.
func TestAdoptLooksAgainForWhatTheDeadHaveStarted(t *testing.T) {
	k, d := delegated(t)
	k.dead = 101
	lists := [][]Member{{{PID: 100}}, {{PID: 100}, {PID: 101}}, {{PID: 100}, {PID: 102}}}
	name, err := d.Adopt(t.Context(), "e1", Limits{}, func() ([]Member, error) {
		list := lists[0]
		if len(lists) > 1 {
			lists = lists[1:]
		}
		return list, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := k.cgroups[name].procs; !slices.Contains(got, 102) {
		t.Errorf("inside are %v, want 102 too", got)
	}
}

func TestAdoptDoesNotWaitForTheDead(t *testing.T) {
	k, d := delegated(t)
	k.dead = 101
	path, err := d.Adopt(t.Context(), "e1", Limits{}, func() ([]Member, error) { return []Member{{PID: 100}, {PID: 101}}, nil })
	if err != nil || !slices.Equal(k.cgroups[path].procs, []int{100}) {
		t.Error(path, err)
	}
}

func TestAdoptGivesUpOnAnEngineThatIsFasterAndOnItsCaller(t *testing.T) {
	k, d := delegated(t)
	next := 1000
	if _, err := d.Adopt(t.Context(), "e1", Limits{}, func() ([]Member, error) {
		next++
		k.cgroups["/elsewhere"].procs = append(k.cgroups["/elsewhere"].procs, next)
		return []Member{{PID: int32(next)}}, nil
	}); err == nil || next > 1000+adoptRounds {
		t.Error(next, err)
	}
	sentinel := errors.New("no process table")
	if path, err := d.Adopt(t.Context(), "e2", Limits{}, func() ([]Member, error) { return nil, sentinel }); !errors.Is(err, sentinel) || path != "" {
		t.Error(path, err)
	}
}

func TestALimitIsNotSetBelowWhatIsHeld(t *testing.T) {
	k, d := delegated(t)
	path, err := d.Enter(t.Context(), "e1", Limits{MemoryMax: 100 * mib}, 100)
	if err != nil {
		t.Fatal(err)
	}
	files := k.cgroups[path].files
	files["memory.current"], files["memory.stat"] = "83886080", "anon 62914560\ninactive_anon 0\nactive_anon 62914560\ninactive_file 10485760\nactive_file 10485760\nunevictable 0\nslab_reclaimable 0"
	if err := d.Set(t.Context(), "e1", Limits{MemoryMax: 50 * mib, CPUWeight: 50}); !errors.Is(err, ErrInUse) {
		t.Error("60 MiB that the kernel cannot take back, a limit of 50:", err)
	}
	if got := k.limits(path); got != "memory 104857600 swap 0 cpu max 100000 weight 50" {
		t.Error("the other limits are set all the same:", got)
	}
	if err := d.Set(t.Context(), "e1", Limits{MemoryMax: 65 * mib}); err != nil || !strings.HasPrefix(k.limits(path), "memory 68157440 ") {
		t.Error("page cache makes room:", err, k.limits(path))
	}
}

func TestFactsTellOfKillsAndWhoseLimitItWas(t *testing.T) {
	k, d := delegated(t)
	path, err := d.Enter(t.Context(), "e1", Limits{MemoryMax: mib}, 100)
	if err != nil {
		t.Fatal(err)
	}
	expect := func(when string, want Facts) {
		t.Helper()
		got, err := d.Facts(t.Context(), "e1")
		if err != nil {
			t.Error(when, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(when, diff)
		}
	}
	expect("at first", Facts{MemoryMax: mib})
	files := k.cgroups[path].files
	files["memory.events"] = "low 0\nhigh 0\nmax 9\noom 0\noom_kill 1"
	expect("the machine had no more", Facts{MemoryMax: mib, OOMKills: 1})
	files["memory.events"] = "low 0\nhigh 0\nmax 19\noom 2\noom_kill 2"
	expect("its own limit", Facts{MemoryMax: mib, OOMKills: 2, AtLimit: true})
	k.cgroups[path].procs = nil
	expect("ended", Facts{MemoryMax: mib, OOMKills: 2, AtLimit: true, Empty: true})
	if _, err := d.Facts(t.Context(), "e2"); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
	files["memory.events"] = "oom many"
	if _, err := d.Facts(t.Context(), "e1"); err == nil {
		t.Error("read a number where there was none")
	}
}

func TestRemoveLeavesWhatHasProcesses(t *testing.T) {
	k, d := delegated(t)
	path, err := d.Enter(t.Context(), "e1", Limits{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	k.make(t, path+"/own")
	if err := d.Remove(t.Context(), "e1"); !errors.Is(err, ErrBusy) || !slices.Equal(k.cgroups[path].procs, []int{100}) {
		t.Error(err, k.cgroups[path].procs)
	}
	k.cgroups[path].procs = nil
	if err := d.Remove(t.Context(), "e1"); err != nil || k.cgroups[path] != nil {
		t.Error(err)
	}
	if err := d.Remove(t.Context(), "e1"); err != nil {
		t.Error("a second time:", err)
	}
}

func TestCgroupsAreFoundAgain(t *testing.T) {
	k, d := delegated(t)
	if _, err := d.Enter(t.Context(), "e1", Limits{}, 100); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Adopt(t.Context(), "e2", Limits{}, func() ([]Member, error) { return []Member{{PID: 101}}, nil }); err != nil {
		t.Fatal(err)
	}
	k.make(t, "/bursar/bursar-engines/some body's")
	next := openDirect(t, DirectOptions{Tree: k.process(t, "/bursar/agent", "/")})
	found, err := next.Find(t.Context())
	want := []Found{{ID: "e1", Path: "/bursar/bursar-engines/e1"}, {ID: "e2", Path: "/bursar/bursar-engines/e2.adopted"}}
	if diff := cmp.Diff(want, found); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestAnIDIsNoPath(t *testing.T) {
	_, d := delegated(t)
	for _, id := range []string{"", "..", "a/b", ".", "-", "a.b", strings.Repeat("a", 65), "a\n"} {
		_, err := d.Adopt(t.Context(), id, Limits{}, func() ([]Member, error) { return nil, nil })
		for _, err := range []error{err, d.Set(t.Context(), id, Limits{}), d.Remove(t.Context(), id)} {
			if !errors.Is(err, ErrID) {
				t.Errorf("%q: %v", id, err)
			}
		}
	}
}

func TestWhereCgroupsCanBeMade(t *testing.T) {
	for name, test := range map[string]struct {
		own, root, parent string
		prepare           func(k *unified)
		want              string // of Name; of an error, what it says
		busy              bool
	}{
		"an agent at the top": {own: "/", root: "/", want: "direct, version 2, below /bursar-engines"},
		"a container":         {own: "/", root: "/", want: "direct, version 2, below /bursar-engines"},
		"a container that sees the machine's names": {
			own: "/docker/abc", root: "/docker/abc", want: "direct, version 2, below /docker/abc/bursar-engines",
		},
		"configured": {own: "/bursar/agent", root: "/", parent: "/bursar/pool", want: "direct, version 2, below /bursar/pool/bursar-engines"},
		"the parent has processes": {
			own: "/bursar/agent", root: "/", prepare: func(k *unified) { k.cgroups["/bursar"].procs = []int{5} },
			want: "cgroup /bursar has processes of its own", busy: true,
		},
		"only some controllers": {
			own: "/bursar/agent", root: "/", prepare: func(k *unified) { k.cgroups["/"].files["available"] = "cpu pids" },
			want: "direct, version 2, below /bursar/bursar-engines, without memory",
		},
		"none": {
			own: "/bursar/agent", root: "/", prepare: func(k *unified) { k.cgroups["/"].files["available"] = "hugetlb" },
			want: "direct, version 2, below /bursar/bursar-engines, without memory and cpu",
		},
		"outside of what is mounted": {own: "/docker/abc", root: "/docker/abc", parent: "/other", want: "is not below /docker/abc"},
	} {
		k := newUnified("cpu", "memory")
		k.make(t, "/bursar")
		k.make(t, "/bursar/agent", 77)
		if test.prepare != nil {
			test.prepare(k)
		}
		d, err := OpenDirect(DirectOptions{Parent: test.parent, Tree: k.process(t, test.own, test.root)})
		if err == nil {
			err = d.Prepare()
		}
		switch {
		case err != nil && (!strings.Contains(err.Error(), test.want) || errors.Is(err, ErrBusy) != test.busy):
			t.Errorf("%s: %v", name, err)
		case err == nil && d.Name() != test.want:
			t.Errorf("%s: %s", name, d.Name())
		}
	}
}

func TestALimitThatNobodyKeepsIsSaid(t *testing.T) {
	k := newUnified("cpu")
	k.make(t, "/elsewhere", 100)
	d := openDirect(t, DirectOptions{Tree: k.process(t, "/", "/")})
	path, err := d.Enter(t.Context(), "e1", Limits{MemoryMax: mib, CPUMillis: 500}, 100)
	var unsupported *UnsupportedError
	if !errors.As(err, &unsupported) || unsupported.Controller != "memory" || path == "" {
		t.Error(path, err)
	}
	if got := k.cgroups[path].files["cpu.max"]; got != "50000 100000" {
		t.Error("the limit that can be kept:", got)
	}
	if facts, err := d.Facts(t.Context(), "e1"); err != nil || facts != (Facts{}) {
		t.Error(facts, err)
	}
	if path, err := d.Enter(t.Context(), "e2", Limits{}, 4242); !errors.Is(err, syscall.ESRCH) && path != "/bursar-engines/e2" {
		t.Error(path, err)
	}
}
