package agent

import (
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/agent/socket"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// As to an agent in a container that a caller on the host asks. What the caller has started would
// be ended if it heard that only at Confirm.
func TestCallerThatTheAgentDoesNotSeeHearsItBeforeItsCommandStarts(t *testing.T) {
	s := &service{agent: &Agent{tracker: tracker.New(time.Now(), tracker.Host{}, tracker.Snapshot{})}}
	s.agent.live.Store(&settings{Config: Config{HostID: "h1"}})
	ctx := socket.WithProcess(t.Context(), socket.UnseenProcess())
	_, err := s.Allocate(ctx, &bursarv1.AllocateRequest{ConfirmsProcess: true})
	if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "--pid=host") {
		t.Errorf("%v", err)
	}
	_, err = s.agent.claimed(ctx, &bursarv1.ConfirmRequest{Id: "a", Process: &bursarv1.Process{Pid: 5}})
	if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "does not see") {
		t.Errorf("%v", err)
	}
}
