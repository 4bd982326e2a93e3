package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
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
