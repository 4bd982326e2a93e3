package report

import (
	"context"
	"time"

	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// An agent that ends spends at most partingTimeout on its last report. If the report before has
// failed, its coordinator is probably not there, and the agent spends at most partingUnheard.
// Without the last report, the coordinator finds out after three intervals.
const (
	partingTimeout = time.Second
	partingUnheard = 200 * time.Millisecond
)

// Leave tells the coordinator that this agent ends in order: its host gets no new grants until an
// agent registers it again. The sync loop has ended when it is called. The socket ends its calls
// meanwhile.
func (r *Reporter) Leave() {
	select {
	case <-r.ready:
	default:
		return // the coordinator does not count on this host
	}
	if r.stranger.Load() != nil {
		return // the host is another agent's
	}
	timeout := partingTimeout
	if r.unsynced.Load() {
		timeout = partingUnheard
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	// A new leader wants to hear everything first.
	for range 2 {
		if err := r.register(ctx); err != nil {
			r.log.Warn("the coordinator was not told that the agent ends", "error", err)
			return
		}
		var request *bursarv1.SyncRequest
		r.state.Locked(func(t *tracker.Tracker) { request = t.BuildSync(time.Now()) })
		request.Leaving = true
		response, err := r.hosts.Sync(ctx, request)
		if err != nil {
			r.log.Warn("the coordinator was not told that the agent ends", "error", err)
			return
		}
		if response.GetAction() != bursarv1.SyncAction_SYNC_ACTION_RESYNC {
			r.log.Info("the coordinator knows that the agent ends")
			return
		}
		r.state.Locked((*tracker.Tracker).Resync)
	}
}
