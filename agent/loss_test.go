package agent_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/agent/statefile"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// stateFile is where the agent keeps what it knows.
func (s *subject) stateFile() string { return filepath.Join(s.config.StateDir, "state.json") }

// state is what an agent that has stopped has left.
func (s *subject) state() statefile.State {
	s.t.Helper()
	dir, err := statefile.Open(s.config.StateDir)
	if err != nil {
		s.t.Fatal(err)
	}
	defer dir.Close()
	state, err := dir.Load()
	if err != nil {
		s.t.Fatal(err)
	}
	return state
}

// rewrite changes it.
func (s *subject) rewrite(change func(state *statefile.State)) {
	s.t.Helper()
	state := s.state()
	change(&state)
	content, err := statefile.Encode(state)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(s.stateFile(), content, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// claim has coordinator and state file say that this is the engine's process, and the coordinator
// want it stopped.
func (s *subject) claim(id string, process *bursarv1.Process) {
	s.t.Helper()
	s.rewrite(func(state *statefile.State) {
		state.BootID = process.GetBootId()
		for _, engine := range state.Engines {
			engine.Process = process
		}
	})
	s.coordinator.do(func() {
		s.coordinator.put(s.coordinator.allocations[id], func(a *bursarv1.Allocation) { a.Process = process })
		s.coordinator.stops[id] = &bursarv1.StopOrder{AllocationId: id, Reason: "out of the way"}
	})
}

// untouched checks that a process has got no signal, and that the agent does not take it for an
// engine.
func (s *subject) untouched(cmd *exec.Cmd) {
	s.t.Helper()
	s.ticks(5)
	if zombie(cmd.Process.Pid) {
		s.t.Error("a process that is no engine was ended")
	}
	if got := s.coordinator.reported(); len(got) != 0 {
		s.t.Errorf("reported: %v", got)
	}
}

func TestProcessThatHasThePidOfAnEngineIsLeftAlone(t *testing.T) {
	s := run(t)
	a, _ := s.engine(100, "exec sleep 1000")
	s.stop()
	other := process(t, "exec sleep 1000")
	s.claim(a.GetId(), &bursarv1.Process{
		Pid: int32(other.Process.Pid), StartTime: a.GetProcess().GetStartTime() - 100, BootId: a.GetProcess().GetBootId(),
	})
	s.start()
	if end := s.coordinator.awaitState(a.GetId(), released); end.GetReason() != "process ended" {
		t.Errorf("reason %q", end.GetReason())
	}
	s.untouched(other)
}

// After a boot the pids and start times of engines may be those of anybody.
func TestEnginesOfAnotherBootHaveEnded(t *testing.T) {
	for name, lose := range map[string]func(s *subject) error{
		"with its state":    func(*subject) error { return nil },
		"without its state": func(s *subject) error { return os.Remove(s.stateFile()) },
	} {
		t.Run(name, func(t *testing.T) {
			s := run(t)
			a, cmd := s.engine(100, "exec sleep 1000")
			s.stop()
			s.claim(a.GetId(), &bursarv1.Process{Pid: a.GetProcess().GetPid(), StartTime: a.GetProcess().GetStartTime(), BootId: "the boot before"})
			if err := lose(s); err != nil {
				t.Fatal(err)
			}
			s.start()
			if end := s.coordinator.awaitState(a.GetId(), released); end.GetReason() != "host rebooted" {
				t.Errorf("reason %q", end.GetReason())
			}
			s.untouched(cmd)
		})
	}
}

// What an agent wrote while the clock was wrong keeps the next one from nothing.
func TestClockThatWasSetBetweenTwoAgents(t *testing.T) {
	for name, by := range map[string]time.Duration{"back by an hour": time.Hour, "forward by an hour": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			s := run(t)
			a, cmd := s.engine(100, "exec sleep 1000")
			s.stop()
			s.rewrite(func(state *statefile.State) {
				state.SavedAt = state.SavedAt.Add(by)
				state.Incarnation += uint64(by.Milliseconds())
				s.coordinator.host.Incarnation = state.Incarnation
			})
			before := s.coordinator.host.GetIncarnation()
			s.start()
			s.ticks(3)
			if got := s.coordinator.host.GetIncarnation(); got <= before {
				t.Errorf("incarnation %d after %d", got, before)
			}
			if got := s.coordinator.awaitState(a.GetId(), active); got.GetRevision() != a.GetRevision() || !s.coordinator.reported()[a.GetId()] {
				t.Errorf("the engine: %v", got)
			}
			if zombie(cmd.Process.Pid) {
				t.Error("its process was ended")
			}
		})
	}
}

