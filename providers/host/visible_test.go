package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A process table that hides a process does not prove its end: the kernel is asked.
func TestAHiddenEngineIsAlive(t *testing.T) {
	root := t.TempDir()
	for name, content := range map[string]string{
		"proc/1/stat": "1 (init) S 0 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	meter, err := NewMeter(Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	there := true
	meter.exists = func(pid int) bool { return pid == 1 || pid == 77 && there }
	engine := []Engine{{ID: "a", PID: 77, StartTime: 9}}
	if _, err := meter.Identify(77); !errors.Is(err, ErrHidden) || errors.Is(err, ErrNoProcess) {
		t.Errorf("identified: %v; want that it is hidden", err)
	}
	if u := meter.Engines(t.Context(), engine)[0]; !u.Alive || !errors.Is(u.Err, ErrHidden) {
		t.Errorf("%+v; want an engine that runs and is hidden", u)
	}
	there = false
	if _, err := meter.Identify(77); !errors.Is(err, ErrNoProcess) {
		t.Errorf("identified: %v; want that it has ended", err)
	}
	if u := meter.Engines(t.Context(), engine)[0]; u.Alive {
		t.Errorf("%+v; want an engine that has ended", u)
	}
	// A reused pid proves that the process before it has ended.
	if u := meter.Engines(t.Context(), []Engine{{ID: "b", PID: 1, StartTime: 4}})[0]; u.Alive {
		t.Errorf("%+v; want an engine that has ended", u)
	}
}

func TestAMeterKnowsWhetherItSees(t *testing.T) {
	//nolint:dupword // columns of mountinfo
	for name, c := range map[string]struct {
		mountinfo, status string
		want              bool // it is blind
	}{
		"a usual mount":           {"22 1 0:21 / /proc rw shared:5 - proc proc rw\n", "CapEff:\t0000000000000000\n", false},
		"hidden":                  {"22 1 0:21 / /proc rw shared:5 - proc proc rw,gid=4294967,hidepid=invisible\n", "CapEff:\t0000000000000000\n", true},
		"hidden, by number":       {"22 1 0:21 / /proc rw - proc proc rw,gid=4294967,hidepid=2\n", "CapEff:\t0000000000000000\n", true},
		"closed":                  {"22 1 0:21 / /proc rw - proc proc rw,gid=4294967,hidepid=noaccess\n", "CapEff:\t0000000000000000\n", true},
		"of its group":            {fmt.Sprintf("22 1 0:21 / /proc rw - proc proc rw,gid=%d,hidepid=2\n", os.Getegid()), "CapEff:\t0000000000000000\n", false},
		"ptraceable":              {"22 1 0:21 / /proc rw - proc proc rw,hidepid=ptraceable\n", "CapEff:\t0000000000000000\n", true},
		"may trace":               {"22 1 0:21 / /proc rw - proc proc rw,hidepid=4\n", "CapEff:\t0000000000080000\n", false},
		"a mount over it":         {"22 1 0:21 / /proc rw - proc proc rw,gid=4294967,hidepid=2\n23 22 0:22 / /proc rw - proc proc rw\n", "CapEff:\t0000000000000000\n", false},
		"another mount is hidden": {"22 1 0:21 / /proc rw - proc proc rw\n23 22 0:22 / /other/proc rw - proc proc rw,gid=4294967,hidepid=2\n", "CapEff:\t0000000000000000\n", false},
	} {
		root := t.TempDir()
		meter, err := NewMeter(Options{Root: root})
		if err != nil {
			t.Fatal(err)
		}
		if got := meter.Blind(); got == "" {
			t.Errorf("%s: a machine without a process table is seen", name)
		}
		own := filepath.Join(root, "proc", "self")
		if err := os.MkdirAll(own, 0o755); err != nil {
			t.Fatal(err)
		}
		s := &scratch{}
		for file, content := range map[string]string{"mountinfo": c.mountinfo, "status": c.status} {
			if err := os.WriteFile(filepath.Join(own, file), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if mode := hidepid(s, "/proc", filepath.Join(root, "proc")); (mode != "") != c.want {
			t.Errorf("%s: %q", name, mode)
		}
	}
}

func TestThisProcessSees(t *testing.T) {
	meter, err := NewMeter(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if why := meter.Blind(); why != "" && os.Geteuid() == 0 {
		t.Errorf("root is blind: %s", why)
	}
}
