package agent

import (
	"context"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers/host"
)

// As to an agent in a container that a caller on the host asks. What the caller has started would be ended if it heard that only at Confirm.
func TestCallerThatTheAgentDoesNotSeeHearsItBeforeItsCommandStarts(t *testing.T) {
	s := &service{agent: &Agent{tracker: tracker.New(time.Now(), tracker.Host{}, tracker.Snapshot{})}}
	s.agent.live.Store(&settings{Config: Config{HostID: "h1"}})
	ctx := context.WithValue(t.Context(), peerProcessKey{}, connectedProcess(nil, nil, 0))
	_, err := s.Allocate(ctx, &bursarv1.AllocateRequest{ConfirmsProcess: true})
	if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "--pid=host") {
		t.Errorf("%v", err)
	}
	_, err = s.agent.claimed(ctx, &bursarv1.ConfirmRequest{Id: "a", Process: &bursarv1.Process{Pid: 5}})
	if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), "does not see") {
		t.Errorf("%v", err)
	}
}

func TestViewOfACallerIsAskedForAgainAfterAFailure(t *testing.T) {
	asked := 0
	p := &peerProcess{find: func(context.Context) (host.View, error) {
		if asked++; asked == 1 {
			return host.View{}, context.Canceled
		}
		return host.View{OtherTime: true}, nil
	}}
	if _, err := p.seen(t.Context()); err == nil {
		t.Error("the first time it is not known")
	}
	for range 2 {
		if view, err := p.seen(t.Context()); err != nil || !view.OtherTime {
			t.Errorf("%+v, %v", view, err)
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times", asked)
	}
}
