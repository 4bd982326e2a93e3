package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// A process is in a cgroup that is not ours. What it would get out of by a move is a limit on its
// way up that the cgroups of engines are not below, or its container.
func TestWhatAProcessWouldLoseByAMove(t *testing.T) {
	for name, test := range map[string]struct {
		in, file, content string // of the one above in
		ns                map[string]string
		want              string
	}{
		"nothing":                            {in: "/ecm/engines"},
		"a limit of memory":                  {in: "/ecm/engines", file: "memory.max", content: "1000000", want: "memory.max of cgroup /ecm"},
		"a soft one":                         {in: "/ecm/engines", file: "memory.high", content: "1000000", want: "memory.high of cgroup /ecm"},
		"a limit of processor time":          {in: "/ecm/engines", file: "cpu.max", content: "50000 100000", want: "cpu.max of cgroup /ecm"},
		"a set of processors":                {in: "/ecm/engines", file: "cpuset.cpus", content: "0-1", want: "cpuset.cpus of cgroup /ecm"},
		"no set of processors":               {in: "/ecm/engines", file: "cpuset.cpus", content: ""},
		"a limit on the number of processes": {in: "/ecm/engines", file: "pids.max", content: "100", want: "pids.max of cgroup /ecm"},
		"no limit":                           {in: "/ecm/engines", file: "cpu.max", content: "max 100000"},
		"a limit that is the engines', too":  {in: "/bursar/engines", file: "memory.max", content: "1000000"},
		"a container":                        {in: "/ecm/engines", ns: map[string]string{"pid": "pid:[2]"}, want: "its container (pid namespace)"},
		"a user's own namespaces":            {in: "/ecm/engines", ns: map[string]string{"user": "user:[2]", "pid": "pid:[2]", "cgroup": "cgroup:[2]"}},
		"a container with a view of its own": {in: "/ecm/engines", ns: map[string]string{"cgroup": "cgroup:[2]"}, want: "its container (cgroup namespace)"},
	} {
		k := newUnified("cpu", "memory", "pids", "cpuset")
		k.make(t, "/bursar")
		k.make(t, "/bursar/agent", 77)
		above := filepath.Dir(test.in)
		if above != "/bursar" {
			k.make(t, above)
		}
		k.make(t, test.in, 100)
		if test.file != "" {
			k.cgroups["/"].control = []string{"cpu", "memory", "pids", "cpuset"}
			k.cgroups[above].files[test.file] = test.content
		}
		o := k.process(t, "/bursar/agent", "/")
		for pid, of := range map[string]map[string]string{"77": nil, "100": test.ns} {
			spaces(t, filepath.Join(o.Proc, pid), of)
		}
		if err := os.WriteFile(filepath.Join(o.Proc, "100", "cgroup"), []byte("0::"+test.in+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := OpenDirect(DirectOptions{Tree: o})
		if err != nil {
			t.Fatal(err)
		}
		if lost, err := d.Lost(100); err != nil || lost != test.want {
			t.Errorf("%s: %q, %v; want %q", name, lost, err, test.want)
		}
		if _, err := d.Lost(101); !errors.Is(err, ErrNone) {
			t.Errorf("of no process: %v", err)
		}
	}
}

// All that an admin can have set on a cgroup is a reason not to lift a process out of it; what the
// kernel gives to each cgroup is none.
func TestWhatAnAdminHasSetOnACgroupWouldBeLost(t *testing.T) {
	for file, contents := range map[string]struct{ unset, set string }{
		"memory.swap.max": {"max", "0"}, "memory.low": {"0", "1048576"}, "memory.min": {"0", "4096"}, "memory.zswap.max": {"max", "0"},
		"cpu.weight": {"100", "10"}, "cpu.idle": {"0", "1"}, "cpu.uclamp.max": {"max", "50.00"}, "cpu.max": {"max 100000", "50000 100000"},
		"pids.max": {"max", "7"}, "io.max": {"", "8:0 rbps=1048576"}, "io.weight": {"default 100", "default 100\n8:0 50"}, "io.bfq.weight": {"default 100", "default 10"},
		"io.latency": {"", "8:0 target=10"}, "cpuset.mems": {"", "0"},
		"hugetlb.2MB.max": {"max", "0"}, "hugetlb.1GB.rsvd.max": {"max", "1073741824"},
		"rdma.max": {"mlx4_0 hca_handle=max hca_object=max", "mlx4_0 hca_handle=2 hca_object=max"}, "misc.max": {"sev max\nsev_es max", "sev max\nsev_es 2"},
		"memory.limit_in_bytes": {"9223372036854771712", "1048576"}, "memory.soft_limit_in_bytes": {"9223372036854771712", "1048576"},
		"memory.memsw.limit_in_bytes": {"9223372036854771712", "1048576"}, "memory.kmem.tcp.limit_in_bytes": {"9223372036854771712", "1048576"},
		"cpu.shares": {"1024", "2"}, "cpu.cfs_quota_us": {"-1", "50000"}, "blkio.weight": {"500", "10"}, "blkio.throttle.read_bps_device": {"", "8:0 1048576"},
		"hugetlb.2MB.limit_in_bytes": {"9223372036852678656", "0"}, "devices.list": {"a *:* rwm", "c 1:3 rwm"},
		"net_cls.classid": {"0", "1048577"}, "net_prio.ifpriomap": {"lo 0\neth0 0", "lo 0\neth0 5"},
	} {
		for content, want := range map[string]string{contents.unset: "", contents.set: file + " of cgroup /batch"} {
			k := newUnified("cpu", "memory")
			k.make(t, "/bursar")
			k.make(t, "/bursar/agent", 77)
			k.make(t, "/batch", 100)
			k.cgroups["/batch"].files = map[string]string{file: content}
			k.any = true
			o := k.process(t, "/bursar/agent", "/")
			for _, pid := range []string{"77", "100"} {
				spaces(t, filepath.Join(o.Proc, pid), nil)
			}
			if err := os.WriteFile(filepath.Join(o.Proc, "100", "cgroup"), []byte("0::/batch\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			d, err := OpenDirect(DirectOptions{Tree: o})
			if err != nil {
				t.Fatal(err)
			}
			if lost, err := d.Lost(100); err != nil || lost != want {
				t.Errorf("%s %q: %q, %v; want %q", file, content, lost, err, want)
			}
		}
	}
}

// Version 1 gives a new cgroup the processors of its parent, if cpuset is mounted with cpu.
func TestProcessorsOfTheParentAreNoLimit(t *testing.T) {
	for content, want := range map[string]string{"0-3": "", "0": "cpuset.cpus of cgroup /batch"} {
		k := newUnified("cpu", "memory")
		k.make(t, "/batch", 100)
		k.cgroups["/"].files["cpuset.cpus"], k.cgroups["/batch"].files["cpuset.cpus"] = "0-3", content
		k.any = true
		h := &hierarchy{Place: cgroupfs.Place{Point: mountedAt, Root: "/", Name: "/", V1: true}, controllers: []string{"cpu", "cpuset"}}
		found := ""
		_, err := (&Tree{files: k}).limitsOf(h, "/batch", func(name, file string, _ int64) bool {
			if strings.HasPrefix(file, "cpuset.") {
				found = file + " of cgroup " + name
			}
			return true
		})
		if err != nil || found != want {
			t.Errorf("%q: %q, %v; want %q", content, found, err, want)
		}
	}
}

// spaces writes the namespaces of a process; those that are not said are everybody's.
func spaces(t *testing.T, process string, of map[string]string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(process, "ns"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"pid", "cgroup", "user"} {
		name := of[kind]
		if name == "" {
			name = kind + ":[1]"
		}
		if err := os.Symlink(name, filepath.Join(process, "ns", kind)); err != nil {
			t.Fatal(err)
		}
	}
}

// What is below a cgroup is read up to a bound. Beyond it, a cgroup is not said to be empty.
func TestALookBelowACgroupEnds(t *testing.T) {
	k, d := delegated(t)
	name, err := d.Enter(t.Context(), "e1", Limits{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	for i := range mostBelow + 1 {
		k.make(t, name+"/"+strconv.Itoa(i))
	}
	if _, err := d.tree.Outsiders(name, nil); !errors.Is(err, errTooMany) {
		t.Errorf("%v", err)
	}
	deep, err := d.Enter(t.Context(), "e2", Limits{}, 101)
	if err != nil {
		t.Fatal(err)
	}
	for i := range deepest + 1 {
		k.make(t, deep+strings.Repeat("/c", i+1))
	}
	if _, err := d.tree.Outsiders(deep, nil); !errors.Is(err, errTooMany) {
		t.Errorf("%v", err)
	}
}

// A mount that shows a part of the hierarchy, which came later, is not taken for the hierarchy:
// the limits further up would not be seen, and cgroups be made below another than this process's.
func TestAMountOfAPartIsNotTakenForTheHierarchy(t *testing.T) {
	k := newUnified("cpu", "memory")
	k.make(t, "/bursar")
	k.make(t, "/bursar/agent", 77)
	k.make(t, "/ecm")
	k.make(t, "/ecm/engines", 100)
	k.cgroups["/"].control = []string{"cpu", "memory"}
	k.cgroups["/ecm"].files["memory.max"] = "1000000"
	o := k.process(t, "/bursar/agent", "/")
	file := filepath.Join(o.Proc, "77", "mountinfo")
	mounts, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	mounts = append(mounts, "31 23 0:26 /ecm/engines "+mountedAt+"/ecm/engines rw - cgroup2 none rw\n"...)
	if err := os.WriteFile(file, mounts, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []string{"77", "100"} {
		spaces(t, filepath.Join(o.Proc, pid), nil)
	}
	if err := os.WriteFile(filepath.Join(o.Proc, "100", "cgroup"), []byte("0::/ecm/engines\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := OpenDirect(DirectOptions{Tree: o})
	if err != nil {
		t.Fatal(err)
	}
	if want := "/bursar/" + engines; d.base != want {
		t.Errorf("cgroups are made below %s, want %s", d.base, want)
	}
	if lost, err := d.Lost(100); err != nil || lost != "memory.max of cgroup /ecm" {
		t.Errorf("%q, %v", lost, err)
	}
}
