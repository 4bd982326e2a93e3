package statefile_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/bursar/bursar/agent/statefile"
)

const nobody = 65534

// as runs the rest of the test in a process of another user, until its input ends: outside it
// returns that process, which has written a line by then; inside it returns nil.
func as(t *testing.T, uid uint32, dir string) *exec.Cmd {
	t.Helper()
	if os.Getenv("BURSAR_TEST_AS") != "" {
		return nil
	}
	program := filepath.Join(dir, "test") // where every user can read it
	self, err := os.ReadFile("/proc/self/exe")
	if err := errors.Join(err, os.WriteFile(program, self, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env, cmd.Dir = append(os.Environ(), "BURSAR_TEST_AS="+dir), "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	return cmd
}

// public is a folder that every user gets into.
func public(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "state") //nolint:usetesting // t.TempDir is for its owner alone
	if err := errors.Join(err, os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestDirectoryThatOthersCanChangeIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"another's":       func(dir string) error { return os.Chown(dir, nobody, nobody) },
		"all's":           func(dir string) error { return os.Chmod(dir, 0o777) },
		"its lock":        func(dir string) error { return os.Chmod(filepath.Join(dir, "lock"), 0o666) },
		"its file":        func(dir string) error { return os.Chown(filepath.Join(dir, "state.json"), nobody, nobody) },
		"its log":         func(dir string) error { return os.WriteFile(filepath.Join(dir, "state-A.log"), nil, 0o600) },
		"its file's heir": func(dir string) error { return os.Symlink("/etc/passwd", filepath.Join(dir, "state.json.new")) },
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			dir := open(t, path)
			if err := errors.Join(dir.Save(with("a")), dir.Close(), spoil(path)); err != nil {
				t.Fatal(err)
			}
			switch name {
			case "its log":
				if err := os.Chown(filepath.Join(path, "state-A.log"), nobody, 0); err != nil {
					t.Fatal(err)
				}
			case "its file's heir":
				if err := os.Lchown(filepath.Join(path, "state.json.new"), nobody, nobody); err != nil {
					t.Fatal(err)
				}
			}
			var folder *statefile.FolderError
			if _, err := statefile.Open(path); !errors.As(err, &folder) || folder.Path != path || !strings.Contains(err.Error(), path) || !strings.Contains(folder.Want, "nobody else") {
				t.Errorf("%v", err)
			}
		})
	}
}

// An agent of an ordinary user uses its own directory and no other.
func TestOrdinaryUserHasADirectoryOfTheirOwn(t *testing.T) {
	dir := os.Getenv("BURSAR_TEST_AS")
	if dir == "" {
		dir = public(t)
		for name, owner := range map[string]int{"own": nobody, "roots": 0} {
			path := filepath.Join(dir, name)
			if err := errors.Join(os.Mkdir(path, 0o700), os.Chown(path, owner, owner), os.Chmod(path, 0o775)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if cmd := as(t, nobody, dir); cmd != nil {
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	open(t, filepath.Join(dir, "own"))
	var folder *statefile.FolderError
	if _, err := statefile.Open(filepath.Join(dir, "roots")); !errors.As(err, &folder) {
		t.Errorf("%v", err)
	}
}

var lockNames = regexp.MustCompile(`@bursar-agent-state-[0-9a-f]+`)

// namesTaken returns the names of all locks in this network namespace.
func namesTaken(t *testing.T) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	for _, name := range lockNames.FindAllString(string(read(t, "/proc/net/unix")), -1) {
		names[name] = true
	}
	return names
}

// The name of a directory locks it if its lock file was removed. Another user who takes the name
// first does not lock the agent out.
func TestNameOfADirectoryIsALockForItsUserAlone(t *testing.T) {
	if dir := os.Getenv("BURSAR_TEST_AS"); dir != "" {
		name := strings.TrimSpace(string(read(t, filepath.Join(dir, "name"))))
		listener, err := net.Listen("unix", name)
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		_, _ = os.Stdout.WriteString("taken\n")
		_, _ = os.Stdin.Read(make([]byte, 1))
		return
	}
	dir := public(t)
	path := filepath.Join(dir, "state")
	before := namesTaken(t)
	first := open(t, path)
	name := ""
	for taken := range namesTaken(t) {
		if !before[taken] {
			name = taken
		}
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	var inUse *statefile.InUseError
	if _, err := statefile.Open(path); !errors.As(err, &inUse) {
		t.Errorf("a second one, with a new lock: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	rewrite(t, filepath.Join(dir, "name"), []byte(name))
	if err := os.Chmod(filepath.Join(dir, "name"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := as(t, nobody, dir)
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	for line := make([]byte, 0, 256); !strings.Contains(string(line), "taken\n"); {
		more := make([]byte, 64)
		n, err := out.Read(more)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		line = append(line, more[:n]...)
	}
	open(t, path)
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Error(err)
	}
}

// Connections to the lock on the name do not pile up until it cannot be asked any more.
func TestConnectionsDoNotTakeTheLockOfAName(t *testing.T) {
	path, before := filepath.Join(t.TempDir(), "state"), namesTaken(t)
	open(t, path)
	name := ""
	for taken := range namesTaken(t) {
		if !before[taken] {
			name = taken
		}
	}
	var held []net.Conn
	defer func() {
		for _, conn := range held {
			_ = conn.Close()
		}
	}()
	for range 6000 {
		conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: name, Net: "unix"})
		if err != nil {
			break
		}
		held = append(held, conn)
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	var inUse *statefile.InUseError
	if other, err := statefile.Open(path); !errors.As(err, &inUse) {
		t.Errorf("%v, %v: want to hear that it is in use", other, err)
	}
}
