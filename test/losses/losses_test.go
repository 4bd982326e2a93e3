// Package losses shows what happens to engines and the ledger when something is lost. It runs the
// shipped programs bursar and bursar-keeper, a coordinator on SQLite, an agent, and real processes
// as engines, each started in all three ways: by `bursar run --detach`, by `bursar run`, and by a
// launcher that confirms its pid. Agents are killed and upgraded, coordinators are away or put
// back, pids are reused, hosts boot, state files are damaged, disks fill up, and engines take more
// memory than they may have.
//
// Other packages test the rest. agent, with a simulated coordinator, has every field of the state
// file of every kind, clocks that were set between two agents and while one runs (synctest), and
// each refusal. test/systemd has real boots and a clock that is really set, in a virtual machine,
// the watchdog, sockets that stay, and upgrades of packages. test/ha has lost leaders, PostgreSQL
// that is put back, and agents of an older version. test/chaos kills `bursar dev` under load, and
// has engines that touch memory slowly. A clock cannot be set for one process: a program without a
// libc cannot be preloaded, and time namespaces do not change the time of day.
//
// Tests need root: they make namespaces and cgroups. No test sleeps; each waits for a condition,
// for long if the machine is busy. "Right within two heartbeats" means heartbeats that were
// answered, not seconds.
package losses

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/test/proc"
)

const (
	// insideVariable names the test for which this process has namespaces of its own.
	insideVariable = "BURSAR_LOSSES_INSIDE"
	// programsVariable is the folder with its programs.
	programsVariable = "BURSAR_LOSSES_PROGRAMS"
	// insideTime bounds a test in there.
	insideTime = 4 * time.Minute
)

// programs is the folder of bursar and bursar-keeper; a folder next to them has the next version.
// TestMain sets it.
var programs string

// The versions that were built.
const (
	version = "v1.0.0-losses"
	next    = "v1.1.0-losses"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(engineVariable); path != "" {
		os.Exit(playEngine(path))
	}
	if port := os.Getenv(listenVariable); port != "" {
		os.Exit(listen(port))
	}
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "losses: want root: namespaces and cgroups are made here")
		os.Exit(1)
	}
	if programs = os.Getenv(programsVariable); programs != "" {
		if err := settle(); err != nil {
			fmt.Fprintln(os.Stderr, "losses:", err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	os.Exit(run(m))
}

// run builds the programs and runs the tests.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "losses")
	if err != nil {
		fmt.Fprintln(os.Stderr, "losses:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	programs = dir
	for _, build := range []struct{ into, version string }{{dir, version}, {filepath.Join(dir, "next"), next}} {
		err := proc.Build{
			Into: build.into + "/", Packages: []string{"./cmd/bursar", "./cmd/bursar-keeper"},
			Flags: []string{"-ldflags", "-s -w -X main.version=" + build.version},
		}.Run(context.Background())
		if err == nil { // as packages install it: users execute it, and cannot read it
			err = os.Chmod(filepath.Join(build.into, "bursar-keeper"), 0o711)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "losses:", err)
			return 1
		}
	}
	return m.Run()
}

// isolated runs the rest of the test in a process with namespaces of its own, by flags. Outside of
// it, it returns false, and the test is done. All mounts in there go with it.
func isolated(t *testing.T, flags uintptr) bool {
	t.Helper()
	if os.Getenv(insideVariable) == t.Name() {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout="+insideTime.String())
	cmd.Env = append(os.Environ(), insideVariable+"="+t.Name(), programsVariable+"="+programs)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("in its own namespaces: %v\n%s", err, out)
	} else {
		t.Logf("in its own namespaces:\n%s", out)
	}
	return false
}

// settle keeps the mounts in here to this namespace. In a pid namespace the process table is that
// of the namespace.
func settle() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if os.Getpid() != 1 {
		return nil
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

const (
	pollEvery = 20 * time.Millisecond
	// patience is how long anything may take on a busy machine.
	patience = 60 * time.Second
)

// eventually repeats check until it finds no fault.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	proc.Eventually(t, patience, pollEvery, what, check)
}

// always repeats check for that long, and fails at the first fault.
func always(t *testing.T, during time.Duration, what string, check func() error) {
	t.Helper()
	proc.Always(t, during, pollEvery, what, check)
}
