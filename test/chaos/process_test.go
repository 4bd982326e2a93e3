package chaos

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bursar/bursar/test/proc"
)

// start starts a bursar that serves.
func start(t *testing.T, args ...string) *proc.Process {
	t.Helper()
	cmd := exec.Command(executable, args...)
	cmd.Env = proc.Environment()
	return proc.Start(t, cmd)
}

// freeze stops a process, and waits until each of its threads has: one that still runs may answer.
func freeze(t *testing.T, p *proc.Process) {
	t.Helper()
	p.Signal(syscall.SIGSTOP)
	eventually(t, upTime, p.Name+" stands still", func() error {
		// The pattern is right.
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.PID()))
		if len(threads) == 0 {
			return errors.New("it has no threads")
		}
		for _, thread := range threads {
			data, err := os.ReadFile(thread)
			if _, after, _ := strings.Cut(string(data), ") "); err == nil && !strings.HasPrefix(after, "T") {
				return fmt.Errorf("a thread runs: %s", data)
			}
		}
		return nil
	})
}

// commandTime bounds every command that must end by itself.
const commandTime = 60 * time.Second

// command runs bursar to its end. It may be called from any goroutine.
func command(t *testing.T, env []string, args ...string) proc.Result {
	t.Helper()
	return commandAs(t, nil, env, args...)
}

// commandAs does so as another user; nil: as this one.
func commandAs(t *testing.T, user *syscall.Credential, env []string, args ...string) proc.Result {
	t.Helper()
	return proc.Run(t, commandTime, func(cmd *exec.Cmd) {
		cmd.Env = proc.Environment(env...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	}, executable, args...)
}
