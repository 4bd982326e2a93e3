package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/bursar/bursar/agent/launch"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

// keeperOf is the keeper of an allocation's engine; 0: there is none.
func keeperOf(id string) int {
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		line, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(line), "bursar-keeper\x00"+id+"\x00") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			return pid
		}
	}
	return 0
}

// The user of an engine has stopped its keeper. The keeper stayed for ever, and so did its cgroup.
func TestAKeeperThatIsHeldEndsAfterItsEngine(t *testing.T) {
	s := launcher(t)
	a := s.mustLaunch("exec sleep 1000", asNobody).GetAllocation()
	other := s.mustLaunch("exec sleep 1000", asNobody).GetAllocation()
	keeper, spared := keeperOf(a.GetId()), keeperOf(other.GetId())
	for _, pid := range []int{keeper, spared} {
		proc.KillAtEnd(t, pid)
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(pid, err)
		}
	}
	if err := syscall.Kill(int(a.GetProcess().GetPid()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.coordinator.awaitState(a.GetId(), released)
	until(t, "the keeper has ended", func() bool { return keeperOf(a.GetId()) == 0 })
	if keeperOf(other.GetId()) != spared {
		t.Error("the keeper of an engine that runs was ended")
	}
}

// failHeldLaunch launches an engine that stops its keeper, and whose Confirm is refused. The engine
// writes its pid into a file.
func failHeldLaunch(t *testing.T, s *subject) (a *bursarv1.Allocation, pid string) {
	t.Helper()
	a = s.allocate(10)
	s.coordinator.do(func() { s.coordinator.refuseConfirm = true })
	pid = filepath.Join(folder(t), "pid")
	if err := os.WriteFile(pid, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("kill -STOP $PPID; echo $$ > %s; trap '' TERM; while :; do sleep 1; done", pid)
	if _, err := s.launchAgain(&bursarv1.LaunchRequest{Id: a.GetId(), Command: []string{"sh", "-c", script}, WorkingDirectory: "/"}); err == nil {
		t.Fatal("its Confirm was not refused")
	}
	return a, pid
}

// The user stops the keeper before it answers: neither it nor its engine may stay.
func TestAKeeperThatIsHeldAtItsStartEndsWithItsEngine(t *testing.T) {
	s := launcher(t)
	a, pid := failHeldLaunch(t, s)
	until(t, "keeper and engine have ended", func() bool {
		text, _ := os.ReadFile(pid)
		engine, err := strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil && syscall.Kill(engine, 0) != nil && keeperOf(a.GetId()) == 0
	})
}

// The agent ends, or is killed, while the keeper of a launch that failed is held. The list of them
// was in the memory of the agent alone.
func TestAKeeperThatIsHeldEndsAfterTheNextStartOfTheAgent(t *testing.T) {
	s := launcher(t)
	a, pid := failHeldLaunch(t, s)
	s.crash()
	keeper := keeperOf(a.GetId())
	text, err := os.ReadFile(pid)
	if err != nil || keeper == 0 {
		t.Fatal(keeper, err)
	}
	engine := proc.HoldText(t, string(text))
	s.start()
	until(t, "keeper and engine have ended", func() bool { return !proc.Alive(engine.PID) && !proc.Alive(keeper) })
	until(t, "the list is empty", func() bool { return len(s.unconfirmedKeepers()) == 0 })
}

func (s *subject) unconfirmedKeepers() []launch.Unconfirmed {
	s.t.Helper()
	list, err := launch.Records(filepath.Join(s.config.StateDir, "engines")).Unconfirmed()
	if err != nil {
		s.t.Error(err)
	}
	return list
}

// An engine that was confirmed is in no list: the next incarnation leaves it alone.
func TestAConfirmedEngineIsNoKeeperOfAFailedLaunch(t *testing.T) {
	s := launcher(t)
	s.mustLaunch("exec sleep 1000", asNobody)
	if list := s.unconfirmedKeepers(); len(list) > 0 {
		t.Errorf("%v", list)
	}
}
