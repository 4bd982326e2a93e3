package commit

import (
	"context"
	"time"

	"github.com/bursar/bursar/internal/pause"
)

const (
	// auditEvery is the least time between two audits.
	auditEvery = time.Minute
	// auditShare bounds the part of the loop's time that audits take: one in so many.
	auditShare = 1000
)

// AuditRegularly checks the ledger again and again until ctx ends: seldom enough not to be felt.
func AuditRegularly(ctx context.Context, loop *Loop) {
	wait := auditEvery
	for pause.For(wait, ctx.Done(), nil) {
		wait = auditEvery
		if result, err := loop.auditOnce(ctx); err == nil {
			wait = max(wait, auditShare*result.took)
		}
	}
}