func TestStateOfANewerAgentIsLeftAsItIs(t *testing.T) {
	s := run(t)
	_, cmd := s.engine(100, "exec sleep 1000")
	s.stop()
	content, err := os.ReadFile(s.stateFile())
	if err != nil {
		t.Fatal(err)
	}
	newer := bytes.Replace(content, []byte(`"version":1`), []byte(`"version":3`), 1)
	if err := os.WriteFile(s.stateFile(), newer, 0o600); err != nil {
		t.Fatal(err)
	}
	err = s.runError()
	var version *statefile.VersionError
	if !errors.As(err, &version) || !strings.Contains(err.Error(), s.stateFile()) || !strings.Contains(err.Error(), "want format 2 or older, or an agent of that version") {
		t.Errorf("%v", err)
	}
	if got, err := os.ReadFile(s.stateFile()); err != nil || !bytes.Equal(got, newer) {
		t.Errorf("the file: %q, %v", got, err)
	}
	if left, _ := filepath.Glob(s.stateFile() + "*"); len(left) != 1 {
		t.Errorf("files: %v", left)
	}
	if zombie(cmd.Process.Pid) {
		t.Error("the engine was ended")
	}
	if err := os.WriteFile(s.stateFile(), content, 0o600); err != nil {
		// as the newer agent would write it for this one
		t.Fatal(err)
	}
	s.start()
	s.ticks(2)
	if got := s.coordinator.reported(); len(got) != 1 {
		t.Errorf("reported: %v", got)
	}
}

// fill has nothing written any more to where the state is, by root neither; free ends that.
func (s *subject) fill() (free func()) {
	s.t.Helper()
	blocked := s.stateFile() + ".new"
	for err := os.ErrExist; errors.Is(err, os.ErrExist); {
		// as long as something is just being written
		err = os.Mkdir(blocked, 0o700)
	}
	if err := os.WriteFile(filepath.Join(blocked, "x"), nil, 0o600); err != nil {
		s.t.Fatal(err)
	}
	for path := range s.logs() {
		// the agent does not write to one any more that others have written to
		log, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the one before the last, which the agent has just removed
		}
		if err != nil {
			s.t.Fatal(err)
		}
		if _, err := log.WriteString("x"); err != nil {
			s.t.Fatal(err)
		}
		_ = log.Close()
	}
	return func() {
		s.t.Helper()
		if err := os.RemoveAll(blocked); err != nil {
			s.t.Fatal(err)
		}
	}
}

// failed ends an agent that cannot store what it knows.
func (s *subject) failed() {
	s.t.Helper()
	s.cancel()
	s.http.CloseIdleConnections()
	select {
	case err := <-s.ended:
		if err == nil || !strings.Contains(err.Error(), "write state") {
			s.t.Errorf("the agent ended with %v, want that its state was not written", err)
		}
		s.ended <- nil
	case <-time.After(20 * time.Second):
		s.t.Fatal("the agent does not end")
	}
}

// While nothing can be written the agent goes on, and a new one starts: engines are measured, told
// and released. Only what would be forgotten with it is refused, until there is room again.
func TestDiskThatIsFullAndIsNotAnyMore(t *testing.T) {
	s := run(t)
	dies, cmd := s.engine(100, "exec sleep 1000")
	free := s.fill()
	b := s.allocate(100)
	lives := process(t, "exec sleep 1000")
	if _, err := s.confirm(b.GetId(), lives.Process.Pid); err == nil || !strings.Contains(err.Error(), "could not store") {
		t.Errorf("confirmed without being stored: %v", err)
	}
	s.refusal("the state cannot be stored: write state: ")
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	s.coordinator.awaitState(dies.GetId(), released)
	s.failed()
	if got := s.state().Engines; len(got) != 1 || got[0].GetId() != dies.GetId() {
		t.Errorf("left: %v, want what was there when there was room", got)
	}
	s.start()
	s.ticks(3)
	s.coordinator.await("the engine that the file does not know is reported", func() bool {
		return slices.ContainsFunc(s.coordinator.syncs, func(q *bursarv1.SyncRequest) bool {
			return q.GetIncarnation() == s.coordinator.host.GetIncarnation() && slices.ContainsFunc(q.GetEngines(), func(r *bursarv1.EngineReport) bool {
				return r.GetAllocationId() == b.GetId()
			})
		})
	})
	free()
	if _, err := s.confirm(b.GetId(), lives.Process.Pid); err != nil {
		t.Errorf("with room: %v", err)
	}
	s.refusal("")
	s.stop()
	if got := s.state().Engines; len(got) != 1 || got[0].GetId() != b.GetId() {
		t.Errorf("left in the end: %v", got)
	}
	if zombie(lives.Process.Pid) {
		t.Error("the engine was ended")
	}
	s.coordinator.awaitState(b.GetId(), active)
}
