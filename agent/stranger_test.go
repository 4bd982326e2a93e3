package agent_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/agent"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestAgentOfAnothersHostStartsNothingAndComesBackWhenItIsTaken(t *testing.T) {
	s := newSubject(t)
	s.coordinator.stranger = true
	s.begin()
	defer s.stop()
	status := func(want string) func() bool { return func() bool { return strings.Contains(s.agent.Status(), want) } }
	until(t, "status", status("another agent has this hostId"))
	_, err := s.Allocate(t.Context(), request(10))
	if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "host h1 has another agent") {
		t.Errorf("allocate: %v", err)
	}
	_, err = s.Confirm(t.Context(), &bursarv1.ConfirmRequest{Id: "a", Address: "x:1"})
	if connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("confirm: %v", err)
	}
	s.coordinator.do(func() { s.coordinator.stranger = false })
	until(t, "status", status("a coordinator answers"))
	if _, err := s.Allocate(t.Context(), request(10)); err != nil {
		t.Error(err)
	}
	s.coordinator.do(func() {
		if r := s.coordinator.host; r.GetPidNamespace() == "" || r.GetUptime().AsDuration() < time.Second {
			t.Errorf("it does not say who it is: %v", r)
		}
	})
}

func TestRefusalOfAStrangerIsUnwrapped(t *testing.T) {
	cause := errors.New("why")
	if err := error(&agent.StrangerError{Err: cause}); !errors.Is(err, cause) {
		t.Error(err)
	}
}
