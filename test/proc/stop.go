package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// StopNewest simulates a user that stops each of its processes at once: until the end of the test,
// it sends SIGSTOP to the newest process of the machine. The kernel refuses that for the processes
// of other users. At the end it kills the user's remaining processes; so no account may have the
// uid. Only root can call it.
func StopNewest(tb testing.TB, uid uint32) {
	tb.Helper()
	if uid < 1000 {
		tb.Fatalf("stop the processes of user %d: want one that no account has", uid)
	}
	tb.Cleanup(func() { // after the script has ended
		folders, _ := filepath.Glob("/proc/[0-9]*")
		for _, folder := range folders {
			info, err := os.Stat(folder)
			if err != nil {
				continue // it has ended
			}
			stat, is := info.Sys().(*syscall.Stat_t)
			if pid, err := strconv.Atoi(filepath.Base(folder)); err == nil && pid > 1 && is && stat.Uid == uid {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			}
		}
	})
	const script = `my $uid = shift; die "another user" if $uid < 1000 or $< != $uid or $> != $uid;
while (getppid() > 1) { open(my $f, "<", "/proc/loadavg") or die; my $pid = (split " ", <$f>)[4]; kill("STOP", $pid) if $pid > 1 and $pid != $$ }`
	cmd := exec.Command("perl", "-e", script, strconv.Itoa(int(uid))) //nolint:noctx,gosec // StartGroup ends it
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	StartGroup(tb, cmd)
}
