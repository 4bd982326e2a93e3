package commit

import (
	"context"
	"time"
)

const (
	// auditEvery is the least time between two audits.
	auditEvery = time.Minute
	// auditShare bounds the part of the loop's time that audits take: one in so many.
	auditShare = 1000
)

// AuditRegularly checks the books again and again until ctx ends: seldom enough not to be felt.
func AuditRegularly(ctx context.Context, w *Loop) {
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
		if result, err := w.auditOnce(ctx); err == nil {
			wait = max(wait, auditShare*result.took)
		}
	}
}
