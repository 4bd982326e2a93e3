package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// Guardian is a process that cleans up after this one, even if this one is killed before it can do
// so itself.
type Guardian struct {
	process   *exec.Cmd
	hold      io.Closer // the guardian waits while this process holds it open
	complaint strings.Builder
}

// Guard starts a guardian that runs a shell script, with the arguments as $1 and so on, after
// Dismiss or after the end of this process. The script fails if it cannot clean up, and prints the
// reason on its standard error.
func Guard(script string, arguments ...string) (*Guardian, error) {
	line := append([]string{"-c", "cat >/dev/null\n" + script, "guardian"}, arguments...)
	g := &Guardian{process: exec.Command("sh", line...)} //nolint:gosec,noctx // it must outlive this process
	// A signal from the keyboard that ends this process does not reach the guardian.
	g.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	g.process.Dir = os.TempDir()
	g.process.Stderr = &g.complaint
	hold, err := g.process.StdinPipe()
	if err == nil {
		g.hold = hold
		err = g.process.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("guardian: %w", err)
	}
	return g, nil
}

// Dismiss makes the guardian clean up now, and waits for it. An error contains its output.
func (g *Guardian) Dismiss() error {
	err := errors.Join(g.hold.Close(), g.process.Wait())
	if err != nil {
		return fmt.Errorf("guardian: %w\n%s", err, strings.TrimSpace(g.complaint.String()))
	}
	return nil
}
