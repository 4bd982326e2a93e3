package systemd

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bursar/bursar/test/proc"
)

// Kind is the type of a machine.
type Kind string

// The package comment describes both.
const (
	Container Kind = "container"
	Virtual   Kind = "virtual"
)

// Options configure a machine.
type Options struct {
	Kind Kind
	// Files maps names in /opt/test to files of this machine. Programs stay executable.
	Files map[string]string
	// MemoryMiB is the memory of a virtual machine; default 1536.
	MemoryMiB int
}

// bootTime limits a boot: without hardware support a virtual machine takes about ten seconds, and
// twice that on busy cores.
const bootTime = 90 * time.Second

//nolint:gochecknoglobals // a flag is one
var keep = flag.Bool("systemd.keep", false, "keep the machines of a test until it is interrupted, and say how to enter them")

// backend is the part that differs between the kinds.
type backend interface {
	// prepare is called once files and socket are in the machine's folder; it returns the command
	// that boots it.
	prepare(m *Machine) (*exec.Cmd, error)
	// booted is called after the machine's first hello.
	booted(ctx context.Context, m *Machine) error
	// enter returns the command to enter the machine.
	enter(m *Machine) string
}

// Machine is a Debian with its own systemd.
type Machine struct {
	kind     backend
	options  Options
	folder   string // of this machine: the content of /opt/test, its console, its socket
	cgroups  []string
	process  *exec.Cmd
	ended    chan struct{} // closed when the process has ended
	channel  *channel
	guardian *proc.Guardian
}

// Start boots a machine for the length of a test.
func Start(tb testing.TB, options Options) *Machine {
	tb.Helper()
	started := time.Now()
	m, err := boot(tb.Context(), options)
	if err != nil {
		tb.Fatalf("a %s did not boot: %v", options.Kind, err)
	}
	tb.Cleanup(func() {
		if *keep {
			m.show(tb)
		}
		if tb.Failed() {
			tb.Logf("console of the %s:\n%s", options.Kind, m.console())
		}
		if err := m.close(); err != nil {
			tb.Error(err)
		}
	})
	tb.Logf("a %s booted in %s", options.Kind, time.Since(started).Round(100*time.Millisecond))
	return m
}

func boot(ctx context.Context, options Options) (_ *Machine, err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("booting a machine takes root")
	}
	place, err := installed()
	if err != nil {
		return nil, err
	}
	m := &Machine{options: options, ended: make(chan struct{})}
	switch options.Kind {
	case Container:
		m.kind = &container{tree: filepath.Join(place, "tree")}
	case Virtual:
		m.kind = &virtual{image: filepath.Join(place, "image"), kernel: filepath.Join(place, "kernel")}
	default:
		return nil, fmt.Errorf("no machine is a %q", options.Kind)
	}
	// Not the test's own folder: the path of a socket must be short.
	if m.folder, err = os.MkdirTemp("", "machine-"); err != nil {
		return nil, err
	}
	if m.cgroups, err = makeCgroups(filepath.Base(m.folder)); err == nil {
		m.guardian, err = guard(m.folder, m.cgroups)
	}
	if err != nil {
		return nil, errors.Join(err, removeCgroups(m.cgroups), os.RemoveAll(m.folder))
	}
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	if err := m.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%w; console:\n%s", err, m.console()), m.close())
	}
	return m, nil
}

func (m *Machine) start(ctx context.Context) error {
	if err := m.share(ctx); err != nil {
		return err
	}
	listener, err := net.Listen("unix", m.path("share/channel")) //nolint:noctx // it answers at once
	if err != nil {
		return err
	}
	m.channel = listen(listener.(*net.UnixListener)) //nolint:errcheck // "unix" gives no other
	command, err := m.kind.prepare(m)
	if err != nil {
		return err
	}
	if m.process, err = startIn(m.cgroups, command, m.path("console")); err != nil {
		return err
	}
	go func() {
		_ = m.process.Wait()
		close(m.ended)
	}()
	if err := m.awaitHello(ctx, ""); err != nil {
		return err
	}
	return m.kind.booted(ctx, m)
}

// share makes the folder for the machine's /opt/test.
func (m *Machine) share(ctx context.Context) error {
	if err := os.MkdirAll(m.path("share"), 0o755); err != nil { //nolint:gosec // users of the machine run programs in it
		return err
	}
	inside := m.path("share/inside")
	if err := (proc.Build{Into: inside, Packages: []string{"./test/systemd/inside"}}).Run(ctx); err != nil {
		return err
	}
	for name, from := range m.options.Files {
		if err := copyFile(m.path("share/"+name), from); err != nil {
			return err
		}
	}
	return nil
}

// awaitHello waits until the machine has said hello with another boot id.
func (m *Machine) awaitHello(ctx context.Context, unlike string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-m.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := m.channel.awaitHello(ctx, unlike); err != nil {
		select {
		case <-m.ended:
			return fmt.Errorf("it ended: %s", m.process.ProcessState)
		default:
			return fmt.Errorf("it did not come up: %w", err)
		}
	}
	return nil
}

// Reboot reboots a virtual machine like an operator, and waits until it is up again.
func (m *Machine) Reboot(tb testing.TB) {
	tb.Helper()
	m.again(tb, "systemctl", "reboot")
}

// Reset restarts a virtual machine's kernel at once, without notice to any process: unwritten data
// is lost.
func (m *Machine) Reset(tb testing.TB) {
	tb.Helper()
	m.again(tb, "sh", "-c", "echo 1 >/proc/sys/kernel/sysrq; echo b >/proc/sysrq-trigger")
}

func (m *Machine) again(tb testing.TB, command ...string) {
	tb.Helper()
	if m.options.Kind != Virtual {
		tb.Fatalf("a %s does not reboot", m.options.Kind)
	}
	before := m.channel.boot()
	ctx, cancel := context.WithTimeout(tb.Context(), bootTime)
	defer cancel()
	go func() { _, _ = m.Run(ctx, Command{Arguments: command}) }() // it may not live to answer
	if err := m.awaitHello(ctx, before); err != nil {
		tb.Fatalf("reboot: %v\n%s", err, m.console())
	}
}

func (m *Machine) path(name string) string { return filepath.Join(m.folder, name) }

// console returns the end of the machine's console output.
func (m *Machine) console() string {
	content, err := os.ReadFile(m.path("console"))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}

// show keeps the machine until the test is interrupted.
func (m *Machine) show(tb testing.TB) {
	tb.Helper()
	interrupt := make(chan os.Signal, 1)
	signal.Notify(interrupt, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(interrupt)
	fmt.Fprintf(os.Stderr, "%s: its %s is kept until ^C. To enter it:\n\t%s\n", tb.Name(), m.options.Kind, m.kind.enter(m))
	select {
	case <-interrupt:
	case <-m.ended:
	}
}

// close ends the machine and waits until all of it is removed.
func (m *Machine) close() error {
	var errs []error
	if m.channel != nil {
		errs = append(errs, m.channel.close())
	}
	errs = append(errs, m.guardian.Dismiss())
	if m.process != nil {
		<-m.ended
	}
	return errors.Join(errs...)
}
