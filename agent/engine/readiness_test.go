package engine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/ready"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/osuser"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

// begins launches a shell that is ready when a file is there. The coordinator confirms it. The end
// of the test ends it.
func begins(t *testing.T, s *Engines, direct *launch.Direct, file string) (process *bursarv1.Process, logs string) {
	t.Helper()
	c := &confirms{confirm: func(request *bursarv1.ConfirmRequest) (*bursarv1.Allocation, error) {
		active := anEngine("a1", 7)
		active.Process = request.GetProcess()
		s.state.Locked(func(k *tracker.Tracker) { k.Observe(time.Now(), active, 0) })
		return active, nil
	}}
	user := osuser.Self()
	user.Name, user.Home = "me", "/"
	done, err := s.BeginLaunch(t.Context(), "a1")
	if err != nil {
		t.Fatal(err)
	}
	active, logs, err := s.Launch(t.Context(), Launch{
		Request:    &bursarv1.LaunchRequest{Id: "a1", Command: []string{"sleep", "1000"}},
		Allocation: &bursarv1.Allocation{Id: "a1", HostId: "h1", State: bursarv1.AllocationState_ALLOCATION_STATE_RESERVED},
		User:       user, Caller: "me@h1", Coordinator: c, Ready: &bursarv1.Readiness{Check: &bursarv1.Readiness_File{File: file}, Within: durationpb.New(time.Minute)},
	})
	done()
	if err != nil {
		t.Fatal(err)
	}
	process = active.GetProcess()
	proc.KillGroupAtEnd(t, int(process.GetPid()))
	t.Cleanup(func() {
		_ = syscall.Kill(int(process.GetReaperPid()), syscall.SIGKILL)
		proc.Until(t, 20*time.Second, 5*time.Millisecond, "the keeper has ended", func() bool {
			direct.Reap()
			return syscall.Kill(int(process.GetReaperPid()), 0) != nil
		})
	})
	return process, logs
}

// next is the next incarnation of the agent.
func next(t *testing.T, s *Engines) *Engines {
	t.Helper()
	var saved tracker.Snapshot
	s.state.Locked(func(k *tracker.Tracker) { saved = k.Snapshot() })
	s.Unwatch()
	return looked(t, Options{
		Meter: s.meter, Opener: s.opener, Cgroups: s.cgroups, Keeper: s.keeper, Records: s.records, LogDir: s.logDir, Sight: s.sight, Proc: "/proc",
	}, saved)
}

// report is the engine's part of the next Sync.
func (s *Engines) report() (r *bursarv1.EngineReport) {
	s.state.Locked(func(k *tracker.Tracker) {
		k.Resync()
		for _, report := range k.BuildSync(time.Now()).GetEngines() {
			r = report
		}
	})
	return r
}

func awaitPhase(t *testing.T, s *Engines, want bursarv1.Phase) {
	t.Helper()
	proc.Until(t, 30*time.Second, 5*time.Millisecond, "the phase is "+want.String(), func() bool { return s.report().GetPhase() == want })
}

// Incarnations of the agent that end between any two steps lose neither that the engine has begun
// nor its check.
func TestTheNextIncarnationKnowsThatAnEngineHasBegun(t *testing.T) {
	s, direct := launching(t)
	file := filepath.Join(t.TempDir(), "ready")
	_, logs := begins(t, s, direct, file)
	if r := s.report(); r.GetLogDirectory() != logs || r.GetPhase() != bursarv1.Phase_PHASE_STARTING {
		t.Errorf("the report is %v", r)
	}
	s = next(t, s)
	if r := s.report(); r.GetLogDirectory() != "" {
		t.Errorf("nothing was looked at, and the report is %v", r)
	}
	s.Watch(t.Context())
	if r := s.report(); r.GetLogDirectory() != logs || r.GetPhase() != bursarv1.Phase_PHASE_STARTING {
		t.Errorf("the next report is %v", r)
	}
	s = next(t, s)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Watch(t.Context())
	awaitPhase(t, s, bursarv1.Phase_PHASE_READY)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	s = next(t, s)
	s.Watch(t.Context())
	if r := s.report(); r.GetPhase() != bursarv1.Phase_PHASE_READY || r.GetLogDirectory() != logs {
		t.Errorf("the last report is %v", r)
	}
	s.Unwatch()
}

