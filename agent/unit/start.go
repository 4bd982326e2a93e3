package unit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/internal/pause"
)

const (
	// infinity is systemd's value for "no limit".
	infinity = math.MaxUint64
	// stopTimeout is how long an engine has between SIGTERM and SIGKILL when systemd stops it: at
	// the shutdown of the machine, or by systemctl.
	stopTimeout = 30 * time.Second
	// adoptRounds is how often a process tree is read again. An engine that forks all the time
	// needs two or three rounds.
	adoptRounds = 50
	// A unit whose program has ended, or is ending, stays for some milliseconds. The start of
	// another unit of that name waits for its end, but not for long: the user can make it stay.
	goneInterval = 50 * time.Millisecond
	goneRounds   = 40
)

// Service is a program for a unit of its own: an engine's keeper.
type Service struct {
	// ID is the allocation's id.
	ID string
	// Command is the program, an absolute path, and its arguments.
	Command []string
	// UID, GID and Groups are its account. There is no look-up.
	UID, GID uint32
	Groups   []uint32
	// Environment is the complete environment, as KEY=value; some versions of systemd add
	// SYSTEMD_EXEC_PID.
	Environment []string
	Umask       uint32
	// Stdin, Stdout and Stderr are its descriptors 0, 1 and 2. The caller must close them.
	Stdin, Stdout, Stderr *os.File
	Limits                cgroup.Limits
}

// Started is a running service.
type Started struct {
	// PID is the pid of its first process.
	PID int32
	// Cgroup is its path, as in Driver.Adopt.
	Cgroup string
}

// ErrNotStarted says that systemd could not start a unit, and will not: the caller may try another
// way. Faults that the program's user can cause do not have it: the program ends at once, or an
// earlier unit of its name still exists.
var ErrNotStarted = errors.New("not started")

// Names of systemd's errors.
const (
	unitExists = "org.freedesktop.systemd1.UnitExists"
	noSuchUnit = "org.freedesktop.systemd1.NoSuchUnit"
)

// Start starts a service and returns when its program runs. If the error is ErrNotStarted, nothing
// runs; after another error, that is unknown.
func (u *Units) Start(ctx context.Context, s Service) (Started, error) {
	if err := cgroup.CheckID(s.ID); err != nil {
		return Started{}, fmt.Errorf("engine: %w", err)
	}
	name := cgroup.ServiceName(s.ID)
	if err := u.start(ctx, name, serviceProperties(s)); err != nil {
		return Started{}, err
	}
	found, err := u.state(ctx, name)
	if err != nil {
		return Started{}, err
	}
	if found.mainPID == 0 {
		return Started{}, fmt.Errorf("unit %s: its program has ended at once (%s)", name, found.result)
	}
	started := Started{PID: int32(found.mainPID)} //nolint:gosec // a pid
	if started.Cgroup = u.measured(found.cgroup, started.PID); started.Cgroup != "" {
		// Without it the engine is stopped like one without a cgroup of its own.
		_, _ = u.tree.MakeFreezable(started.Cgroup, []cgroup.Member{{PID: started.PID}})
	}
	return started, nil
}

// measured returns the path of a unit's cgroup if memory is accounted for there, otherwise "".
func (u *Units) measured(name string, pid int32) string {
	if at, err := u.tree.PathOf(pid); err == nil && at == name {
		return name
	}
	return ""
}

// Adopt implements cgroup.Driver. It makes a scope.
func (u *Units) Adopt(ctx context.Context, id string, limits cgroup.Limits, members cgroup.Members) (string, error) {
	list, err := members()
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "", fmt.Errorf("engine %s has ended: %w", id, cgroup.ErrNone)
	}
	found, err := u.find(ctx, id)
	var limitErr error
	switch {
	case errors.Is(err, cgroup.ErrNone) || err == nil && !found.runs():
		if found, err = u.makeScope(ctx, id, limits, list); err != nil {
			return "", err
		}
	case err != nil:
		return "", err
	default:
		limitErr = u.set(ctx, found, limits)
	}
	inside, err := u.attach(ctx, found, members)
	if err != nil {
		return "", errors.Join(err, limitErr)
	}
	return u.measured(found.cgroup, inside), limitErr
}

// makeScope makes a scope with one of the processes: systemd refuses a whole list if one of them
// has ended.
func (u *Units) makeScope(ctx context.Context, id string, limits cgroup.Limits, members []cgroup.Member) (state, error) {
	name := cgroup.ScopeName(id)
	err := fmt.Errorf("engine %s has ended: %w", id, cgroup.ErrNone)
	for _, m := range members {
		if !u.tree.Still(m) {
			continue
		}
		var tasks int64
		if tasks, err = u.tree.Tasks(m.PID, slicePath); err != nil && !errors.Is(err, cgroup.ErrNone) {
			return state{}, err //nolint:wrapcheck // it says what it is about
		}
		if err = u.start(ctx, name, scopeProperties(id, limits, m.PID, tasks)); err == nil || u.runs(m.PID) {
			break
		}
	}
	if err != nil {
		return state{}, err
	}
	found, err := u.state(ctx, name)
	if err == nil && found.cgroup == "" {
		return state{}, fmt.Errorf("unit %s: %s, without a cgroup: %w", name, found.active, cgroup.ErrNone)
	}
	return found, err
}

