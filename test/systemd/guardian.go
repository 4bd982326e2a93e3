package systemd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// guardScript waits until nobody holds the other end of its input, then ends all processes in a machine's cgroups, and removes these and its
// folder. Its mounts are in a namespace that goes with its processes. Nobody else would do it once who started the machine is gone.
const guardScript = `cat >/dev/null
folder=$1; shift
round=0
while [ $round -lt 300 ]; do
	round=$((round + 1)); found=
	for cgroup in "$@"; do
		processes=$(find "$cgroup" -name cgroup.procs -exec cat {} + 2>/dev/null)
		[ -z "$processes" ] || { found=1; kill -KILL $processes 2>/dev/null; }
	done
	[ -n "$found" ] || break
	sleep 0.05
done
for cgroup in "$@"; do
	round=0
	while [ -d "$cgroup" ] && [ $round -lt 100 ]; do
		round=$((round + 1))
		find "$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null
		[ ! -d "$cgroup" ] || sleep 0.05
	done
	[ ! -d "$cgroup" ] || echo "$cgroup is still there" >&2
done
rm -rf "$folder"`

// guardian clears away after a machine, even when this process was killed before it could do so itself.
type guardian struct {
	process   *exec.Cmd
	hold      io.Closer // as long as this is open in this process, it waits
	complaint strings.Builder
}

func guard(folder string, cgroups []string) (*guardian, error) {
	arguments := append([]string{"-c", guardScript, "guardian", folder}, cgroups...)
	g := &guardian{process: exec.Command("sh", arguments...)}   //nolint:gosec,noctx // it must outlive this process
	g.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what ends this process by the keyboard leaves it alone
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

// dismiss has it clear away now, and waits for it.
func (g *guardian) dismiss() error {
	err := errors.Join(g.hold.Close(), g.process.Wait())
	if err == nil && g.complaint.Len() > 0 {
		err = errors.New(strings.TrimSpace(g.complaint.String()))
	}
	if err != nil {
		return fmt.Errorf("guardian: %w", err)
	}
	return nil
}
