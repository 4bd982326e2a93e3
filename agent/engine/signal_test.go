package engine

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/bursar/bursar/agent/process"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers/host"
)

// The process of an engine that has not begun waits, and would end without having begun. A pid that
// is another process's now, and a process that runs as another user, get nothing.
func TestSignalsThatNoProcessGets(t *testing.T) {
	sleeper := exec.Command("sleep", "1000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = sleeper.Process.Kill()
		_ = sleeper.Wait()
	})
	meter, err := host.NewMeter(host.Options{SafetyBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	pid := int32(sleeper.Process.Pid)
	identity, err := meter.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
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
