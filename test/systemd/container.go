package systemd

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// containerScript mounts a machine's root, a temporary overlay, in a new mount namespace, and boots
// it. It hides systemd-nspawn's own folders, where systemd-nspawn would leave files.
const containerScript = `mkdir -p "$1/root"
mount -t tmpfs machine "$1/root"
mkdir "$1/root/upper" "$1/root/work" "$1/root/all"
mount -t overlay machine -o "lowerdir=$2,upperdir=$1/root/upper,workdir=$1/root/work" "$1/root/all"
mkdir -p /run/systemd/nspawn
mount -t tmpfs machine /run/systemd/nspawn
exec systemd-nspawn --quiet --directory="$1/root/all" --machine="$3" --boot --register=no --keep-unit --private-network \
	--console=pipe --bind-ro="$1/share:/opt/test" --kill-signal=SIGRTMIN+3 systemd.log_target=journal`

// container is a machine of systemd-nspawn.
type container struct {
	tree string
}

func (c *container) prepare(m *Machine) (*exec.Cmd, error) {
	tree, err := filepath.Abs(c.tree)
	if err != nil {
		return nil, err
	}
	//nolint:gosec,noctx // it ends with the machine
	return exec.Command("unshare", "--mount", "sh", "-euc", containerScript, "container", m.folder, tree, filepath.Base(m.folder)), nil
}

// booted makes the controllers writable that systemd-nspawn mounts read-only: the cgroups below are
// the machine's own. systemd detects them when it starts.
func (c *container) booted(ctx context.Context, m *Machine) error {
	const script = `found=
for controller in memory cpu cpuacct cpu,cpuacct pids; do
	place=/sys/fs/cgroup/$controller
	[ -d "$place" ] && [ ! -L "$place" ] || continue
	mount -o remount,bind,rw "$place"; found=1
done
[ -z "$found" ] || systemctl daemon-reexec`
	result, err := m.Run(ctx, Command{Arguments: []string{"sh", "-euc", script}})
	if err == nil && result.Code != 0 {
		err = fmt.Errorf("controllers for a container: %s", result)
	}
	return err
}

func (c *container) enter(m *Machine) string {
	leader := "LEADER"
	children, err := exec.Command("pgrep", "-P", fmt.Sprint(m.process.Process.Pid)).Output() //nolint:gosec,noctx // for a person
	if fields := strings.Fields(string(children)); err == nil && len(fields) > 0 {
		leader = fields[len(fields)-1]
	}
	return "nsenter --target " + leader + " --all --wd=/ bash --login"
}
