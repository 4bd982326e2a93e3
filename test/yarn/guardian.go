package yarn

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// guardScript waits until nobody holds the other end of its input, then clears away what is left of a cluster: all processes that stand
// in its folder, its containers among them, and the folder. Without the one who started it nobody else would: a container is its own
// session.
const guardScript = `cat >/dev/null
round=0
while [ $round -lt 100 ]; do
	round=$((round + 1)); found=
	for process in /proc/[0-9]*; do
		case $(readlink "$process/cwd")/ in "$1"/*) found=1; kill -KILL "${process#/proc/}" 2>/dev/null ;; esac
	done
	[ -n "$found" ] || break
	sleep 0.05
done
[ -z "$2" ] || rm -rf "$2"`

// guardian clears away after the processes of a cluster, even when this process was killed before it could do so itself.
type guardian struct {
	process *exec.Cmd
	hold    io.Closer // as long as this is open in this process, it waits
}

func guard(dir string) (*guardian, error) {
	place, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, fmt.Errorf("guardian: %w", err)
	}
	process := exec.Command("sh", "-c", guardScript, "guardian", place, dir) //nolint:gosec,noctx // it must outlive this process
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}                // what ends this process by the keyboard leaves it alone
	process.Dir = os.TempDir()
	var complaint strings.Builder
	process.Stderr = &complaint
	hold, err := process.StdinPipe()
	if err == nil {
		err = process.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("guardian: %w", err)
	}
	return &guardian{process, hold}, nil
}

// dismiss has it clear away now, and waits for it.
func (g *guardian) dismiss() error {
	if err := g.hold.Close(); err != nil {
		return fmt.Errorf("guardian: %w", err)
	}
	if err := g.process.Wait(); err != nil {
		return fmt.Errorf("guardian: %w", err)
	}
	return nil
}