// A launch whose keeper has to end has begun nothing, as far as the coordinator has to know.
func TestALaunchThatIsNotOverHasNotBegun(t *testing.T) {
	s, direct := launching(t)
	process, _ := begins(t, s, direct, "/no/such")
	list := []launch.Unconfirmed{{ID: "a1", KeeperPID: process.GetReaperPid(), KeeperStartTime: process.GetReaperStartTime(), BootID: s.state.BootID()}}
	if err := s.records.PutUnconfirmed(list); err != nil {
		t.Fatal(err)
	}
	s = next(t, s)
	s.Watch(t.Context())
	if r := s.report(); r.GetLogDirectory() != "" || r.GetPhase() != 0 {
		t.Errorf("the report is %v", r)
	}
	s.Unwatch()
}

// The time that an engine has goes on while no agent runs.
func TestTheTimeOfACheckGoesOnWithoutAnAgent(t *testing.T) {
	s, direct := launching(t)
	begins(t, s, direct, "/no/such")
	past := launch.Begun{Ticks: 1, BootID: s.state.BootID()} // since the boot
	if err := s.records.PutBegun("a1", past); err != nil {
		t.Fatal(err)
	}
	s = next(t, s)
	s.Watch(t.Context())
	awaitPhase(t, s, bursarv1.Phase_PHASE_FAILED)
	if r := s.report(); !strings.Contains(r.GetPhaseReason(), "not ready within 1m0s") {
		t.Errorf("the report is %v", r)
	}
	s.Unwatch()
}

// If the keeper alone has ended, nothing looks any more: the engine must not start for ever.
func TestAnEngineWhoseKeeperWasKilledHasFailed(t *testing.T) {
	s, direct := launching(t)
	process, _ := begins(t, s, direct, "/no/such")
	if err := syscall.Kill(int(process.GetReaperPid()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	proc.Until(t, 20*time.Second, 5*time.Millisecond, "the keeper has ended", func() bool {
		direct.Reap()
		return syscall.Kill(int(process.GetReaperPid()), 0) != nil
	})
	awaitPhase(t, s, bursarv1.Phase_PHASE_FAILED)
	s.Unwatch()
}

// A check whose result the agent could not see is refused before anything is started.
func TestACheckThatCannotBeSeenIsRefused(t *testing.T) {
	s, _ := launching(t)
	s.sight = ready.Sight{Proc: "/proc", UID: 1, Keeper: "/no/such/keeper"}
	user := osuser.Self()
	user.UID, user.Home = 2, "/"
	for field, check := range map[string]*bursarv1.Readiness{
		"readiness.port":            {Check: &bursarv1.Readiness_Port{Port: 80}},
		"readiness.file":            {Check: &bursarv1.Readiness_File{File: "/x"}},
		"readiness.line.pattern":    {Check: &bursarv1.Readiness_Line{Line: &bursarv1.LineCheck{Pattern: "("}}},
		"readiness.command.command": {Check: &bursarv1.Readiness_Command{Command: &bursarv1.CommandCheck{Command: []string{"relative/path"}}}},
		"readiness.check":           {},
		"readiness.within":          {Check: &bursarv1.Readiness_Port{Port: 80}, Within: durationpb.New(25 * time.Hour)},
	} {
		_, _, err := s.Launch(t.Context(), Launch{
			Request: &bursarv1.LaunchRequest{Id: "a1", Command: []string{"true"}}, Allocation: &bursarv1.Allocation{Id: "a1", HostId: "h1"}, User: user, Ready: check,
			Coordinator: &confirms{confirm: func(*bursarv1.ConfirmRequest) (*bursarv1.Allocation, error) {
				return nil, errors.New("it was started")
			}},
		})
		if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
