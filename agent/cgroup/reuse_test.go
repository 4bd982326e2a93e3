package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// stat makes a process of the fixture that is in /elsewhere, with its parent and when it started.
func (o TreeOptions) stat(t *testing.T, pid, parent int, started uint64) {
	t.Helper()
	dir := filepath.Join(o.Proc, fmt.Sprint(pid))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	line := fmt.Sprintf("%d (x) S %d %s %d %s\n", pid, parent, strings.TrimSpace(strings.Repeat("0 ", 17)), started, strings.TrimSpace(strings.Repeat("0 ", 30)))
	for name, content := range map[string]string{"stat": line, "cgroup": "0::/elsewhere\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// handsOver plays a kernel in which a pid gets another's when a process is moved by it.
type handsOver struct {
	*unified

	when string // what is written
	then func()
}

func (h handsOver) Write(name, content string) error {
	if filepath.Base(name) == "cgroup.procs" && content == h.when && h.then != nil {
		h.then()
	}
	return h.unified.Write(name, content)
}

// An engine can end thousands of its processes while they are moved, whose pids others get. All
// processes in the cgroup are stopped with it.
func TestWhoHasThePIDOfAMemberIsNotMoved(t *testing.T) {
	k := newUnified("cpu", "memory")
	k.make(t, "/bursar")
	k.make(t, "/bursar/agent", 77)
	k.make(t, "/elsewhere", 100, 101, 102, 5)
	options := k.process(t, "/bursar/agent", "/")
	options.stat(t, 5, 1, 50)
	options.stat(t, 100, 1, 1000)
	options.stat(t, 101, 5, 2001) // another's since the list was made
	options.stat(t, 102, 100, 1002)
	// and this one just when it is moved
	options.Files = handsOver{k, "102", func() { options.stat(t, 102, 5, 2002) }}
	list := []Member{{PID: 100, StartTime: 1000}, {PID: 101, StartTime: 1001}, {PID: 102, StartTime: 1002}}
	name, err := openDirect(t, DirectOptions{Tree: options}).Adopt(t.Context(), "e1", Limits{}, func() ([]Member, error) {
		now := list
		list = list[:1]
		return now, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := k.cgroups[name].procs; !slices.Equal(got, []int{100}) {
		t.Errorf("inside: %v", got)
	}
	if got := k.cgroups["/elsewhere"].procs; !slices.Contains(got, 101) || !slices.Contains(got, 102) {
		t.Errorf("outside: %v", got)
	}
}
