package commit

import (
	"context"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
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

// AuditResult is what an audit found.
type AuditResult struct {
	Violations []ledger.Violation
	Revision   uint64
	Counts     ledger.Counts
	took       time.Duration
}

// auditOnce recomputes the ledger in the loop, which does nothing else meanwhile.
func (loop *Loop) auditOnce(ctx context.Context) (AuditResult, error) {
	result, err := Decide(ctx, loop, func(l *ledger.Ledger, _ ledger.Instant) (AuditResult, error) {
		start := loop.Clock.Now()
		violations := l.Audit()
		return AuditResult{violations, l.Revision(), l.Counts(), loop.Clock.Now().Sub(start)}, nil
	})
	if err != nil {
		return result, err
	}
	loop.Metrics.audits.Inc()
	loop.Metrics.violations.Set(float64(len(result.Violations)))
	for _, v := range result.Violations {
		loop.Log.Error("the ledger is wrong", "invariant", v.Invariant, "violation", v.Message, "revision", result.Revision)
	}
	return result, nil
}

// Audit is an audit for all who ask. None of them can end it.
func (loop *Loop) Audit() (AuditResult, error) { return loop.auditOnce(context.Background()) }
