package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// asAnother is this program's argument to run a command as user 2.
const asAnother = "-run-as-another"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == asAnother {
		c := shell("id -u; grep -E '^Cap(Prm|Eff|Amb):' /proc/self/status; sleep 3600 & exit 0")
		c.Credential = &syscall.Credential{Uid: 2, Gid: 2}
		printed, err := c.Run(context.Background())
		fmt.Fprintf(os.Stdout, "%s%v", printed.Output, err)
		return
	}
	os.Exit(m.Run())
}

// A process that is not root may become another user if it has the capabilities for that. The
// command must not get them.
func TestACommandDoesNotInheritCapabilities(t *testing.T) {
	dir, err := os.MkdirTemp("", "command") //nolint:usetesting // user 1 must be able to enter all folders above it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program := filepath.Join(dir, "program")
	copyProgram(t, program)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(within(t), program, asAnother)
	run.Dir = "/"
	run.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: 1, Gid: 1}, AmbientCaps: []uintptr{unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_KILL},
	}
	got, err := run.CombinedOutput()
	const none = "\t0000000000000000\n"
	if want := "2\nCapPrm:" + none + "CapEff:" + none + "CapAmb:" + none + "<nil>"; err != nil || string(got) != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

// copyProgram makes a copy of this program that everybody may run.
func copyProgram(t *testing.T, to string) {
	t.Helper()
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	into, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(into, from); err != nil {
		t.Fatal(err)
	}
	if err := into.Close(); err != nil {
		t.Fatal(err)
	}
}
