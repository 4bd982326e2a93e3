package report

import (
	"context"

	"github.com/bursar/bursar/agent/tracker"
)

// carryOut carries out the answer to a Sync.
func (r *Reporter) carryOut(ctx context.Context, outcome tracker.Outcome) error {
	if outcome.Shutdown {
		return ErrReplaced
	}
	for _, order := range outcome.Stops {
		r.orders.Stop(ctx, order)
	}
	for _, grant := range outcome.Vetoed {
		var refused tracker.Refusal
		r.state.Locked(func(t *tracker.Tracker) { refused, _ = t.Veto(grant.GetId()) })
		r.vetoed(grant, refused)
	}
	for _, engine := range outcome.Adopted {
		r.log.Info("an engine was taken over from the coordinator", "allocation_id", engine.GetId(), "pid", engine.GetProcess().GetPid())
	}
	for _, engine := range outcome.Forgotten {
		r.log.Info("an engine has no allocation any more; it is left alone", "allocation_id", engine.GetId(), "pid", engine.GetProcess().GetPid())
	}
	var draining bool
	r.state.Locked(func(t *tracker.Tracker) { draining = t.Draining() })
	if draining != r.draining {
		r.draining = draining
		r.log.Info("the coordinator has changed its mind about new engines here", "draining", draining)
	}
	if len(outcome.Adopted)+len(outcome.Forgotten) > 0 {
		r.measureDue.In(0)
	}
	r.orders.Watch(ctx)
	r.state.ScheduleSave()
	r.syncedAt.Now()
	r.becomeReady()
	return nil
}

// becomeReady closes ready once the coordinator knows the host. Only the sync loop calls it.
func (r *Reporter) becomeReady() {
	select {
	case <-r.ready:
	default:
		r.state.Locked(func(t *tracker.Tracker) {
			if !t.NeedsRegister() {
				close(r.ready)
			}
		})
	}
}
