package losses

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/bursar/bursar/test/proc"
)

// start starts a program that goes on until it is ended.
func start(t *testing.T, env []string, program string, args ...string) *proc.Process {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = proc.Environment(env...)
	cmd.WaitDelay = time.Second // engines that hold its output are not waited for
	return proc.Start(t, cmd)
}

// command runs bursar to its end.
func command(t *testing.T, env []string, args ...string) proc.Result {
	t.Helper()
	return proc.Run(t, patience, func(cmd *exec.Cmd) { cmd.Env = proc.Environment(env...) }, filepath.Join(programs, "bursar"), args...)
}
