package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/internal/cli/failure"
)

// A user of the machine prepares a folder in which root then runs a coordinator: no file of root's
// is overwritten through it, and the refusal names the field and the path.
func TestRootRunsNoCoordinatorInAnotherUsersFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test plays several users: it needs root")
	}
	precious := filepath.Join(t.TempDir(), "precious")
	writeConfig(t, precious, "precious\n")
	trap := t.TempDir()
	dir := filepath.Join(trap, "coordinator")
	for _, err := range []error{
		os.Mkdir(dir, 0o755), os.Symlink(precious, filepath.Join(dir, "bursar.db.lock")), os.Chown(trap, 4711, 4711), os.Chown(dir, 4711, 4711),
		os.Lchown(filepath.Join(dir, "bursar.db.lock"), 4711, 4711),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	coordinator := []string{"coordinator", "--listen", "127.0.0.1:0", "--data-dir", dir}
	starts := [][]string{
		coordinator, append(coordinator, "--check"),
		{"dev", "--data-dir", trap, "--agent-socket", filepath.Join(trap, "agent.sock"), "--listen", "127.0.0.1:0"},
	}
	wants := func(want string) {
		t.Helper()
		for _, args := range starts {
			wantFolderRefused(t, args, want)
			if text, err := os.ReadFile(precious); err != nil || string(text) != "precious\n" {
				t.Fatalf("%v: root's file holds %q, %v", args, text, err)
			}
		}
	}
	wants("--data-dir: " + dir + "/bursar.db.lock is a symbolic link")
	if err := os.Remove(filepath.Join(dir, "bursar.db.lock")); err != nil {
		t.Fatal(err)
	}
	wants(" is owned by uid 4711 and has mode 0")
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		t.Errorf("made %v, %v", list, err)
	}
}

// Who may not look into the folder can still check the rest of a configuration.
func TestCheckPassesAFolderThatItCannotLookInto(t *testing.T) {
	dir, _, alice, _ := tenantsOf(t)
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if out := alice.must("coordinator", "--check", "--listen", "127.0.0.1:0", "--data-dir", filepath.Join(dir, "data")); !strings.Contains(out, "fine") {
		t.Errorf("%s", out)
	}
}

func wantFolderRefused(t *testing.T, args []string, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, bursar(t), args...)
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != failure.ExitConfig || !strings.Contains(string(out), want) || !strings.Contains(string(out), "--data-dir: ") {
		t.Errorf("%v: code %d: %s: want %q", args, code, out, want)
	} else {
		t.Logf("%s", out)
	}
}
