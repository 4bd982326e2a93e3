package engine

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers/host"
)

// The process of an engine that has not begun waits, and would end without having begun. A pid that
// is another process's now, and a process that runs as another user, get nothing.
func TestSignalsThatNoProcessGets(t *testing.T) {
	meter, identity := sleeper(t)
	pid := identity.PID
	own := uint32(os.Geteuid())
	other := own + 1
	for name, test := range map[string]struct {
		id       string
		process  *bursarv1.Process
		launches bool
		want     string
	}{
		"no such engine":       {"b", &bursarv1.Process{Pid: pid, StartTime: identity.StartTime, Uid: &own}, false, "no such engine"},
		"it has not begun":     {"a", &bursarv1.Process{Pid: pid, StartTime: identity.StartTime, Uid: &own}, true, "has not begun yet"},
		"the pid is another's": {"a", &bursarv1.Process{Pid: pid, StartTime: identity.StartTime + 1, Uid: &own}, false, "has ended"},
		"another user's":       {"a", &bursarv1.Process{Pid: pid, StartTime: identity.StartTime, Uid: &other}, false, "does not run as the engine's user"},
		"of a user not known":  {"a", &bursarv1.Process{Pid: pid, StartTime: identity.StartTime}, false, "not known as which user"},
	} {
		if name == "another user's" && other == 0 {
			continue
		}
		s := withEngines(t, &bursarv1.Allocation{
			Id: "a", HostId: "h1", State: bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE, Revision: 1, Process: test.process,
			Entitled: &bursarv1.Resource{}, Requested: &bursarv1.Resource{},
		})
		s.opener = process.NewOpener(meter, "/proc")
		if test.launches {
			ended, err := s.BeginLaunch(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			defer ended()
		}
		err := s.Signal(t.Context(), test.id, bursarv1.Signal_SIGNAL_TERM, "alice@h1")
		if refused, ok := errors.AsType[*SignalError](err); !ok || !strings.Contains(refused.Why, test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	if _, err := meter.Identify(pid); err != nil {
		t.Errorf("the process has got a signal: %v", err)
	}
}

// A coordinator, and each caller of one, can name any process of the host. The agent measures it,
// and sends it no signal.
func TestAnEngineThatOnlyACoordinatorNamesIsLeftAlone(t *testing.T) {
	meter, identity := sleeper(t)
	for name, named := range map[string]*bursarv1.Process{
		"the pid alone":  {Pid: identity.PID},
		"the process":    {Pid: identity.PID, StartTime: identity.StartTime},
		"all about it":   {Pid: identity.PID, StartTime: identity.StartTime, Uid: &identity.UID, BootId: "boot-1", Verified: true, Launched: true},
		"a keeper of it": {Pid: identity.PID, StartTime: identity.StartTime, Uid: new(uint32), ReaperPid: &identity.PID, ReaperStartTime: &identity.StartTime},
	} {
		s := looked(t, Options{Meter: meter, Opener: process.NewOpener(meter, "/proc")}, tracker.Snapshot{BootID: "boot-1"})
		s.state.Locked(func(known *tracker.Tracker) {
			known.Observe(time.Now(), &bursarv1.Allocation{
				Id: "a", HostId: "h1", State: bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE, Revision: 1, Process: named,
				Entitled: &bursarv1.Resource{}, Requested: &bursarv1.Resource{},
			}, 1)
		})
		s.WatchEngine(t.Context(), "a")
		if err := s.Signal(t.Context(), "a", bursarv1.Signal_SIGNAL_TERM, "carl"); err == nil || !strings.Contains(err.Error(), onlyHeardOf) {
			t.Errorf("%s: %v, want %q", name, err, onlyHeardOf)
		}
		s.Stop(t.Context(), &bursarv1.StopOrder{AllocationId: "a"})
		s.state.Locked(func(known *tracker.Tracker) {
			if reports := known.BuildSync(time.Now()).GetEngines(); len(reports) != 1 || reports[0].GetStopError() != onlyHeardOf {
				t.Errorf("%s: the coordinator does not hear that it is not stopped: %v", name, reports)
			}
		})
		if s.set.find("a") != nil && s.set.find("a").stop != nil {
			t.Errorf("%s: it is stopped", name)
		}
	}
	if _, err := meter.Identify(identity.PID); err != nil {
		t.Errorf("the process has got a signal: %v", err)
	}
}

// sleeper starts a process that does nothing.
func sleeper(t *testing.T) (*host.Meter, host.Identity) {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	meter, err := host.NewMeter(host.Options{SafetyBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	identity, err := meter.Identify(int32(cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return meter, identity
}
