package keeper_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// An agent that was started from root's login has that session's keyring. A process
// that inherits it has its keys, as any user.
func TestEngineDoesNotHaveTheKeysOfWhoStartedTheAgent(t *testing.T) {
	runtime.LockOSThread() // and never unlocked: the keyring goes with the thread
	const secret = "bursar-test-secret"
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != nil {
		t.Log("this machine lets nobody have keys:", err)
	} else if _, err := unix.AddKey("user", secret, []byte("x"), unix.KEY_SPEC_SESSION_KEYRING); err != nil {
		t.Fatal(err)
	}
	spec := shell(t, "cat /proc/keys || true")
	k := begin(t, spec)
	k.confirm()
	k.end()
	out, err := os.ReadFile(filepath.Join(spec.Log.Directory, "stdout"))
	if err != nil || strings.Contains(string(out), secret) {
		t.Errorf("%s, %v", out, err)
	}
}
