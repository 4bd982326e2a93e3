package coordinator

import (
	"context"
	"log/slog"
	"time"

	"github.com/bursar/bursar/coordinator/store"
)

// prune deletes what is older than the retention from the history, in small steps, until ctx ends.
func prune(ctx context.Context, s store.Store, h History, clock steady, m *meter, log *slog.Logger) {
	tick := time.NewTicker(h.PruneEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for deleted := h.PruneStep; deleted == h.PruneStep && ctx.Err() == nil; {
			var err error
			deleted, err = s.Prune(ctx, clock.now().Add(-h.Retention).Time(), h.PruneStep)
			m.pruned.Add(float64(deleted))
			if err != nil && ctx.Err() == nil {
				m.pruneFailed.Inc()
				log.Warn("cannot delete from the history", "error", err)
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
