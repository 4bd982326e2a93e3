package systemd

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// makeCgroups makes a cgroup of that name in every hierarchy of this machine, below this process's
// cgroup. All processes of a test machine are in them. So test machines do not interfere, and the
// cleanup finds all processes.
func makeCgroups(name string) (made []string, err error) {
	self, err := procfs.Self()
	if err != nil {
		return nil, err
	}
	mounts, err := self.MountInfo()
	if err != nil {
		return nil, err
	}
	own, err := self.Cgroups()
	if err != nil {
		return nil, err
	}
	place := map[string]string{} // by controller; "" is version 2
	for _, c := range own {
		if len(c.Controllers) == 0 {
			place[""] = c.Path
		}
		for _, controller := range c.Controllers {
			place[controller] = c.Path
		}
	}
	for _, mount := range mounts {
		path, found := pathIn(mount, place)
		if !found {
			continue
		}
		below, err := filepath.Rel(mount.Root, path)
		if err != nil || strings.HasPrefix(below, "..") {
			below = "." // the mount hides this process's cgroup
		}
		folder := filepath.Join(mount.MountPoint, below, name)
		err = os.Mkdir(folder, 0o755) //nolint:gosec // as the kernel makes them
		if errors.Is(err, os.ErrExist) {
			continue // a hierarchy that is mounted twice
		}
		if err != nil {
			return made, fmt.Errorf("a cgroup for the machine: %w", err)
		}
		made = append(made, folder)
		// Version 1 gives a new cgroup no core and no memory node.
		if err := errors.Join(inherit(folder, "cpuset.cpus"), inherit(folder, "cpuset.mems")); err != nil {
			return made, err
		}
	}
	if len(made) == 0 {
		return nil, errors.New("no hierarchy of cgroups is mounted here")
	}
	return made, nil
}

// pathIn returns this process's path in a mounted hierarchy.
func pathIn(mount *procfs.MountInfo, place map[string]string) (path string, found bool) {
	switch mount.FSType {
	case "cgroup2":
		path, found = place[""]
	case "cgroup":
		for option, value := range mount.SuperOptions {
			if option == "name" {
				option = "name=" + value
			}
			if path, found = place[option]; found {
				break
			}
		}
	}
	return path, found
}

// inherit copies a setting from a cgroup's parent, if the cgroup has none.
func inherit(folder, file string) error {
	own, err := os.ReadFile(filepath.Join(folder, file)) //nolint:gosec // of a cgroup that was just made
	if errors.Is(err, os.ErrNotExist) || err == nil && strings.TrimSpace(string(own)) != "" {
		return nil
	}
	if err != nil {
		return err
	}
	content, err := os.ReadFile(filepath.Join(filepath.Dir(folder), file)) //nolint:gosec // of its parent
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, file), content, 0o600) //nolint:gosec // of a cgroup that was just made
}

// removeCgroups removes cgroups that never had a process.
func removeCgroups(folders []string) error {
	var errs []error
	for _, folder := range folders {
		errs = append(errs, os.Remove(folder))
	}
	return errors.Join(errs...)
}

// startIn starts a command in cgroups and in a new session. Its output goes to a file.
func startIn(cgroups []string, command *exec.Cmd, console string) (*exec.Cmd, error) {
	const script = `while [ "$1" != -- ]; do echo $$ >"$1/cgroup.procs"; shift; done; shift; exec "$@"`
	arguments := append([]string{"-euc", script, "sh"}, cgroups...)
	arguments = append(append(arguments, "--"), command.Args...)
	started := exec.Command("sh", arguments...) //nolint:gosec,noctx // it ends with the machine
	started.Env = command.Env
	started.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	started.WaitDelay = 5 * time.Second
	file, err := os.Create(console) //nolint:gosec // in the folder of the machine
	if err != nil {
		return nil, err
	}
	defer file.Close()
	started.Stdout, started.Stderr = file, file
	return started, started.Start()
}
