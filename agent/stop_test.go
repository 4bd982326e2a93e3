package agent_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

// enter moves a process to a cgroup in every hierarchy that has it.
func enter(t *testing.T, name string, pid int) {
	t.Helper()
	for _, folder := range folders(t, name) {
		if err := os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			t.Fatal(err)
		}
	}
}

// ownCgroup is one that an engine's launcher has made for it, in which memory is accounted for.
func ownCgroup(t *testing.T) (name string) {
	t.Helper()
	needsRoot(t)
	name = fmt.Sprintf("/bursar-test-own-%d", os.Getpid())
	for _, point := range []string{"/sys/fs/cgroup/memory", "/sys/fs/cgroup"} {
		if _, err := os.Stat(filepath.Join(point, "cgroup.procs")); err != nil {
			continue
		}
		if err := os.Mkdir(point+name, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			until(t, "its cgroup is gone", func() bool { return syscall.Rmdir(point+name) == nil })
		})
		break
	}
	return name
}

// A cgroup that was an engine's own when it was confirmed may have others in it when it is
// stopped.
func TestStopLeavesAloneWhoHasEnteredTheCgroupOfAnEngineSince(t *testing.T) {
	name := ownCgroup(t)
	s := run(t)
	bystander := exec.Command("sleep", "1000")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = bystander.Process.Kill()
		_ = bystander.Wait()
	})
	a := s.allocate(100)
	engine := exec.Command("sleep", "1000")
	if err := engine.Start(); err != nil {
		t.Fatal(err)
	}
	held := proc.Hold(t, engine.Process.Pid)
	go func() { _ = engine.Wait() }()
	enter(t, name, engine.Process.Pid)
	confirmed, err := s.confirm(a.GetId(), engine.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	process := confirmed.GetAllocation().GetProcess()
	if process.GetCgroup() != name {
		t.Fatalf("confirmed in cgroup %q, want %q", process.GetCgroup(), name)
	}
	enter(t, name, bystander.Process.Pid)
	if _, err := s.Stop(t.Context(), &bursarv1.StopRequest{Id: a.GetId(), Grace: durationpb.New(0)}); err != nil {
		t.Fatal(err)
	}
	until(t, "the engine has ended", func() bool { return !held.There() })
	s.ticks(3)
	if zombie(bystander.Process.Pid) {
		t.Error("who has entered was ended too")
	}
}

// Who was put into the cgroup since is not measured as the engine, and does not keep its allocation
// when the engine has ended.
func TestWhoEntersTheCgroupOfAnEngineIsNotCountedAsTheEngine(t *testing.T) {
	name := ownCgroup(t)
	s := run(t)
	a := s.allocate(100)
	engine, bystander := exec.Command("sleep", "1000"), exec.Command("sleep", "1000")
	for _, c := range []*exec.Cmd{engine, bystander} {
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait()
		})
	}
	enter(t, name, engine.Process.Pid)
	if _, err := s.confirm(a.GetId(), engine.Process.Pid); err != nil {
		t.Fatal(err)
	}
	s.ticks(3)
	const said = "processes that are not the engine's are in it"
	if strings.Contains(s.log.String(), said) {
		t.Error("the engine is alone in its cgroup, and is said not to be")
	}
	enter(t, name, bystander.Process.Pid)
	until(t, "it is said that others are inside", func() bool { return strings.Contains(s.log.String(), said) })
	if err := engine.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = engine.Wait()
	until(t, "the engine has ended", func() bool { return strings.Contains(s.log.String(), "an engine has ended") })
	if zombie(bystander.Process.Pid) {
		t.Error("who has entered was ended too")
	}
}

// If an engine's process ended while no agent ran, it is not known what it has left: its session
// may be another's by now.
func TestStopLeavesASessionAloneThatNobodyHasSeenWithItsLeader(t *testing.T) {
	s := run(t)
	id, root, inner := s.tree("wait")
	s.stop()
	if err := root.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = root.Process.Wait()
	s.start()
	if _, err := s.Stop(t.Context(), &bursarv1.StopRequest{Id: id, Grace: durationpb.New(0)}); err != nil {
		t.Fatal(err)
	}
	said := fmt.Sprintf("may be the engine's or another's, by the number of their session or group: pid %d", inner.PID)
	until(t, "it is said who is left", func() bool { return strings.Contains(s.log.String(), said) })
	if !inner.There() {
		t.Error("it was ended")
	}
}

// leavesTheTree starts an engine whose child begins a session of its own, ends its root once it was
// measured, and returns its allocation and the child.
func (s *subject) leavesTheTree(child string) (id string, left *proc.Held) {
	s.t.Helper()
	a := s.allocate(100)
	root := exec.Command("sh", "-c", "setsid "+child+" & wait")
	root.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := root.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := root.Start(); err != nil {
		s.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		s.t.Fatal(err)
	}
	left = proc.HoldText(s.t, line)
	s.t.Cleanup(func() { _ = left.Signal(syscall.SIGKILL) })
	if _, err := s.confirm(a.GetId(), root.Process.Pid); err != nil {
		s.t.Fatal(err)
	}
	s.coordinator.await("its use is known", func() bool {
		return s.coordinator.allocations[a.GetId()].GetMeasured().GetMemoryBytes() > 0
	})
	if err := root.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	_ = root.Process.Release()
	_, _ = syscall.Wait4(root.Process.Pid, nil, 0, nil)
	s.ticks(3)
	s.coordinator.awaitState(a.GetId(), active)
	return a.GetId(), left
}

// What has left the tree and the session of an engine is still counted as the engine's, as it was
// seen in the tree. So it is stopped.
func TestStopEndsWhatIsCountedAsTheEngineThoughItHasLeftTheTree(t *testing.T) {
	s := run(t)
	id, left := s.leavesTheTree("sh -c 'echo $$; exec sleep 1000'")
	if _, err := s.Stop(t.Context(), &bursarv1.StopRequest{Id: id, Grace: durationpb.New(0)}); err != nil {
		t.Fatal(err)
	}
	s.coordinator.awaitState(id, released)
	if left.There() && !zombie(left.PID) {
		t.Error("what it has left runs")
	}
}
