package chaos

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Memory pressure is measured by the kernel for the whole machine, and whoever else works on it would close the host to new
// grants for a minute whenever they have to wait for memory. So the bursars under test see, where this user can make it so, a file
// of ours in the place of the kernel's, in a mount namespace of their own. Everything else that they measure is real.

// calm is a machine on which nobody waits for memory, as the kernel writes it.
const calm = `some avg10=0.00 avg60=0.00 avg300=0.00 total=0
full avg10=0.00 avg60=0.00 avg300=0.00 total=0
`

// pressed is one on which everybody does.
const pressed = `some avg10=80.00 avg60=20.00 avg300=5.00 total=9000000
full avg10=60.00 avg60=15.00 avg300=4.00 total=6000000
`

// seclusion is how bursars under test are started.
type seclusion struct {
	file  string   // ours; empty where this user, or this kernel, does not allow it, and the machine's own pressure counts
	hides []string // the kernel's
}

// hide mounts the file $0 over the files up to "--", and becomes the command that follows.
const hide = `while [ "$1" != -- ]; do mount --bind "$0" "$1" || exit 1; shift; done; shift; exec "$@"`

// command is one that ends with this process.
func (s seclusion) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	// It must not outlive a test that is cut off.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if s.file != "" {
		cmd = exec.Command("/bin/sh", slices.Concat([]string{"-c", hide, s.file}, s.hides, []string{"--"}, cmd.Args)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Unshareflags: syscall.CLONE_NEWNS}
	}
	return cmd
}

// seclude prepares our file in a directory, and tries whether it can be used.
func seclude(dir string) (seclusion, error) {
	hides, err := pressureFiles()
	if err != nil {
		return seclusion{}, err
	}
	s := seclusion{file: filepath.Join(dir, "pressure"), hides: hides}
	if err := os.WriteFile(s.file, []byte(calm), 0o600); err != nil {
		return seclusion{}, err
	}
	if s.command("true").Run() != nil {
		return seclusion{}, nil
	}
	return s, nil
}

// pressureFiles are the kernel's that tell of the machine's pressure, and of that of the cgroups that this process is in.
func pressureFiles() ([]string, error) {
	candidates := []string{"/proc/pressure/memory"}
	cgroups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	mounts, err := os.Open("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	defer mounts.Close()
	for lines := bufio.NewScanner(mounts); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 3 || fields[2] != "cgroup2" {
			continue
		}
		for line := range strings.Lines(string(cgroups)) {
			at, unified := strings.CutPrefix(strings.TrimSpace(line), "0::")
			for ; unified; at = path.Dir(at) {
				candidates = append(candidates, path.Join(fields[1], at, "memory.pressure"))
				unified = at != "/"
			}
		}
	}
	return slices.DeleteFunc(candidates, func(file string) bool {
		_, err := os.Stat(file)
		return err != nil
	}), nil
}

func (s seclusion) String() string {
	if s.file == "" {
		return "the machine's own memory pressure counts"
	}
	return fmt.Sprintf("memory pressure is made up: %v", s.hides)
}
