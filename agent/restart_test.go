package agent_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/agent"
	"github.com/bursar/bursar/agent/statefile"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// logs are the content of those of the state file, by path.
func (s *subject) logs() map[string][]byte {
	s.t.Helper()
	paths, err := filepath.Glob(filepath.Join(s.config.StateDir, "state-*.log"))
	if err != nil {
		s.t.Fatal(err)
	}
	logs := make(map[string][]byte)
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the agent has just removed it
		}
		if err != nil {
			s.t.Fatal(err)
		}
		logs[path] = content
	}
	return logs
}

// crash ends the agent and leaves what it would leave if it were killed now.
func (s *subject) crash() {
	s.t.Helper()
	left := s.logs()
	file, err := os.ReadFile(s.stateFile())
	if err != nil {
		s.t.Fatal(err)
	}
	left[s.stateFile()] = file
	s.stop()
	for path, content := range left {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
}

func TestKilledAgentTakesItsEnginesUpAgain(t *testing.T) {
	s := run(t)
	lives, _ := s.engine(100, "exec sleep 1000")
	dies, cmd := s.engine(100, "exec sleep 1000")
	first := s.coordinator.host.GetIncarnation()
	s.crash()
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	s.start()
	s.coordinator.awaitState(dies.GetId(), released)
	if got := s.coordinator.host.GetIncarnation(); got <= first {
		t.Errorf("incarnation %d after %d", got, first)
	}
	if got := s.coordinator.reported(); !got[lives.GetId()] || len(got) != 1 {
		t.Errorf("reported: %v", got)
	}
	s.ticks(2)
	if got := s.coordinator.awaitState(lives.GetId(), active); got.GetRevision() != lives.GetRevision() {
		t.Errorf("the engine that lives was changed: %v", got)
	}
}

func TestAgentWithoutItsStateTakesEnginesFromTheCoordinator(t *testing.T) {
	for name, content := range map[string]string{"lost": "", "damaged": `{"version":1,"checksum":"x","state":{}}`} {
		t.Run(name, func(t *testing.T) {
			s := run(t)
			lives, _ := s.engine(100, "exec sleep 1000")
			dies, cmd := s.engine(100, "exec sleep 1000")
			first := s.coordinator.host.GetIncarnation()
			s.stop()
			file := filepath.Join(s.config.StateDir, "state.json")
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			if content != "" {
				if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			s.start()
			s.coordinator.awaitState(dies.GetId(), released)
			s.coordinator.awaitState(lives.GetId(), active)
			if got := s.coordinator.host.GetIncarnation(); got <= first {
				t.Errorf("incarnation %d after %d", got, first)
			}
			if aside, _ := filepath.Glob(file + ".aside-*"); (len(aside) == 1) != (content != "") {
				t.Errorf("set aside: %v", aside)
			}
		})
	}
}

func TestRunningAgentNoticesNothingOfARestartOfTheCoordinator(t *testing.T) {
	s := run(t)
	a, cmd := s.engine(100, "exec sleep 1000")
	s.coordinator.goAway()
	s.coordinator.do(func() { s.coordinator.epoch++ })
	// An engine that ends in the meantime is not forgotten.
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	s.coordinator.comeBack()
	s.coordinator.awaitState(a.GetId(), released)
}

func TestEngineConfirmedPastTheAgentIsTakenOver(t *testing.T) {
	s := run(t)
	a := s.allocate(100)
	cmd := process(t, "exec sleep 1000")
	s.coordinator.do(func() { // by a client that knows the pid alone
		s.coordinator.put(s.coordinator.allocations[a.GetId()], func(a *bursarv1.Allocation) {
			a.State, a.Process = active, &bursarv1.Process{Pid: int32(cmd.Process.Pid)}
		})
	})
	s.coordinator.await("its use is known", func() bool {
		return s.coordinator.allocations[a.GetId()].GetMeasured().GetMemoryBytes() > 0
	})
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	s.coordinator.awaitState(a.GetId(), released)
}

// runError starts an agent that cannot run and returns why.
func (s *subject) runError() error {
	s.t.Helper()
	s.begin()
	select {
	case err := <-s.ended:
		s.ended <- nil
		return err
	case <-time.After(20 * time.Second):
		s.t.Fatal("the agent runs")
		return nil
	}
}

// A host that has listened to a server with the highest epoch there is comes back to its
// coordinator by --forget-epoch. Without it the agent does not become ready.
func TestAnEpochThatNobodyCanReachIsForgotten(t *testing.T) {
	s := newSubject(t)
	s.coordinator.do(func() { s.coordinator.epoch = 1<<48 - 1 })
	s.start()
	lives, _ := s.engine(100, "exec sleep 1000")
	s.stop()
	s.coordinator.do(func() { s.coordinator.epoch, s.coordinator.host = 4, nil })
	s.forgetEpoch = true
	s.start()
	s.allocate(1)
	if !s.coordinator.reported()[lives.GetId()] {
		t.Error("the engine that runs is not reported")
	}
}

func TestStateOfANewerAgentIsRefused(t *testing.T) {
	s := newSubject(t)
	if err := os.MkdirAll(s.config.StateDir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(s.config.StateDir, "state.json")
	if err := os.WriteFile(file, []byte(`{"version":99}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var newer *statefile.VersionError
	if err := s.runError(); !errors.As(err, &newer) || !strings.Contains(err.Error(), file) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("the file must stay: %v", err)
	}
}

func TestStateOfAnotherHost(t *testing.T) {
	s := run(t)
	s.engine(100, "exec sleep 1000")
	s.stop()
	s.config.HostID = "h2"
	var wrong *agent.ConfigError
	if err := s.runError(); !errors.As(err, &wrong) || wrong.Field != "hostId" {
		t.Errorf("with engines of this boot: %v", err)
	}
}

func TestStateOfAnotherHostWithoutEnginesIsSetAside(t *testing.T) {
	s := run(t)
	s.stop()
	s.config.HostID = "h2"
	s.start()
	if aside, _ := filepath.Glob(filepath.Join(s.config.StateDir, "state.json.aside-*")); len(aside) != 1 {
		t.Errorf("set aside: %v", aside)
	}
}

func TestSecondAgentIsRefused(t *testing.T) {
	s := run(t)
	other := newSubject(t)
	other.config.StateDir = s.config.StateDir
	var dir *statefile.InUseError
	if err := other.runError(); !errors.As(err, &dir) {
		t.Errorf("the same state directory: %v", err)
	}
	other = newSubject(t)
	other.config.Socket = s.config.Socket
	var socket *agent.SocketInUseError
	if err := other.runError(); !errors.As(err, &socket) || socket.Path != s.config.Socket {
		t.Errorf("the same socket: %v", err)
	}
	s.allocate(10) // the first one goes on
}

func TestReplacedAgentEnds(t *testing.T) {
	for name, replace := range map[string]func(c *coordinator){
		"told to": func(c *coordinator) { c.action = bursarv1.SyncAction_SYNC_ACTION_SHUTDOWN },
		"refused": func(c *coordinator) {
			c.epoch++
			c.host = &bursarv1.RegisterRequest{Incarnation: 1 << 62}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := run(t)
			_, cmd := s.engine(10, "exec sleep 1000")
			s.coordinator.do(func() { replace(s.coordinator) })
			select {
			case err := <-s.ended:
				if !errors.Is(err, agent.ErrReplaced) {
					t.Errorf("%v", err)
				}
				s.ended <- nil
			case <-time.After(20 * time.Second):
				t.Fatal("the agent goes on")
			}
			if zombie(cmd.Process.Pid) {
				t.Error("its engine has ended")
			}
		})
	}
}

func TestConfirmIsNotAnsweredBeforeItIsStored(t *testing.T) {
	s := run(t)
	a := s.allocate(10)
	free := s.fill()
	cmd := process(t, "exec sleep 1000")
	if _, err := s.confirm(a.GetId(), cmd.Process.Pid); err == nil || !strings.Contains(err.Error(), "could not store") {
		t.Errorf("%v", err)
	}
	free()
	if _, err := s.confirm(a.GetId(), cmd.Process.Pid); err != nil {
		t.Errorf("again, with room: %v", err)
	}
}
