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
func (s *subject) keeperOf(id string) int {
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		line, err := os.ReadFile(path)
		if err == nil && string(line) == s.config.Engines.Keeper+"\x00"+id+"\x00" {
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
	keeper, spared := s.keeperOf(a.GetId()), s.keeperOf(other.GetId())
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
	until(t, "the keeper has ended", func() bool { return s.keeperOf(a.GetId()) == 0 })
	if s.keeperOf(other.GetId()) != spared {
		t.Error("the keeper of an engine that runs was ended")
	}
}

// failHeldLaunch launches an engine whose keeper its user stops while the coordinator decides, and
// whose Confirm is refused. The engine would have written into the file mark.
func failHeldLaunch(t *testing.T, s *subject) (a *bursarv1.Allocation, engine int, mark string) {
	t.Helper()
	a = s.allocate(10)
	s.coordinator.do(func() {
		s.coordinator.refuseConfirm = true
		s.coordinator.confirming = func(id string) {
			keeper := s.keeperOf(id)
			if err := syscall.Kill(keeper, syscall.SIGSTOP); err != nil {
				t.Error(err)
			}
			var children []byte
			others, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", keeper))
			for _, other := range others { // one of its threads has started the engine
				text, _ := os.ReadFile(other)
				children = append(children, text...)
			}
			var err error
			if engine, err = strconv.Atoi(strings.TrimSpace(string(children))); err != nil {
				t.Errorf("below the keeper is %q; want its engine", children)
			}
		}
	})
	mark = filepath.Join(folder(t), "mark")
	if err := os.WriteFile(mark, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("echo begun > %s; trap '' TERM; while :; do sleep 1; done", mark)
	if _, err := s.launchAgain(&bursarv1.LaunchRequest{Id: a.GetId(), Command: []string{"sh", "-c", script}, WorkingDirectory: "/"}); err == nil {
		t.Fatal("its Confirm was not refused")
	}
	return a, engine, mark
}

// The user stops the keeper before the engine is confirmed: neither it nor its engine may stay.
// Invariant 14: the engine has executed nothing.
func TestAKeeperThatIsHeldAtItsStartEndsWithItsEngine(t *testing.T) {
	s := launcher(t)
	a, engine, mark := failHeldLaunch(t, s)
	until(t, "keeper and engine have ended", func() bool { return syscall.Kill(engine, 0) != nil && s.keeperOf(a.GetId()) == 0 })
	if said, err := os.ReadFile(mark); err != nil || len(said) > 0 {
		t.Errorf("an engine whose Confirm was refused has executed: %q, %v", said, err)
	}
}

// The agent ends, or is killed, while the keeper of a launch that failed is held. The list of them
// was in the memory of the agent alone.
func TestAKeeperThatIsHeldEndsAfterTheNextStartOfTheAgent(t *testing.T) {
	s := launcher(t)
	a, pid, _ := failHeldLaunch(t, s)
	s.crash()
	keeper := s.keeperOf(a.GetId())
	if keeper == 0 {
		t.Fatal("the keeper has ended by itself")
	}
	engine := proc.HoldText(t, strconv.Itoa(pid))
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
