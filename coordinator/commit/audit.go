package commit

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/turns"
	"github.com/bursar/bursar/internal/pause"
)

const (
	// auditEvery is the least time between two audits.
	auditEvery = time.Minute
	// auditShare bounds the share of the loop's time for audits: one in so many.
	auditShare = 1000
	// mostRestarts is how often one audit may begin again because the rules were replaced.
	mostRestarts = 10
)

// ErrAuditDisturbed ends an audit if the rules are replaced too often during it.
var ErrAuditDisturbed = fmt.Errorf("the rules were replaced %d times while the ledger was audited: try again when they stay", mostRestarts)

// errAuditedGone ends an audit whose ledger was dropped.
var errAuditedGone = fmt.Errorf("the ledger was loaded again while it was audited: %w", core.ErrNotLeading)

// AuditRegularly audits the ledger at intervals until ctx ends. The intervals keep the load low.
func AuditRegularly(ctx context.Context, loop *Loop) {
	wait := auditEvery
	for pause.For(wait, ctx.Done(), nil) {
		wait = auditEvery
		if result, err := loop.audit(ctx); err == nil {
			wait = max(wait, auditShare*result.took)
		}
	}
}

// AuditResult is the result of an audit.
type AuditResult struct {
	ledger.AuditResult

	took    time.Duration // of the loop's time
	longest time.Duration // of its steps
}

// Audit audits the ledger for a caller, who cannot cancel it.
func (loop *Loop) Audit() (AuditResult, error) { return loop.audit(context.Background()) }

// audit recomputes the ledger in the loop, in steps: other commands run between them. All data that
// it has read is durable when it returns.
func (loop *Loop) audit(ctx context.Context) (AuditResult, error) {
	select { // a ledger has one audit at a time
	case loop.auditing <- struct{}{}:
	case <-ctx.Done():
		return AuditResult{}, ctx.Err()
	case <-loop.done:
		return AuditResult{}, core.ErrStopping
	}
	defer func() { <-loop.auditing }()
	run := &auditRun{loop: loop, stop: func() {}}
	defer func() { run.stop() }()
	for !run.result.Done {
		// Do not cancel a step: the loop may be running it.
		if err := run.step(); err != nil { //nolint:contextcheck // for that reason
			return AuditResult{}, err
		}
		if run.result.Restarts > mostRestarts {
			return AuditResult{}, ErrAuditDisturbed
		}
		if ctx.Err() != nil {
			return AuditResult{}, ctx.Err()
		}
	}
	if err := loop.ownCall(ctx, func(*core.Core, ledger.Instant) {}, false); err != nil {
		return AuditResult{}, err
	}
	loop.Metrics.audits.Inc()
	loop.Metrics.auditStep.Set(run.result.longest.Seconds())
	loop.Metrics.violations.Set(float64(len(run.result.Violations)))
	for _, v := range run.result.Violations {
		loop.Log.Error("the ledger is wrong", "invariant", v.Invariant, "violation", v.Message, "revision", run.result.To)
	}
	return run.result, nil
}

// auditRun is an audit in progress. While the loop runs a step of it, the audit's own goroutine
// waits.
type auditRun struct {
	loop   *Loop
	of     *ledger.Ledger
	next   func() (*ledger.AuditResult, bool)
	stop   func()
	result AuditResult
}

// step runs one step in the loop. The loop answers it at once, without a commit: only the result of
// the whole audit is published.
func (r *auditRun) step() error {
	gone := false
	err := r.loop.ownCall(context.Background(), func(c *core.Core, _ ledger.Instant) {
		if r.of == nil {
			r.of = c.Ledger()
			r.next, r.stop = iter.Pull(r.of.AuditSteps())
		}
		if gone = r.of != c.Ledger(); gone {
			return
		}
		began := r.loop.Clock.Now()
		result, _ := r.next()
		r.result.AuditResult = *result
		took := r.loop.Clock.Now().Sub(began)
		r.result.took += took
		r.result.longest = max(r.result.longest, took)
	}, true)
	if err == nil && gone {
		return errAuditedGone
	}
	return err
}

// ownCall sends a command of the coordinator itself, which takes turns with those of operators. It
// is never refused because the queue is full. If atOnce is set, the loop answers before the commit:
// then run must not expose anything that could fail to become durable.
func (loop *Loop) ownCall(ctx context.Context, run func(c *core.Core, now ledger.Instant), atOnce bool) error {
	done := make(chan error, 2) // a ledger that panics answers a second time
	loop.queue.force(turns.Owner{Class: turns.Operators}, &core.Call{Do: run, AtOnce: atOnce, Done: func(err error) { done <- err }})
	_, err := loop.await(ctx, done)
	return err
}
