package callers

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/agent/socket"
	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Only the agent reads these fields: they go to no coordinator.
func TestLaunchRefusesWhatTheContractDoes(t *testing.T) {
	for field, r := range map[string]*bursarv1.LaunchRequest{
		"command":           {Command: make([]string, 4097)},
		"command[1]":        {Command: []string{"x", "a\x00b"}},
		"environment":       {Command: []string{"x"}, Environment: map[string]string{"A=B": "x"}},
		"working_directory": {Command: []string{"x"}, WorkingDirectory: "home"},
		"logs.directory":    {Command: []string{"x"}, Logs: &bursarv1.LaunchLogs{Directory: "/" + strings.Repeat("x", 5000)}},
		"logs.max_bytes":    {Command: []string{"x"}, Logs: &bursarv1.LaunchLogs{MaxBytes: -1}},
		"logs.keep":         {Command: []string{"x"}, Logs: &bursarv1.LaunchLogs{Keep: new(int32(1 << 30))}},
		"user":              {Command: []string{"x"}, User: "a b"},
	} {
		err := CheckLaunch(r)
		var refused *connect.Error
		if !errors.As(err, &refused) || refused.Code() != connect.CodeInvalidArgument {
			t.Errorf("%s: %v", field, err)
			continue
		}
		if !strings.HasPrefix(refused.Message(), field+": ") {
			t.Errorf("%s: %v", field, err)
		}
	}
	whole := &bursarv1.LaunchRequest{
		Command: []string{"x", ""}, Environment: map[string]string{"A": ""}, WorkingDirectory: "/", User: "DOM.x@y",
		Logs: &bursarv1.LaunchLogs{Directory: "/l", MaxBytes: 1, Keep: new(int32(0))},
	}
	if err := CheckLaunch(whole); err != nil {
		t.Error(err)
	}
}

// A keeper that its user stops is waited for, each time with some descriptors: no user may have
// the agent wait for hundreds.
func TestLaunchesOfAUserCountAsWaiting(t *testing.T) {
	admitted := admission.New(socket.Limits(100, 1000, 1), admission.Options{
		Refused: prometheus.NewCounterVec(prometheus.CounterOpts{}, []string{"reason"}), Log: slog.New(slog.DiscardHandler),
	})
	s := newSubject(Options{Admit: admitted.Wait}, nil)
	user := socket.NewCaller(identity.Actor{Name: "mallory@h1", Users: []string{"mallory"}}, 4711, "mallory")
	ended, err := admitted.Wait(user.Counted())
	if err != nil {
		t.Fatal(err)
	}
	defer ended()
	ctx := socket.WithCaller(t.Context(), user)
	_, err = s.EngineService(ctx).Launch(ctx, &bursarv1.LaunchRequest{Id: "a", Command: []string{"x"}})
	if connect.CodeOf(err) != connect.CodeResourceExhausted || !strings.Contains(err.Error(), "too many requests") {
		t.Errorf("%v", err)
	}
}
