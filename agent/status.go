package agent

import (
	"fmt"
	"strings"
	"time"

	"github.com/bursar/bursar/agent/tracker"
)

// Serving is closed when the socket is served and the machine was measured. Ready says whether a
// coordinator answers.
func (a *Agent) Serving() <-chan struct{} { return a.serving }

// Status returns the agent's present state in one line; empty if the agent does not run yet.
func (a *Agent) Status() (status string) {
	a.state.Locked(func(t *tracker.Tracker) {
		if t != nil {
			status = a.statusOf(t)
		}
	})
	return status
}

func (a *Agent) statusOf(t *tracker.Tracker) string {
	var parts []string
	switch synced := a.reports.SyncedAt(); {
	case a.reports.Stranger() != nil:
		parts = append(parts, "another agent has this hostId: no engines are started")
	case synced.IsZero():
		parts = append(parts, "no coordinator has answered yet: requests wait")
	case !a.reports.IsSynced():
		parts = append(parts, "no coordinator answers since "+synced.UTC().Format(time.RFC3339)+": requests wait, engines go on")
	default:
		parts = append(parts, "a coordinator answers")
	}
	if seen := a.deps.Pin.Seen(); len(seen) > 0 {
		parts = append(parts, "coordinators of another cluster were found: "+seen[0].String())
	}
	stats := t.Stats()
	engines := fmt.Sprintf("engines: %d", stats.Engines)
	if stats.Orphaned > 0 {
		engines += fmt.Sprintf(", %d of them without their main process", stats.Orphaned)
	}
	parts = append(parts, engines)
	return strings.Join(append(parts, closedFor(t)...), "; ")
}

// closedFor says why there are no new engines here.
func closedFor(t *tracker.Tracker) (reasons []string) {
	sample := t.Sample()
	if refusal := sample.GetRefusal(); refusal != "" {
		reasons = append(reasons, "no new engines: "+refusal)
	}
	if sample != nil && sample.MemoryAvailableBytes == nil {
		reasons = append(reasons, "no new engines: memory is not measured")
	}
	if sample.GetPressure() {
		reasons = append(reasons, "no new engines: memory pressure")
	}
	if t.Draining() {
		reasons = append(reasons, "no new engines: drained")
	}
	return reasons
}
