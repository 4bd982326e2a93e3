package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

func (s *subject) engines() bursarv1connect.EngineServiceClient {
	return bursarv1connect.NewEngineServiceClient(s.http, "http://agent")
}

func (s *subject) signal(id string, signal bursarv1.Signal) error {
	_, err := s.engines().Signal(s.t.Context(), &bursarv1.SignalRequest{Id: id, Signal: signal})
	return err
}

// said waits until an engine has written a text to its standard output.
func said(t *testing.T, logs, want string) {
	t.Helper()
	until(t, "the engine has written "+want, func() bool {
		out, _ := os.ReadFile(filepath.Join(logs, "stdout"))
		return string(out) == want
	})
}

// The script names each signal that it gets. Its child would, too.
const tellsSignals = `for s in HUP INT QUIT USR1 USR2 TERM; do trap "echo $s" $s; done
sh -c 'for s in HUP INT QUIT USR1 USR2 TERM; do trap "echo child $s" $s; done; while :; do sleep 0.01; done' &
echo on
while :; do sleep 0.01; done`

func TestSignalsReachTheMainProcessAlone(t *testing.T) {
	s := launcher(t)
	r := s.mustLaunch(tellsSignals, asNobody)
	id, want := r.GetAllocation().GetId(), "on\n"
	said(t, r.GetLogDirectory(), want)
	s.coordinator.goAway() // it is not needed
	for _, signal := range []bursarv1.Signal{
		bursarv1.Signal_SIGNAL_HUP, bursarv1.Signal_SIGNAL_INT, bursarv1.Signal_SIGNAL_QUIT,
		bursarv1.Signal_SIGNAL_USR1, bursarv1.Signal_SIGNAL_USR2, bursarv1.Signal_SIGNAL_TERM,
	} {
		if err := s.signal(id, signal); err != nil {
			t.Fatalf("%s: %v", signal, err)
		}
		want += strings.TrimPrefix(signal.String(), "SIGNAL_") + "\n"
		said(t, r.GetLogDirectory(), want)
	}
	s.coordinator.comeBack()
	if !strings.Contains(s.log.String(), "an engine was sent a signal") {
		t.Error("the log does not say who has sent a signal")
	}
}

func TestSignalsThatAreNotSent(t *testing.T) {
	s := run(t)
	reservation := s.allocate(10)
	gone, cmd := s.engine(10, "sleep 1000 & exec sleep 1000")
	elsewhere := &bursarv1.Allocation{Id: "on another host", HostId: "h2", State: active}
	s.coordinator.do(func() { s.coordinator.allocations[elsewhere.GetId()] = elsewhere })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for name, call := range map[string]struct {
		id     string
		signal bursarv1.Signal
		code   connect.Code
		words  string
	}{
		"no id":                      {"", 15, connect.CodeInvalidArgument, "id"},
		"no signal":                  {gone.GetId(), 0, connect.CodeInvalidArgument, "signal"},
		"KILL":                       {gone.GetId(), 9, connect.CodeInvalidArgument, "signal"},
		"of a reservation":           {reservation.GetId(), 15, connect.CodeFailedPrecondition, "the agent knows no process of it"},
		"its main process has ended": {gone.GetId(), 15, connect.CodeFailedPrecondition, "ended"},
		"of another host":            {elsewhere.GetId(), 15, connect.CodeFailedPrecondition, "is on host h2, and this is the agent of h1: ask that host's agent, or a coordinator with a token"},
		"of nobody":                  {"of nobody", 15, connect.CodeNotFound, "no such allocation"},
	} {
		err := s.signal(call.id, call.signal)
		if connect.CodeOf(err) != call.code || !strings.Contains(err.Error(), call.words) {
			t.Errorf("%s: %v; want %s and %q", name, err, call.code, call.words)
		}
	}
}

// An engine gets signals of its user, of those who run as its account, and of trusted callers. So
// it is with stops, also if the engine's request is that of somebody elsewhere.
func TestWhoMaySignalAndStopTheEnginesOfAHost(t *testing.T) {
	needsRoot(t)
	s := launcher(t)
	s.coordinator.onlyOwn = true
	r := s.mustLaunch(tellsSignals, asNobody) // of user alice
	id := r.GetAllocation().GetId()
	said(t, r.GetLogDirectory(), "on\n")
	const stranger = 61234
	if out := s.as(stranger, "signal", id); !strings.HasPrefix(out, "permission_denied") || !strings.Contains(out, "may not send it a signal") {
		t.Errorf("a stranger's signal: %s", out)
	}
	if got := s.log.String(); !strings.Contains(got, "audit=true call=signal allocation_id="+id) || !strings.Contains(got, "uid=61234") {
		t.Error("there is no audit record of a stranger's signal")
	}
	if out := s.as(stranger, "stop", id); !strings.HasPrefix(out, "permission_denied") {
		t.Errorf("a stranger's stop: %s", out)
	}
	if out := s.as(nobody, "signal", id); out != "sent" {
		t.Errorf("who runs it sends a signal: %s", out)
	}
	said(t, r.GetLogDirectory(), "on\nUSR1\n")
	if err := s.signal(id, bursarv1.Signal_SIGNAL_USR2); err != nil {
		t.Errorf("root: %v", err)
	}
	said(t, r.GetLogDirectory(), "on\nUSR1\nUSR2\n")
	if out := s.as(nobody, "stop", id); out != "stopped" {
		t.Errorf("who runs it stops it: %s", out)
	}
	s.coordinator.mu.Lock()
	reason := s.coordinator.stops[id].GetReason()
	s.coordinator.mu.Unlock()
	if !strings.HasPrefix(reason, "stopped by nobody@h1") {
		t.Errorf("the reason is %q", reason)
	}
}
