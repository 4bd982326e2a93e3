package unit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/bursar/bursar/agent/cgroup"
)

const (
	// Slice contains the units of all engines.
	Slice = "bursar-engines.slice"
	// slicePath is its cgroup.
	slicePath = "/bursar.slice/" + Slice
	// SliceCgroup is the slice's cgroup.
	SliceCgroup = "/bursar.slice/bursar-engines.slice"

	booted  = "/run/systemd/system" // as in sd_booted(3)
	private = "/run/systemd/private"
)

// ErrNoSystemd says that systemd does not run here.
var ErrNoSystemd = errors.New("systemd does not run here")

// Conn is the used part of a connection to systemd; *dbus.Conn of go-systemd implements it.
type Conn interface {
	StartTransientUnitContext(ctx context.Context, name, mode string, properties []systemd.Property, done chan<- string) (int, error)
	AttachProcessesToUnit(ctx context.Context, unit, subcgroup string, pids []uint32) error
	SetUnitPropertiesContext(ctx context.Context, name string, runtime bool, properties ...systemd.Property) error
	GetAllPropertiesContext(ctx context.Context, unit string) (map[string]any, error)
	ListUnitsByPatternsContext(ctx context.Context, states, patterns []string) ([]systemd.UnitStatus, error)
	ResetFailedUnitContext(ctx context.Context, name string) error
	StopUnitContext(ctx context.Context, name, mode string, done chan<- string) (int, error)
	Connected() bool
	Close()
}

// Options configure the access to systemd and cgroups. The zero value is this machine.
type Options struct {
	// Connect connects to systemd. The connection ends with ctx.
	Connect func(ctx context.Context) (Conn, error)
	// Tree reads cgroups. Nil: this machine's.
	Tree *cgroup.Tree
}

// Units are the units of engines. Make them with Open.
type Units struct {
	connect func(ctx context.Context) (Conn, error)
	tree    *cgroup.Tree

	mu      sync.Mutex
	conn    Conn               // guarded by mu; nil: not connected
	cancel  context.CancelFunc // guarded by mu; of conn
	paths   map[string]string  // guarded by mu; known cgroups by unit
	unknown map[string]bool    // guarded by mu; properties that this systemd does not know
}

var _ cgroup.Driver = (*Units)(nil)

// Open connects to systemd. ErrNoSystemd: it does not run here.
func Open(ctx context.Context, o Options) (*Units, error) {
	if o.Connect == nil {
		o.Connect = Connect
		if _, err := os.Stat(booted); err != nil {
			return nil, ErrNoSystemd
		}
	}
	if o.Tree == nil {
		tree, err := cgroup.OpenTree(cgroup.TreeOptions{})
		if err != nil {
			return nil, fmt.Errorf("cgroups: %w", err)
		}
		o.Tree = tree
	}
	u := &Units{connect: o.Connect, tree: o.Tree, paths: make(map[string]string), unknown: make(map[string]bool)}
	if _, err := u.connected(ctx); err != nil {
		return nil, err
	}
	return u, nil
}

// Connect connects to systemd: as root through its private socket, which works before and without a
// D-Bus daemon, otherwise through the system bus.
func Connect(ctx context.Context) (Conn, error) {
	if os.Geteuid() == 0 {
		if _, err := os.Stat(private); err == nil {
			return systemd.NewSystemdConnectionContext(ctx) //nolint:wrapcheck // the caller says what it is
		}
	}
	return systemd.NewSystemConnectionContext(ctx) //nolint:wrapcheck // the caller says what it is
}

// connected returns a connection. It reconnects if needed: systemd closes its connections when a
// newer version replaces it.
func (u *Units) connected(ctx context.Context) (Conn, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.conn != nil && u.conn.Connected() {
		return u.conn, nil
	}
	u.dropLocked()
	// The connection outlives this call, but the call's end also ends the wait for it.
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	conn, err := u.connect(lasting)
	if err == nil && !stop() {
		conn.Close()
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("connecting to systemd: %w", err)
	}
	u.conn, u.cancel = conn, cancel
	return conn, nil
}

func (u *Units) dropLocked() {
	if u.conn != nil {
		u.conn.Close()
		u.cancel()
		u.conn, u.cancel = nil, nil
	}
}

// Name describes how cgroups are made.
func (u *Units) Name() string { return "systemd, units in " + Slice }

// Close closes the connection. Units stay.
func (u *Units) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.dropLocked()
	return nil
}

