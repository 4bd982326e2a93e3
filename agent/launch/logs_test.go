package launch

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/internal/osuser"
)

const asAgent = "BURSAR_TEST_LOGS_OF"

// beAgent makes the same folder for logs twice.
func beAgent() int {
	user := osuser.User{UID: 65534, GID: 65534}
	for range 2 {
		if _, err := makeLogs(os.Getenv(asAgent), "a1", user); err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			return 1
		}
	}
	return 0
}

// A launch that was refused is tried again by an agent whose unit leaves root no more capabilities
// than these.
func TestFolderForLogsIsMadeAgain(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	made := filepath.Join(dir, "a1") // as agents of older versions have made it
	if err := os.Mkdir(made, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(made, 0o750), os.Chown(made, 65534, 65534)); os.Geteuid() == 0 && err != nil {
		t.Fatal(err)
	}
	args := []string{self}
	if os.Geteuid() == 0 {
		args = append([]string{"setpriv", "--bounding-set", "-all,+chown,+dac_read_search,+kill,+sys_ptrace,+syslog"}, args...)
	}
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = []string{asAgent + "=" + dir, "PATH=/usr/bin:/bin"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	info, err := os.Stat(filepath.Join(dir, "a1"))
	if err != nil {
		t.Fatal(err)
	}
	stat, _ := info.Sys().(*syscall.Stat_t)
	if os.Geteuid() == 0 && (stat.Uid != 65534 || stat.Gid != 65534) || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, of %d:%d", info.Mode(), stat.Uid, stat.Gid)
	}
}

// A folder that is another user's by now is not given to the engine's user: what lies in it would
// seem to be theirs.
func TestFolderForLogsOfAnotherUserIsNotGivenAway(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test plays several users: it needs root")
	}
	dir := t.TempDir()
	if _, err := makeLogs(dir, "a1", osuser.User{UID: 4711, GID: 4711}); err != nil {
		t.Fatal(err)
	}
	if _, err := makeLogs(dir, "a1", osuser.User{UID: 4712, GID: 4712}); err == nil {
		t.Error("it was")
	}
	var stat unix.Stat_t
	if err := unix.Stat(filepath.Join(dir, "a1"), &stat); err != nil || stat.Uid != 4711 {
		t.Errorf("of %d, %v", stat.Uid, err)
	}
}

// Users get to the folders of their engines' logs, also below one that the agent has made.
func TestUsersGetToTheirLogsWhateverTheUmask(t *testing.T) {
	dir := t.TempDir()
	before := syscall.Umask(0o077)
	path, err := makeLogs(filepath.Join(dir, "log", "engines"), "a1", osuser.User{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())})
	syscall.Umask(before)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{path: 0o700, filepath.Dir(path): 0o755, filepath.Join(dir, "log"): 0o755} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has %v, want %04o; %v", path, info.Mode(), want, err)
		}
	}
}
