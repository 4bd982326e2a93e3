package agent_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/bursar/bursar/agent"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

// childOf is a child of a process.
func childOf(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	pid := strconv.Itoa(cmd.Process.Pid)
	child := 0
	until(t, "it has a child", func() bool {
		content, _ := os.ReadFile(filepath.Join("/proc", pid, "task", pid, "children"))
		child, _ = strconv.Atoi(strings.TrimSpace(string(content)))
		return child != 0
	})
	return child
}

// An engine is moved with what is its own: not with another engine that is below it, not with
// another user's process, and not with what was put into another cgroup.
func TestAnEngineIsMovedWithoutWhatIsOthers(t *testing.T) {
	s := contained(t, agent.PolicyConfig{})
	limited := s.config.Engines.Cgroup + "-limited"
	t.Cleanup(func() {
		until(t, "it is removed", func() bool {
			for _, folder := range folders(t, limited) {
				_ = os.Remove(folder)
			}
			return len(folders(t, limited)) == 0
		})
	})
	s.start()

	t.Run("another engine", func(t *testing.T) {
		parent := process(t, "sleep 1000 & wait")
		child := childOf(t, parent)
		first := s.allocate(10)
		if _, err := s.confirm(first.GetId(), child); err != nil {
			t.Fatal(err)
		}
		own := s.config.Engines.Cgroup + "/bursar-engines/" + first.GetId() + ".adopted"
		until(t, "the child is moved", func() bool { return cgroupOf(int32(child)) == own })
		s.moves(t, parent)
		if now := cgroupOf(int32(child)); now != own {
			t.Errorf("the engine below it is in %s, and was in %s", now, own)
		}
	})
	t.Run("another user's", func(t *testing.T) {
		parent := process(t, "setpriv --reuid 65534 --regid 65534 --clear-groups sleep 1000 & wait")
		child := childOf(t, parent)
		until(t, "it is the other user's", func() bool {
			status, _ := os.ReadFile("/proc/" + strconv.Itoa(child) + "/status")
			return strings.Contains(string(status), "Uid:\t65534")
		})
		s.leaves(t, parent, child)
	})
	t.Run("in a cgroup with a limit", func(t *testing.T) {
		parent := process(t, "sleep 1000 & wait")
		child := childOf(t, parent)
		limitedTo(t, limited, 1000*mib, child)
		s.leaves(t, parent, child)
	})
}

// moves confirms an engine and waits until it was moved.
func (s *subject) moves(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	a := s.allocate(10)
	if _, err := s.confirm(a.GetId(), cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	want := s.config.Engines.Cgroup + "/bursar-engines/" + a.GetId() + ".adopted"
	until(t, "it is moved", func() bool { return cgroupOf(int32(cmd.Process.Pid)) == want })
	s.ticks(2)
}

// leaves expects that an engine is moved without a child.
func (s *subject) leaves(t *testing.T, parent *exec.Cmd, child int) {
	t.Helper()
	before := cgroupOf(int32(child))
	s.moves(t, parent)
	if now := cgroupOf(int32(child)); now != before {
		t.Errorf("the child was moved from %s to %s", before, now)
	}
}

// What an engine leaves in the cgroup that it was moved to may outlive the agent, and its
// allocation. The cgroup goes with it.
func TestACgroupGoesWithItsLastProcessThoughTheAgentWasRestarted(t *testing.T) {
	for name, released := range map[string]bool{"held": false, "released": true} {
		t.Run(name, func(t *testing.T) {
			s := contained(t, agent.PolicyConfig{})
			s.start()
			root := process(t, "setsid sleep 1000 & wait")
			daemon := childOf(t, root)
			held := proc.KillAtEnd(t, daemon)
			a := s.allocate(10)
			if _, err := s.confirm(a.GetId(), root.Process.Pid); err != nil {
				t.Fatal(err)
			}
			want := s.config.Engines.Cgroup + "/bursar-engines/" + a.GetId() + ".adopted"
			until(t, "both are moved", func() bool { return cgroupOf(int32(root.Process.Pid)) == want && cgroupOf(int32(daemon)) == want })
			if err := root.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			s.ticks(3)
			if released {
				if _, err := s.Release(t.Context(), &bursarv1.ReleaseRequest{Id: a.GetId()}); err != nil {
					t.Fatal(err)
				}
				s.ticks(2)
			}
			s.stop()
			s.start()
			// Cgroups are seen to after engines were moved. When the second one is, the first look
			// at what is left is over.
			s.moves(t, process(t, "exec sleep 1000"))
			s.moves(t, process(t, "exec sleep 1000"))
			if err := held.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			until(t, "its cgroup is gone", func() bool { return len(folders(t, want)) == 0 })
		})
	}
}
