package postgres

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// guardScript waits until nobody holds the other end of its input, then clears away what is left of a server: all processes that
// stand in its data, stopped ones too, and its directory. They get five seconds to end in order, because only then does the kernel
// get back the memory that they share.
const guardScript = `cat >/dev/null
data=$(readlink -f "$1/data")
signal() {
	found=1
	for process in /proc/[0-9]*; do
		[ "$(readlink "$process/cwd")" != "$data" ] || { found=0; kill "-$1" "${process#/proc/}"; }
	done
	return $found
}
round=0
if signal QUIT; then
	while signal CONT && [ $round -lt 50 ]; do round=$((round + 1)); sleep 0.1; done
	signal KILL
fi
rm -rf "$1"`

// guardian clears away after a process that was killed before it could do so itself. The kernel would signal the first process of the
// server alone, and nobody those that are stopped.
type guardian struct {
	process *exec.Cmd
	hold    io.Closer // as long as this is open in this process, it waits
}

func guard(dir string) (*guardian, error) {
	process := exec.Command("sh", "-c", guardScript, "guardian", dir) //nolint:gosec,noctx // it must outlive this process
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}         // what ends this process by the keyboard leaves it alone
	process.Dir = os.TempDir()
	hold, err := process.StdinPipe()
	if err == nil {
		err = process.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("postgres: guardian: %w", err)
	}
	return &guardian{process, hold}, nil
}

// dismiss has it clear away now, and waits for it.
func (g *guardian) dismiss() error {
	if err := g.hold.Close(); err != nil {
		return fmt.Errorf("postgres: guardian: %w", err)
	}
	if err := g.process.Wait(); err != nil {
		return fmt.Errorf("postgres: guardian: %w", err)
	}
	return nil
}
