package agent_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/agent"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

// leftBehind launches an engine whose main process starts a daemon and ends with code 3. The daemon
// is in a session of its own, and nobody has seen it with its parent.
func (s *subject) leftBehind() (id string, daemon *proc.Held) {
	s.t.Helper()
	file := filepath.Join(folder(s.t), "pid")
	a := s.mustLaunch("(setsid sh -c 'echo $$ > " + file + ".new; mv " + file + ".new " + file + "; exec sleep 1000' &); exit 3").GetAllocation()
	var text []byte
	until(s.t, "the daemon runs", func() bool {
		var err error
		text, err = os.ReadFile(file)
		return err == nil
	})
	daemon = proc.HoldText(s.t, string(text))
	s.t.Cleanup(func() { _ = daemon.Signal(syscall.SIGKILL) })
	s.awaitLeaderEnd(a.GetId())
	return a.GetId(), daemon
}

// awaitLeaderEnd waits until the coordinator knows how the main process of an active engine ended.
func (s *subject) awaitLeaderEnd(id string) {
	s.t.Helper()
	s.coordinator.await("the main process's end is known", func() bool {
		a := s.coordinator.allocations[id]
		return a.GetState() == active && a.GetLeaderEnd().GetExitStatus().GetCode() == 3 && a.GetLeaderEnd().GetTime() != nil
	})
}

// expectLeft checks the end of such an engine.
func (s *subject) expectLeft(id, reason string) {
	s.t.Helper()
	a := s.coordinator.awaitState(id, released)
	if !strings.HasPrefix(a.GetReason(), reason) || a.GetExitStatus().GetCode() != 3 || a.GetExitStatus().GetSignal() != 0 || a.GetLeaderEnd() == nil {
		s.t.Errorf("%v; want the reason %q", a, reason)
	}
}

const (
	lastKilled = "last process was killed by SIGKILL; main process had ended with exit code 3 at 20"
	lastEnded  = "last process ended; main process had ended with exit code 3 at 20"
)

func TestADaemonisedEngineEndsWithItsDaemon(t *testing.T) {
	s := launcher(t)
	id, daemon := s.leftBehind()
	s.ticks(3)
	s.coordinator.awaitState(id, active)
	if err := daemon.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.expectLeft(id, lastKilled)
}

func TestADaemonisedEngineSurvivesARestartOfTheAgent(t *testing.T) {
	s := launcher(t)
	id, daemon := s.leftBehind()
	s.crash()
	s.coordinator.do(func() { // and a new leader that has lost this
		s.coordinator.epoch++
		s.coordinator.allocations[id].LeaderEnd = nil
	})
	s.start()
	s.awaitLeaderEnd(id)
	s.ticks(3)
	s.coordinator.awaitState(id, active)
	if err := daemon.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.expectLeft(id, lastKilled)
}

// Without its keeper, the daemon is known by its pid and its start.
func TestADaemonisedEngineSurvivesItsKeeper(t *testing.T) {
	s := launcher(t)
	id, daemon := s.leftBehind()
	pid := s.current(id).GetProcess().GetReaperPid()
	if pid == 0 || syscall.Kill(int(pid), syscall.SIGKILL) != nil {
		t.Fatalf("its keeper is process %d", pid)
	}
	s.ticks(3)
	s.crash()
	s.start()
	s.ticks(3)
	s.awaitLeaderEnd(id)
	if err := daemon.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.expectLeft(id, lastEnded)
}

func TestStopEndsADaemonisedEngine(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		s := launcher(t)
		id, daemon := s.leftBehind()
		if restarts {
			s.crash()
			s.start()
		}
		if _, err := s.Stop(t.Context(), &bursarv1.StopRequest{Id: id, Reason: "enough"}); err != nil {
			t.Fatal(err)
		}
		s.expectLeft(id, "stopped: enough")
		if proc.Alive(daemon.PID) {
			t.Error("the daemon goes on")
		}
	}
}

func TestPolicyStopsWhatAMainProcessLeaves(t *testing.T) {
	s := newLauncher(t)
	s.config.Engines.Policies = []agent.PolicyConfig{{OnLeaderEnd: "stop"}}
	s.start()
	file := filepath.Join(folder(t), "pid")
	a := s.mustLaunch("setsid sh -c 'echo $$ > " + file + "; exec sleep 1000' & exit 3").GetAllocation()
	s.expectLeft(a.GetId(), "stopped: its main process ended with exit code 3 at 20")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if daemon := strings.TrimSpace(string(text)); proc.Alive(proc.HoldText(t, daemon).PID) {
		t.Error("the daemon goes on")
	}
}

// An engine that its launcher has started may leave its tree, too. What the agent has seen of it is
// remembered, and its launcher may say how the main process ended.
func TestWhatALaunchersEngineLeavesIsRemembered(t *testing.T) {
	s := run(t)
	id, root, inner := s.tree("wait")
	told := &bursarv1.ConfirmRequest{Id: id, LeaderEnd: &bursarv1.LeaderEnd{ExitStatus: &bursarv1.ExitStatus{Code: new(int32(3))}}}
	if _, err := s.Confirm(t.Context(), told); connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "runs") {
		t.Errorf("while it runs: %v", err)
	}
	if err := root.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = root.Wait()
	if _, err := s.Confirm(t.Context(), told); err != nil {
		t.Error(err)
	}
	s.coordinator.await("its end is known", func() bool { return s.coordinator.allocations[id].GetLeaderEnd().GetExitStatus() != nil })
	stored := regexp.MustCompile(`"leaderEnd":\s*\{[^}]*"exitStatus"`)
	until(t, "it is stored", func() bool {
		files, _ := filepath.Glob(filepath.Join(s.config.StateDir, "*"))
		return slices.ContainsFunc(files, func(file string) bool {
			text, _ := os.ReadFile(file)
			return stored.Match(text)
		})
	})
	s.crash()
	s.start()
	s.ticks(3)
	s.coordinator.awaitState(id, active)
	if err := inner.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if a := s.coordinator.awaitState(id, released); !strings.HasPrefix(a.GetReason(), "last process ended; main process had ") || a.GetExitStatus() == nil {
		t.Errorf("%v", a)
	}
	if _, err := s.Confirm(t.Context(), told); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("of an engine that has ended: %v", err)
	}
}
