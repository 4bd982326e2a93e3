package unit

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/agent/cgroup"
)

// played is a systemd that records its calls. test/systemd tests the real one.
type played struct {
	units     map[string]map[string]any
	started   [][]systemd.Property
	attached  []uint32
	reset     []string
	stopped   []string
	refuse    string // the property that it does not know
	gone      uint32 // a process that has ended
	result    string // of a job; empty: "done"
	connected bool
	// error of the next call, on a connection whose end shows only at a write
	broken error
}

func (p *played) Connected() bool { return p.connected }
func (p *played) Close()          { p.connected = false }

func (p *played) StartTransientUnitContext(_ context.Context, name, _ string, properties []systemd.Property, done chan<- string) (int, error) {
	if !p.connected {
		return 0, dbus.ErrClosed
	}
	p.started = append(p.started, properties)
	for _, q := range properties {
		if q.Name == p.refuse {
			return 0, *dbus.NewError("org.freedesktop.DBus.Error.PropertyReadOnly", []any{"Cannot set property " + q.Name + ", or unknown property."})
		}
		if pids, ok := q.Value.Value().([]uint32); ok && q.Name == "PIDs" && pids[0] == p.gone {
			return 0, *dbus.NewError("System.Error.ESRCH", []any{"Process does not exist."})
		}
	}
	if p.result == "" {
		p.units[name] = map[string]any{"ActiveState": "active", "Result": "success", "ControlGroup": "/bursar.slice/" + name, "MainPID": uint32(42)}
		done <- "done"
		return 1, nil
	}
	p.units[name] = map[string]any{"ActiveState": "failed", "Result": "exit-code"}
	done <- p.result
	return 1, nil
}

func (p *played) AttachProcessesToUnit(_ context.Context, _, _ string, pids []uint32) error {
	p.attached = append(p.attached, pids...)
	return nil
}

func (p *played) SetUnitPropertiesContext(_ context.Context, name string, _ bool, properties ...systemd.Property) error {
	for _, q := range properties {
		p.units[name][q.Name] = q.Value.Value()
	}
	return nil
}

func (p *played) GetAllPropertiesContext(_ context.Context, name string) (map[string]any, error) {
	if !p.connected {
		return nil, dbus.ErrClosed
	}
	if err := p.broken; err != nil {
		p.broken = nil
		return nil, err
	}
	if unit := p.units[name]; unit != nil {
		return unit, nil
	}
	return map[string]any{"LoadState": "not-found", "ActiveState": "inactive"}, nil
}

func (p *played) ListUnitsByPatternsContext(context.Context, []string, []string) ([]systemd.UnitStatus, error) {
	list := []systemd.UnitStatus{{Name: "bursar-engine-.scope"}, {Name: "bursar-engine-a.b.scope"}, {Name: "bursar-engine-e9.timer"}}
	for name := range p.units {
		list = append(list, systemd.UnitStatus{Name: name})
	}
	return list, nil
}

func (p *played) ResetFailedUnitContext(_ context.Context, name string) error {
	p.reset = append(p.reset, name)
	delete(p.units, name)
	return nil
}

func (p *played) StopUnitContext(_ context.Context, name, _ string, _ chan<- string) (int, error) {
	p.stopped = append(p.stopped, name)
	return 1, nil
}

