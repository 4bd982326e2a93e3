package coordinator

import (
	"context"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
)

// look takes a view.
func (w *writer) look(ctx context.Context) (core.View, error) {
	var v core.View
	if err := w.call(ctx, func(c *core.Core, _ ledger.Instant) { v = c.View() }); err != nil {
		return core.View{}, err
	}
	return v, nil
}

// auditResult is what an audit found.
type auditResult struct {
	violations []ledger.Violation
	revision   uint64
	counts     ledger.Counts
	took       time.Duration
}

// audit recomputes the books in the loop, which does nothing else meanwhile.
func (w *writer) audit(ctx context.Context) (auditResult, error) {
	result, err := decide(ctx, w, func(l *ledger.Ledger, _ ledger.Instant) (auditResult, error) {
		start := w.clock.Now()
		violations := l.Audit()
		return auditResult{violations, l.Revision(), l.Counts(), w.clock.Now().Sub(start)}, nil
	})
	if err != nil {
		return result, err
	}
	w.meter.audits.Inc()
	w.meter.violations.Set(float64(len(result.violations)))
	for _, v := range result.violations {
		w.log.Error("the books are wrong", "invariant", v.Invariant, "violation", v.Message, "revision", result.revision)
	}
	return result, nil
}

// auditForAll is an audit for all who ask, none of whom ends it.
func (w *writer) auditForAll() (auditResult, error) { return w.audit(context.Background()) }
