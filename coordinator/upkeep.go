package coordinator

import (
	"context"
	"time"
)

// prune deletes what is older than the retention from the history, in small steps, until ctx ends. Who does not lead leaves it to
// who does.
func prune(ctx context.Context, w *writer, h History) {
	tick := time.NewTicker(h.PruneEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for deleted := h.PruneStep; deleted == h.PruneStep && ctx.Err() == nil && w.leads.Load(); {
			var err error
			deleted, err = w.store.Prune(ctx, w.clock.now().Add(-h.Retention).Time(), h.PruneStep)
			w.meter.pruned.Add(float64(deleted))
			if err != nil && ctx.Err() == nil {
				w.meter.pruneFailed.Inc()
				w.log.Warn("cannot delete from the history", "error", err)
			}
		}
	}
}

const (
	// auditEvery is the least time between two audits.
	auditEvery = time.Minute
	// auditShare bounds the part of the loop's time that audits take: one in so many.
	auditShare = 1000
)

// auditing checks the books again and again until ctx ends: seldom enough not to be felt.
func auditing(ctx context.Context, w *writer) {
	wait := auditEvery
	for {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		wait = auditEvery
		if result, err := w.audit(ctx); err == nil {
			wait = max(wait, auditShare*result.took)
		}
	}
}
