package commit

import (
	"context"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
)

// View returns an overview, once all that it shows is durable.
func (loop *Loop) View(ctx context.Context) (core.View, error) {
	var v core.View
	if err := loop.call(ctx, func(c *core.Core, _ ledger.Instant) { v = c.View() }); err != nil {
		return core.View{}, err
	}
	return v, nil
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
		loop.Log.Error("the books are wrong", "invariant", v.Invariant, "violation", v.Message, "revision", result.Revision)
	}
	return result, nil
}

// Audit is an audit for all who ask. None of them can end it.
func (loop *Loop) Audit() (AuditResult, error) { return loop.auditOnce(context.Background()) }

// Probe sends an empty command all the way.
func (loop *Loop) Probe(ctx context.Context) error {
	return loop.Do(ctx, func(*ledger.Ledger, ledger.Instant) {})
}

// aliveTime bounds how long Alive waits for the loop.
const aliveTime = 5 * time.Second

// Alive reports whether the loop still runs, whatever the store does.
func (loop *Loop) Alive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, aliveTime)
	defer cancel()
	answered := make(chan struct{})
	// It joins no batch, or a commit would be made for it.
	loop.priority.put(&core.Call{AtOnce: true, Do: func(*core.Core, ledger.Instant) {}, Done: func(error) { close(answered) }})
	select {
	case <-answered:
		return nil
	case <-loop.done:
		return core.ErrStopping
	case <-ctx.Done():
		return ctx.Err()
	}
}