// attach moves the processes that have started since the scope was made, and checks again until
// none is outside. It returns a process inside.
func (u *Units) attach(ctx context.Context, s state, members cgroup.Members) (int32, error) {
	attached, freezable := make(map[cgroup.Member]bool), make(map[cgroup.Member]bool)
	for range adoptRounds {
		list, err := members()
		if err != nil {
			return 0, err
		}
		// After an error the engine is stopped like one without a cgroup of its own.
		again, _ := u.tree.MakeFreezable(s.cgroup, slices.DeleteFunc(slices.Clone(list), func(m cgroup.Member) bool { return freezable[m] }))
		for _, m := range again {
			freezable[m] = true
		}
		outside, err := u.outside(s, list)
		if err != nil {
			return 0, err
		}
		// A process that was moved before and is still outside has ended, and its parent has not
		// waited for it yet.
		outside = slices.DeleteFunc(outside, func(m cgroup.Member) bool { return attached[m] })
		if len(outside) == 0 && len(again) == 0 {
			if len(list) == 0 {
				return 0, fmt.Errorf("unit %s: the engine has ended: %w", s.name, cgroup.ErrNone)
			}
			return list[0].PID, nil
		}
		for _, m := range outside {
			pid := m.PID
			attached[m] = true
			if !u.tree.Still(m) {
				continue // it has ended, and another process may have its pid
			}
			// One at a time: if one has ended, systemd refuses the whole list.
			err := u.call(ctx, func(c Conn) error {
				return c.AttachProcessesToUnit(ctx, s.name, "/", []uint32{uint32(pid)}) //nolint:gosec,wrapcheck // a pid; below
			})
			if err != nil && u.runs(pid) {
				return 0, fmt.Errorf("moving process %d to unit %s: %w", pid, s.name, err)
			}
		}
	}
	return 0, fmt.Errorf("unit %s: the engine starts processes faster than they can be moved", s.name)
}

func (u *Units) runs(pid int32) bool {
	_, err := u.tree.PathOf(pid)
	return err == nil
}

// outside returns the processes that are not in the unit's cgroup.
func (u *Units) outside(s state, members []cgroup.Member) ([]cgroup.Member, error) {
	outside, err := u.tree.Outsiders(s.cgroup, members)
	if errors.Is(err, cgroup.ErrNone) {
		return nil, nil // it is not visible; systemd has said that it has moved them
	}
	return outside, err //nolint:wrapcheck // it names the cgroup
}

// start starts a transient unit and waits for the result. It omits properties that an older systemd
// does not know.
func (u *Units) start(ctx context.Context, name string, properties []systemd.Property) error {
	// A failed unit of this name is in the way.
	if before, err := u.state(ctx, name); err == nil && before.active == "failed" {
		if err := u.forgetFailure(ctx, name); err != nil {
			return fmt.Errorf("unit %s: %w", name, err)
		}
	}
	for round := 0; ; round++ {
		known := u.known(properties)
		done := make(chan string, 1)
		err := u.call(ctx, func(c Conn) error {
			_, err := c.StartTransientUnitContext(ctx, name, "fail", known, done)
			return err //nolint:wrapcheck // below
		})
		if refused := refusedProperty(err, known); refused != "" {
			u.mu.Lock()
			u.unknown[refused] = true
			u.mu.Unlock()
			continue
		}
		refusal, refused := errors.AsType[dbus.Error](err)
		if refused && refusal.Name != unitExists {
			err = errors.Join(ErrNotStarted, err)
		} else if refused && round < goneRounds && u.ending(ctx, name) {
			continue
		}
		if err != nil {
			return fmt.Errorf("unit %s: %w", name, err)
		}
		return u.wait(ctx, name, done)
	}
}

// forgetFailure lets systemd forget a failed unit, unless it has forgotten it by itself.
func (u *Units) forgetFailure(ctx context.Context, name string) error {
	err := u.call(ctx, func(c Conn) error { return c.ResetFailedUnitContext(ctx, name) }) //nolint:wrapcheck // its callers name the unit
	if refusal, refused := errors.AsType[dbus.Error](err); refused && refusal.Name == noSuchUnit {
		return nil
	}
	return err
}

// ending waits a moment for the end of an existing unit. It reports whether the unit may have
// ended. A keeper that has reported why it starts no engine exists until it has ended.
func (u *Units) ending(ctx context.Context, name string) bool {
	s, err := u.state(ctx, name)
	if err == nil && s.active == "failed" {
		err = u.forgetFailure(ctx, name)
	}
	if err != nil {
		return false
	}
	return pause.For(goneInterval, ctx.Done(), nil)
}

