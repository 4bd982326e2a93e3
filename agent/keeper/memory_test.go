package keeper_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/agent/keeper"
)

// limited makes a cgroup with little memory, which a machine whose root runs the tests has
// somewhere.
func limited(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("want root, to make a cgroup")
	}
	dir, limit := "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		dir, limit = "/sys/fs/cgroup", "memory.max"
	}
	dir = filepath.Join(dir, "bursar-keeper-test-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for { // what was killed takes a moment to leave
			if err := os.Remove(dir); !errors.Is(err, unix.EBUSY) {
				if err != nil {
					t.Error(err)
				}
				return
			}
		}
	})
	if err := os.WriteFile(filepath.Join(dir, limit), []byte("67108864"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestEngineKilledForLackOfMemoryIsKnownAsOne(t *testing.T) {
	dir := limited(t)
	const eats = "exec dd if=/dev/zero of=/dev/null bs=512M count=1 status=none" // in one piece
	for name, test := range map[string]struct {
		script   string
		own, oom bool
		signal   int32
	}{
		"by the kernel":           {eats, true, true, 9},
		"below a shell":           {"( " + eats + " ); exit $?", true, true, 0},
		"in a cgroup with others": {eats, false, false, 9},
		"by somebody":             {"kill -9 $$", true, false, 9},
		"not at all":              {"( " + eats + " ); exit 0", true, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			spec := shell(t, test.script)
			spec.OwnCgroup = test.own
			k := launch(t)
			if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(k.cmd.Process.Pid)), 0o644); err != nil {
				t.Fatal(err)
			}
			line, err := keeper.Encode(spec)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := k.stdin.Write(line); err != nil {
				t.Fatal(err)
			}
			k.hear()
			k.confirm()
			if got := k.end(); got.OutOfMemory != test.oom || got.Exit.Signal != test.signal {
				t.Errorf("%+v", got)
			}
		})
	}
}