// open returns units of a played systemd on a machine of which only the cgroups are visible.
func open(t *testing.T, p *played) *Units {
	t.Helper()
	proc := t.TempDir()
	for name, content := range map[string]string{
		"cgroup": "0::/init.scope\n", "mountinfo": "30 23 0:26 / " + t.TempDir() + " rw - cgroup2 none rw\n",
	} {
		if err := os.MkdirAll(filepath.Join(proc, "1"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, "1", name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("1", filepath.Join(proc, "self")); err != nil {
		t.Fatal(err)
	}
	tree, err := cgroup.OpenTree(cgroup.TreeOptions{Proc: proc})
	if err != nil {
		t.Fatal(err)
	}
	p.units = map[string]map[string]any{}
	units, err := Open(t.Context(), Options{Tree: tree, Connect: func(context.Context) (Conn, error) {
		p.connected = true
		return p, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return units
}

func namesOf(properties []systemd.Property) string {
	var list []string
	for _, p := range properties {
		list = append(list, p.Name)
	}
	return strings.Join(list, " ")
}

func these(pids ...int32) cgroup.Members {
	return func() (list []cgroup.Member, err error) {
		for _, pid := range pids {
			list = append(list, cgroup.Member{PID: pid})
		}
		return list, nil
	}
}

func TestAnOlderSystemdIsAskedForLess(t *testing.T) {
	p := &played{refuse: "OOMPolicy"}
	u := open(t, p)
	for _, id := range []string{"e1", "e2"} {
		if _, err := u.Adopt(t.Context(), id, cgroup.Limits{}, these(7)); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.started) != 3 || strings.Contains(namesOf(p.started[1]), "OOMPolicy") || strings.Contains(namesOf(p.started[2]), "OOMPolicy") {
		t.Errorf("asked %d times", len(p.started))
	}
	p.refuse = "Slice"
	if _, err := u.Adopt(t.Context(), "e3", cgroup.Limits{}, these(7)); !errors.Is(err, ErrNotStarted) {
		t.Error("without what matters:", err)
	}
}

func TestAScopeIsMadeWithAProcessThatIsThere(t *testing.T) {
	p := &played{gone: 7}
	u := open(t, p)
	if _, err := u.Adopt(t.Context(), "e1", cgroup.Limits{MemoryMax: 1 << 20}, these(7, 8)); err != nil || p.units["bursar-engine-e1.scope"] == nil {
		t.Error(err)
	}
	if _, err := u.Adopt(t.Context(), "e2", cgroup.Limits{}, these()); !errors.Is(err, cgroup.ErrNone) {
		t.Error("of nobody:", err)
	}
}

func TestALimitOfMemoryIsOneOfSwapToo(t *testing.T) {
	p := &played{}
	u := open(t, p)
	swap := func(properties []systemd.Property) (values []any) {
		for _, q := range properties {
			if q.Name == "MemoryMax" || q.Name == "MemorySwapMax" {
				values = append(values, q.Value.Value())
			}
		}
		return values
	}
	limited, free := []any{uint64(64 << 20), uint64(0)}, []any{uint64(infinity), uint64(infinity)}
	for id, test := range map[string]struct {
		limits cgroup.Limits
		want   []any
	}{"e1": {cgroup.Limits{MemoryMax: 64 << 20}, limited}, "e2": {cgroup.Limits{}, free}} {
		if _, err := u.Adopt(t.Context(), id, test.limits, these(7)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, swap(p.started[len(p.started)-1])); diff != "" {
			t.Error("a scope:", diff)
		}
		service := Service{ID: id, Command: []string{"/bin/true"}, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Limits: test.limits}
		if _, err := u.Start(t.Context(), service); err != nil && !errors.Is(err, cgroup.ErrNone) {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, swap(p.started[len(p.started)-1])); diff != "" {
			t.Error("a service:", diff)
		}
	}
	if err := u.Set(t.Context(), "e2", cgroup.Limits{MemoryMax: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	if unit := p.units["bursar-engine-e2.service"]; unit["MemoryMax"] != uint64(1<<20) || unit["MemorySwapMax"] != uint64(0) {
		t.Errorf("set: %v", unit)
	}
}

func TestAConnectionThatEndedIsMadeAnew(t *testing.T) {
	p := &played{}
	u := open(t, p)
	p.connected = false
	if _, err := u.Adopt(t.Context(), "e1", cgroup.Limits{}, these(7)); err != nil {
		t.Error(err)
	}
	for _, ended := range []error{syscall.EPIPE, syscall.ECONNRESET, io.EOF} {
		p.broken = &net.OpError{Op: "write", Net: "unix", Err: ended}
		if _, err := u.Facts(t.Context(), "e1"); err != nil {
			t.Errorf("%v: %v", ended, err)
		}
	}
	p.broken = syscall.EACCES
	if _, err := u.Facts(t.Context(), "e1"); !errors.Is(err, syscall.EACCES) {
		t.Errorf("got %v: want that only the end of a connection is tried again", err)
	}
}

func TestUnitsOfEnginesAreFoundByTheirNames(t *testing.T) {
	p := &played{}
	u := open(t, p)
	if _, err := u.Adopt(t.Context(), "e1", cgroup.Limits{}, these(7)); err != nil {
		t.Fatal(err)
	}
	found, err := u.Find(t.Context())
	if diff := cmp.Diff([]cgroup.Found{{ID: "e1", Path: "/bursar.slice/bursar-engine-e1.scope"}}, found); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if err := u.Remove(t.Context(), "e1"); !errors.Is(err, cgroup.ErrBusy) || len(p.stopped) > 0 {
		t.Error("one that runs, and of which nothing is seen:", err, p.stopped)
	}
	for _, id := range []string{"", "../x", "a b", "a.b"} {
		if err := u.Set(t.Context(), id, cgroup.Limits{}); !errors.Is(err, cgroup.ErrID) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestWhatSystemdSaysOfAnEndIsReadBeforeItIsForgotten(t *testing.T) {
	p := &played{}
	u := open(t, p)
	p.units["bursar-engine-e1.scope"] = map[string]any{"ActiveState": "failed", "Result": "oom-kill", "MemoryMax": uint64(1 << 20)}
	facts, err := u.Facts(t.Context(), "e1")
	if diff := cmp.Diff(cgroup.Facts{OOMKills: 1, AtLimit: true, MemoryMax: 1 << 20, Empty: true}, facts); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if err := u.Remove(t.Context(), "e1"); err != nil || len(p.reset) != 1 {
		t.Error(err, p.reset)
	}
	if _, err := u.Facts(t.Context(), "e1"); !errors.Is(err, cgroup.ErrNone) {
		t.Error(err)
	}
}

func TestAServiceThatDoesNotStartIsKnownNotToRun(t *testing.T) {
	p := &played{result: "failed"}
	u := open(t, p)
	_, err := u.Start(t.Context(), Service{ID: "e1", Command: []string{"/bin/true"}, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr})
	if !errors.Is(err, ErrNotStarted) || !strings.Contains(err.Error(), "exit-code") {
		t.Error(err)
	}
}