func (u *Units) wait(ctx context.Context, name string, done <-chan string) error {
	select {
	case result := <-done:
		if result == "done" {
			return nil
		}
		s, err := u.state(ctx, name)
		if s.result == "signal" || s.result == "core-dump" {
			return errors.Join(fmt.Errorf("unit %s: its program was killed at once", name), err)
		}
		return errors.Join(fmt.Errorf("unit %s: %s (%s): %w", name, result, s.result, ErrNotStarted), err)
	case <-ctx.Done():
		return fmt.Errorf("unit %s: %w", name, ctx.Err())
	}
}

// known omits properties that this systemd has refused before.
func (u *Units) known(properties []systemd.Property) []systemd.Property {
	u.mu.Lock()
	defer u.mu.Unlock()
	var known []systemd.Property
	for _, p := range properties {
		if !u.unknown[p.Name] {
			known = append(known, p)
		}
	}
	return known
}

// refusedProperty returns the optional property because of which systemd refused the unit; empty:
// none.
func refusedProperty(err error, properties []systemd.Property) string {
	refusal, ok := errors.AsType[dbus.Error](err)
	if !ok || refusal.Name != "org.freedesktop.DBus.Error.PropertyReadOnly" && refusal.Name != "org.freedesktop.DBus.Error.UnknownProperty" {
		return ""
	}
	for _, p := range properties {
		if optional(p.Name) && strings.Contains(refusal.Error(), p.Name) {
			return p.Name
		}
	}
	return ""
}

// optional reports whether a property came after version 240 of systemd: OOMPolicy with 243 for
// services and 253 for scopes. Earlier versions did not need it: they did not end a unit in which
// the kernel has killed one process.
func optional(name string) bool { return name == "OOMPolicy" }

func value(name string, v any) systemd.Property {
	return systemd.Property{Name: name, Value: dbus.MakeVariant(v)}
}

// common returns the properties of every unit of an engine.
func common(id string, limits cgroup.Limits, tasks uint64) []systemd.Property {
	return append([]systemd.Property{
		systemd.PropDescription("Engine " + id + " of Bursar"),
		systemd.PropSlice(Slice),
		value("MemoryAccounting", true),
		value("CPUAccounting", true),
		// systemd has a default for the number of tasks, which must not apply to engines.
		value("TasksMax", tasks),
		// If the kernel kills one process of an engine, the others go on.
		value("OOMPolicy", "continue"),
		value("TimeoutStopUSec", uint64(stopTimeout/time.Microsecond)),
	}, limitProperties(limits)...)
}

// scopeProperties are those of a scope for an engine with at most so many tasks; 0: no limit.
func scopeProperties(id string, limits cgroup.Limits, pid int32, tasks int64) []systemd.Property {
	most := uint64(infinity)
	if tasks > 0 {
		most = uint64(tasks)
	}
	return append(common(id, limits, most),
		systemd.PropPids(uint32(pid)), //nolint:gosec // a pid
		// Without it, no other process can be moved there.
		value("Delegate", true))
}

func serviceProperties(s Service) []systemd.Property {
	groups := make([]string, len(s.Groups))
	for i, group := range s.Groups {
		groups[i] = strconv.FormatUint(uint64(group), 10)
	}
	return append(common(s.ID, s.Limits, infinity),
		systemd.PropExecStart(s.Command, false),
		// The unit counts as started when the program runs, so that a program that cannot be run is
		// an error here.
		value("Type", "exec"),
		value("User", strconv.FormatUint(uint64(s.UID), 10)),
		value("Group", strconv.FormatUint(uint64(s.GID), 10)),
		value("SupplementaryGroups", groups),
		value("WorkingDirectory", "/"),
		value("UMask", s.Umask),
		value("Environment", s.Environment),
		value("UnsetEnvironment", []string{"LANG", "HOME", "LOGNAME", "USER", "SHELL", "INVOCATION_ID", "JOURNAL_STREAM", "SYSTEMD_EXEC_PID"}),
		value("StandardInputFileDescriptor", dbus.UnixFD(s.Stdin.Fd())),   //nolint:gosec // a descriptor
		value("StandardOutputFileDescriptor", dbus.UnixFD(s.Stdout.Fd())), //nolint:gosec // a descriptor
		value("StandardErrorFileDescriptor", dbus.UnixFD(s.Stderr.Fd())),  //nolint:gosec // a descriptor
		// A keeper ignores SIGTERM: at the shutdown of the machine the engine itself must get it.
		value("KillMode", "control-group"),
	)
}

// limitProperties returns all limits. It also names unlimited resources, because they may have been
// limited before.
func limitProperties(limits cgroup.Limits) []systemd.Property {
	most, swap, quota := uint64(infinity), uint64(infinity), uint64(infinity)
	if limits.MemoryMax > 0 {
		most, swap = uint64(limits.MemoryMax), 0
	}
	if limits.CPUMillis > 0 {
		quota = uint64(limits.CPUMillis) * 1000 // microseconds a second
	}
	return []systemd.Property{
		value("MemoryMax", most), value("MemorySwapMax", swap), value("CPUQuotaPerSecUSec", quota), value("CPUWeight", uint64(limits.Weight())), //nolint:gosec // bounded
	}
}