// call calls do with a connection. If the connection had just ended, it calls do once more with a
// new one.
func (u *Units) call(ctx context.Context, do func(Conn) error) error {
	for attempt := 0; ; attempt++ {
		conn, err := u.connected(ctx)
		if err != nil {
			return err
		}
		err = do(conn)
		if err == nil || attempt > 0 || conn.Connected() && !broken(err) {
			return err
		}
		u.mu.Lock()
		if u.conn == conn {
			u.dropLocked()
		}
		u.mu.Unlock()
	}
}

// broken reports whether an error is that of a connection that systemd has closed. A write may
// notice that before a read does.
func broken(err error) bool {
	return errors.Is(err, dbus.ErrClosed) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF)
}

// state is the state of a unit.
type state struct {
	name string
	// active is its ActiveState; "": systemd has no such unit.
	active string
	// result is "success", "oom-kill", "signal", …
	result string
	// cgroup is its path; "": it has none now.
	cgroup    string
	mainPID   uint32
	memoryMax uint64
}

func (s state) runs() bool { return s.active != "" && s.active != "inactive" && s.active != "failed" }

func (u *Units) state(ctx context.Context, name string) (state, error) {
	var properties map[string]any
	err := u.call(ctx, func(c Conn) (err error) {
		properties, err = c.GetAllPropertiesContext(ctx, name)
		return err //nolint:wrapcheck // below
	})
	if err != nil {
		return state{}, fmt.Errorf("unit %s: %w", name, err)
	}
	s := state{name: name, active: property[string](properties, "ActiveState"), result: property[string](properties, "Result")}
	if property[string](properties, "LoadState") == "not-found" {
		s.active = ""
	}
	s.cgroup, s.mainPID = property[string](properties, "ControlGroup"), property[uint32](properties, "MainPID")
	s.memoryMax = property[uint64](properties, "MemoryMax")
	if s.cgroup != "" {
		u.mu.Lock()
		u.paths[name] = s.cgroup
		u.mu.Unlock()
	}
	return s, nil
}

// property returns a property of a unit, or the zero value if there is none of that name and type.
func property[T any](properties map[string]any, name string) T {
	value, _ := properties[name].(T)
	return value
}

// find returns the unit of an engine: a running one, otherwise a failed one. ErrNone: there is
// none.
func (u *Units) find(ctx context.Context, id string) (state, error) {
	if err := cgroup.CheckID(id); err != nil {
		return state{}, fmt.Errorf("engine: %w", err)
	}
	var failed *state
	for _, name := range names(id) {
		s, err := u.state(ctx, name)
		if err != nil {
			return state{}, err
		}
		if s.runs() {
			return s, nil
		}
		if s.active == "failed" {
			failed = &s
		}
	}
	if failed != nil {
		return *failed, nil
	}
	return state{}, fmt.Errorf("engine %s: %w", id, cgroup.ErrNone)
}

func names(id string) []string { return []string{cgroup.ServiceName(id), cgroup.ScopeName(id)} }

// engineOf returns the engine of a unit; false: the unit is not Bursar's.
func engineOf(name string) (string, bool) {
	ext := path.Ext(name)
	id, ours := strings.CutPrefix(strings.TrimSuffix(name, ext), strings.TrimSuffix(cgroup.ServiceName(""), ".service"))
	if ours && (ext == ".service" || ext == ".scope") && cgroup.CheckID(id) == nil {
		return id, true
	}
	return "", false
}

// PathOf implements cgroup.Driver.
func (u *Units) PathOf(pid int32) (string, error) {
	return u.tree.PathOf(pid) //nolint:wrapcheck // it names the process
}

// Lost implements cgroup.Driver. A limit on the number of processes goes with the engine.
func (u *Units) Lost(pid int32) (string, error) {
	return u.tree.Lost(pid, slicePath, "pids.max") //nolint:wrapcheck // it names the process
}

// Find implements cgroup.Driver. The path of a failed unit is empty.
func (u *Units) Find(ctx context.Context) ([]cgroup.Found, error) {
	var units []systemd.UnitStatus
	err := u.call(ctx, func(c Conn) (err error) {
		units, err = c.ListUnitsByPatternsContext(ctx, nil, names("*"))
		return err //nolint:wrapcheck // below
	})
	if err != nil {
		return nil, fmt.Errorf("units of engines: %w", err)
	}
	var found []cgroup.Found
	for _, unit := range units {
		id, ours := engineOf(unit.Name)
		if !ours {
			continue
		}
		s, err := u.state(ctx, unit.Name)
		if err != nil {
			return nil, err
		}
		if s.active != "" && s.active != "inactive" {
			found = append(found, cgroup.Found{ID: id, Path: s.cgroup})
		}
	}
	return found, nil
}

