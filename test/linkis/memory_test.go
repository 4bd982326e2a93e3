//go:build linux

package linkis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/test/proc"
)

// memoryGroup makes a cgroup with a limit for the length of the test, and returns its name and its
// folder. Both are empty if none can be made here.
func memoryGroup(t *testing.T, limit int64) (name, directory string) {
	t.Helper()
	name = fmt.Sprintf("/bursar-linkis-%d", os.Getpid())
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		var file string
		switch {
		case len(fields) < 4:
			continue
		case fields[2] == "cgroup" && strings.Contains(","+fields[3]+",", ",memory,"):
			file = "memory.limit_in_bytes"
		case fields[2] == "cgroup2":
			file = "memory.max"
		default:
			continue
		}
		directory = filepath.Join(fields[1], name)
		if os.Mkdir(directory, 0o750) != nil {
			continue
		}
		t.Cleanup(func() {
			eventually(t, "the cgroup is removed", func() error { return os.Remove(directory) })
		})
		if os.WriteFile(filepath.Join(directory, file), []byte(strconv.FormatInt(limit, 10)), 0o600) == nil {
			return name, directory
		}
	}
	return "", ""
}

// fillWord, as first argument, makes this program fill so many bytes of memory and wait.
const fillWord = "linkis-fill"

// fill is that program.
func fill() {
	size, err := strconv.ParseInt(os.Args[2], 10, 64)
	if err != nil {
		os.Exit(2)
	}
	memory, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("filled")
	_, _ = os.Stdin.Read(memory[:1]) // until the other end is closed: nobody writes
}

// startFill starts a process that fills memory in a cgroup, and waits until it has.
func (w *world) startFill(directory string, size int64) *proc.Process {
	w.t.Helper()
	program, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	input, hold, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { // and not before: that would end the process
		_ = errors.Join(input.Close(), hold.Close())
	})
	p := proc.New(w.t, "what fills memory", func() *exec.Cmd {
		cmd := exec.CommandContext(context.WithoutCancel(w.t.Context()), "sh", "-c", `echo $$ >"$0" && exec "$@"`,
			filepath.Join(directory, "cgroup.procs"), program, fillWord, strconv.FormatInt(size, 10))
		cmd.Stdin = input
		return cmd
	})
	p.Start()
	proc.Until(w.t, patience, pollEvery, "memory is filled", func() bool { return strings.Contains(p.Output.String(), "filled") })
	return p
}

func TestWhatFillsMemoryGoesOn(t *testing.T) {
	p := (&world{t: t}).startFill(t.TempDir(), 1<<20)
	for range 2 { // which closes files that nobody holds
		runtime.GC()
	}
	proc.Always(t, time.Second, 100*time.Millisecond, "it goes on", func() error {
		if !p.Running() {
			return errors.New("it has ended")
		}
		return nil
	})
}
