package socket

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// underUmask calls f with another umask, which applies to the whole process.
func underUmask(umask int, f func() error) error {
	before := syscall.Umask(umask)
	defer syscall.Umask(before)
	return f()
}

func TestEveryUserGetsToTheSocketWhateverTheUmask(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "run", "bursar", "agent.sock")
	err := underUmask(0o077, func() error {
		listener, err := listenUnix(t.Context(), path, 0o666, "", refuse)
		if err == nil {
			t.Cleanup(func() { _ = listener.Close() })
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{"run": 0o755, "run/bursar": 0o755, "run/bursar/agent.sock": 0o666} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has %v, want %04o; %v", name, info.Mode(), want, err)
		}
	}
}

// A socket is not open to all users before its mode is set, not even if the process has no umask.
func TestANewSocketIsItsOwnersUntilItsModeIsSet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	err := underUmask(0, func() error {
		listener, err := listenClosed(t.Context(), path)
		if err == nil {
			t.Cleanup(func() { _ = listener.Close() })
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: want 0600", info.Mode(), err)
	}
}
