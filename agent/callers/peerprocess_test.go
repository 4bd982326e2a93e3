package callers

import (
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/agent/socket"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// As to an agent in a container that a caller on the host asks. What the caller has started would
// be ended if it heard that only at Confirm.
func TestCallerThatTheAgentDoesNotSeeHearsItBeforeItsCommandStarts(t *testing.T) {
	s := newSubject(Options{}, nil)
	ctx := socket.WithProcess(t.Context(), socket.UnseenProcess())
	_, err := s.Allocations(t.Context()).Allocate(ctx, &bursarv1.AllocateRequest{ConfirmsProcess: true})
	if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "--pid=host") {
		t.Errorf("%v", err)
	}
	_, err = s.claimed(ctx, &bursarv1.ConfirmRequest{Id: "a", Process: &bursarv1.Process{Pid: 5}})
	if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "does not see") {
		t.Errorf("%v", err)
	}
}
