package agent

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"

	"github.com/bursar/bursar/agent/report"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// lateness is how many passes of a loop may be missed before it counts as stuck.
const lateness = 3

// alive reports whether the measuring loop works.
func (a *Agent) alive() error {
	return checkRecent("the machine was measured", a.measuredAt.Last(), a.settings().Tick)
}

// reachable reports whether requests can be answered: the loops work, and a coordinator answers.
func (a *Agent) reachable() error {
	if err := a.alive(); err != nil {
		return err
	}
	if refused := a.reports.Stranger(); refused != nil {
		return refused
	}
	var interval time.Duration
	a.state.Locked(func(t *tracker.Tracker) { interval = t.Interval() })
	return checkRecent("a coordinator answered", a.reports.SyncedAt(), interval)
}

func checkRecent(what string, at time.Time, every time.Duration) error {
	if at.IsZero() {
		return fmt.Errorf("%s: not yet", what)
	}
	if ago := time.Since(at); ago > lateness*every+report.Timeout {
		return fmt.Errorf("%s %s ago: want every %s", what, ago.Round(time.Millisecond), every)
	}
	return nil
}

func (a *Agent) serveHealthz(w http.ResponseWriter, _ *http.Request) { answer(w, a.alive()) }

func (a *Agent) serveReadyz(w http.ResponseWriter, _ *http.Request) { answer(w, a.reachable()) }

func answer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok\n")) // the caller has gone
}

// checker answers the standard health service.
type checker struct {
	agent *Agent
}

// Check reports on the agent as a whole, for every service that it serves. For others it returns
// NOT_FOUND.
func (c checker) Check(_ context.Context, request *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	switch request.Service {
	case "", bursarv1connect.AllocationServiceName, bursarv1connect.EngineServiceName:
	default:
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("no such service: %q", request.Service))
	}
	if c.agent.reachable() != nil {
		return &grpchealth.CheckResponse{Status: grpchealth.StatusNotServing}, nil //nolint:nilerr // that is the answer
	}
	return &grpchealth.CheckResponse{Status: grpchealth.StatusServing}, nil
}