// Guarded forwards to cgroup.Tree.
func (u *Units) Guarded(name string) bool { return u.tree.Guarded(name) }

// Freeze implements cgroup.Driver. systemd need not know of it, because it is short.
func (u *Units) Freeze(ctx context.Context, name string) (bool, error) {
	return u.tree.Freeze(ctx, name) //nolint:wrapcheck // it names the cgroup
}

// Thaw implements cgroup.Driver.
func (u *Units) Thaw(name string) error {
	return u.tree.Thaw(name) //nolint:wrapcheck // it names the cgroup
}

// Facts implements cgroup.Driver. For a failed unit, it returns systemd's knowledge of it, until
// Remove.
func (u *Units) Facts(ctx context.Context, id string) (cgroup.Facts, error) {
	if facts, err := u.facts(id); err == nil {
		return facts, nil
	}
	s, err := u.find(ctx, id)
	if err != nil {
		return cgroup.Facts{}, err
	}
	if s.runs() && s.cgroup != "" {
		if facts, err := u.tree.Facts(s.cgroup); err == nil || !errors.Is(err, cgroup.ErrNone) {
			return facts, err //nolint:wrapcheck // it names the cgroup
		}
	}
	facts := cgroup.Facts{Empty: !s.runs()}
	if s.result == "oom-kill" {
		// systemd does not say whose limit it was. If the unit has one, it was most likely that.
		facts.OOMKills, facts.AtLimit = 1, s.memoryMax != infinity
		if facts.AtLimit {
			facts.MemoryMax = int64(min(s.memoryMax, 1<<62))
		}
	}
	return facts, nil
}

// facts reads the cgroup without a call to systemd for every engine at every tick.
func (u *Units) facts(id string) (cgroup.Facts, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, name := range names(id) {
		if path := u.paths[name]; path != "" {
			return u.tree.Facts(path) //nolint:wrapcheck // it names the cgroup
		}
	}
	return cgroup.Facts{}, cgroup.ErrNone
}

// Set implements cgroup.Driver.
func (u *Units) Set(ctx context.Context, id string, limits cgroup.Limits) error {
	s, err := u.find(ctx, id)
	if err != nil {
		return err
	}
	return u.set(ctx, s, limits)
}

func (u *Units) set(ctx context.Context, s state, limits cgroup.Limits) error {
	if s.cgroup != "" {
		// systemd does not check that.
		if err := u.tree.Fits(s.cgroup, limits.MemoryMax); err != nil {
			return err //nolint:wrapcheck // it names the cgroup
		}
	}
	err := u.call(ctx, func(c Conn) error {
		return c.SetUnitPropertiesContext(ctx, s.name, true, limitProperties(limits)...) //nolint:wrapcheck // below
	})
	if err != nil {
		return fmt.Errorf("limits of unit %s: %w", s.name, err)
	}
	return nil
}

// Remove implements cgroup.Driver. systemd itself removes units whose last process has ended;
// failed ones stay until now, so that their result could be read.
func (u *Units) Remove(ctx context.Context, id string) error {
	if err := cgroup.CheckID(id); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	for _, name := range names(id) {
		s, err := u.state(ctx, name)
		if err != nil {
			return err
		}
		switch {
		case s.runs():
			err = u.removeEmpty(ctx, s)
		case s.active == "failed":
			err = u.forgetFailure(ctx, name)
		}
		if err != nil {
			return fmt.Errorf("unit %s: %w", name, err)
		}
		u.mu.Lock()
		at := u.paths[name]
		delete(u.paths, name)
		u.mu.Unlock()
		if at == "" {
			at = path.Join(slicePath, name)
		}
		if err := u.tree.RemoveFreezable(at); err != nil {
			return fmt.Errorf("unit %s: %w", name, err)
		}
	}
	return nil
}

// removeEmpty stops a unit that is empty without systemd's knowledge: with cgroups of version 1 in
// a container, the kernel may not notify systemd.
func (u *Units) removeEmpty(ctx context.Context, s state) error {
	facts, err := u.tree.Facts(s.cgroup)
	if err != nil || !facts.Empty || s.cgroup == "" || s.mainPID != 0 {
		return errors.Join(cgroup.ErrBusy, err)
	}
	return u.call(ctx, func(c Conn) error {
		_, err := c.StopUnitContext(ctx, s.name, "fail", nil)
		return err //nolint:wrapcheck // the caller names the unit
	})
}
