package clusters

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/pause"
	"github.com/bursar/bursar/providers"
)

// poller reads one cluster periodically and reports to the ledger. It belongs to one goroutine.
type poller struct {
	core.Assignment

	pollers *Pollers
	log     *slog.Logger
	after   <-chan struct{} // closed when the cluster's previous poller has ended
	end     context.CancelFunc
	ended   chan struct{}

	pace     providers.Pace
	provider providers.Provider // nil: not open
	interval time.Duration      // the current one
	requests int64              // counted requests of the provider
	health   Health
	shown    Health // the published copy; guarded by pollers.mu
}

const (
	// mostInterval is the largest interval for a slow cluster.
	mostInterval = time.Minute
	// firstRetry is the pause before the first retry after a failure; later pauses grow up to the
	// interval.
	firstRetry = 500 * time.Millisecond
	// spread is the relative jitter of intervals, so that coordinators and clusters do not act at
	// the same time.
	spread = 0.2
)

// run reads until ctx ends or the assignment is over.
func (r *poller) run(ctx context.Context) {
	defer close(r.ended)
	<-r.after
	defer r.closeProvider()
	r.pace, _ = providers.PaceFrom(nil) // until the settings are parsed
	r.interval = r.pace.Interval
	retry := backoff.NewExponentialBackOff(backoff.WithRandomizationFactor(0), backoff.WithMaxElapsedTime(0), backoff.WithInitialInterval(firstRetry))
	for ctx.Err() == nil {
		start := r.pollers.loop.Clock.Now()
		failure, err := r.round(ctx)
		if err != nil {
			return // over
		}
		wait := r.interval
		switch {
		case failure == nil:
			retry.Reset()
		case tooSlow(r.interval, r.pollers.loop.Clock.Now().Sub(start)):
			// the cluster is overloaded; do not retry early
		default:
			retry.MaxInterval = r.interval
			wait = min(r.interval, retry.NextBackOff())
		}
		wait = r.pollers.jitter(wait)
		r.publish(wait)
		if !pause.For(wait, ctx.Done(), nil) {
			return
		}
	}
}

// round reads the cluster once and reports the result to the ledger. failure is the cluster's
// failure; err means that the assignment is over.
func (r *poller) round(ctx context.Context) (failure, err error) {
	var ids []string // unique, in the order of the ledger
	named := map[string]bool{}
	var asked ledger.Instant
	for left := math.MaxInt; left > 0; {
		if err := r.do(ctx, func(l *ledger.Ledger, now ledger.Instant) error {
			var some []string
			some, left = l.SomeApplications(r.ClusterName, left)
			for _, id := range some {
				if !named[id] {
					named[id] = true
					ids = append(ids, id)
				}
			}
			if asked == 0 { // the ledger's time, which may be ahead of the clock
				asked = now
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	got, failure := r.read(ctx, ids)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if failure == nil {
		got.report.Asked = asked
		if failure, err = r.report(ctx, got); err != nil {
			return nil, err
		}
	}
	if failure != nil {
		return failure, r.failed(ctx, failure)
	}
	r.succeeded(got)
	return nil, nil
}

// do runs a command for the assignment.
func (r *poller) do(ctx context.Context, run func(*ledger.Ledger, ledger.Instant) error) error {
	return r.pollers.loop.WhileAssigned(ctx, &r.Assignment, run)
}

// reading is the result of a round.
type reading struct {
	report ledger.ClusterReport
	server string
	doubts string // implausible figures
	took   time.Duration
	asked  int   // applications
	partly error // why some applications have no answer
}

// read reads the cluster within the provider's timeout.
func (r *poller) read(ctx context.Context, ids []string) (*reading, error) {
	if err := CatchPanic(r.openProvider); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.pace.Timeout, fmt.Errorf("no answer within %s", r.pace.Timeout))
	defer cancel()
	clock := r.pollers.loop.Clock
	start := clock.Now()
	var snapshot providers.Snapshot
	var answers []providers.Application
	got := &reading{asked: len(ids)}
	err := CatchPanic(func() (err error) {
		snapshot, err = r.provider.Snapshot(ctx)
		if err == nil && len(ids) > 0 {
			answers, got.partly = r.provider.Applications(ctx, ids)
		}
		return err
	})
	if err != nil {
		return nil, DescribeTimeout(ctx, err)
	}
	got.partly = DescribeTimeout(ctx, got.partly)
	got.took, got.server, got.doubts = clock.Now().Sub(start), snapshot.Server, snapshot.Doubts
	queues, err := QueueReports(snapshot.Queues)
	if err != nil {
		return nil, err
	}
	got.report = ledger.ClusterReport{
		ClusterName: r.ClusterName, Settle: r.pace.Settle, Incarnation: snapshot.Incarnation, Untrusted: snapshot.Untrusted,
		Queues: queues, Unaddressable: UnaddressableQueues(&snapshot),
		Applications: applicationReports(answers, ids),
	}
	return got, got.report.Prepare()
}

// DescribeTimeout adds the cause of ctx to an error if ctx's deadline has passed.
func DescribeTimeout(ctx context.Context, err error) error {
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && !errors.Is(err, context.Cause(ctx)) {
		return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	return err
}

// CatchPanic runs a call of a provider, whose panic must not end the coordinator.
func CatchPanic(run func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = &core.PanicError{Cause: cause, Stack: debug.Stack()}
		}
	}()
	return run()
}

// openProvider opens the provider, if it is not open yet. Missing objects, such as a file, may
// exist at the next attempt.
func (r *poller) openProvider() error {
	if r.provider != nil {
		return nil
	}
	opened, pace, err := r.pollers.Open(&r.ProviderRecord)
	if err != nil {
		return err
	}
	r.provider, r.pace, r.interval = opened, pace, pace.Interval
	return nil
}

// closeProvider closes the provider.
func (r *poller) closeProvider() {
	if r.provider == nil {
		return
	}
	if err := CatchPanic(r.provider.Close); err != nil {
		r.log.Warn("a provider was not closed as it should be", "error", err)
	}
}

// report passes a reading to the ledger. failure is the ledger's refusal; err means that the
// assignment is over.
func (r *poller) report(ctx context.Context, got *reading) (failure, err error) {
	r.interval = stretched(r.interval, r.pace.Interval, got.took)
	got.report.GoodFor = max(r.pace.MaxAge, 3*r.interval)
	var refused error
	if err := r.do(ctx, func(l *ledger.Ledger, now ledger.Instant) error {
		refused = l.ReportCluster(now, got.report)
		return nil
	}); err != nil {
		return nil, err // refused must not be read: the loop may still write it
	}
	return refused, nil
}

// succeeded records a successful reading.
func (r *poller) succeeded(got *reading) {
	message := got.report.Untrusted
	if message == "" {
		message = got.doubts
	}
	if got.partly != nil {
		message = fmt.Sprintf("%d of %d applications were not answered: %s", got.asked-len(got.report.Applications), got.asked, providers.Said(got.partly.Error()))
	}
	r.logChange(message, got.partly)
	r.health.Failures, r.health.failingSince = 0, 0
	r.health.Server, r.health.Took = got.server, got.took
	r.health.Applications, r.health.Message = got.asked, message
	r.pollers.ifRunning(r, func() {
		r.pollers.metrics.observe(r.ClusterName, got.took)
		r.pollers.metrics.setHeldBack(r.ClusterName, got.report.Queues)
	})
}

// failed reports to the ledger that the cluster could not be read.
func (r *poller) failed(ctx context.Context, failure error) error {
	_, forget := providers.Unavailable(failure)
	text := providers.Said(failure.Error())
	if err := r.do(ctx, func(l *ledger.Ledger, now ledger.Instant) error {
		l.ClusterSilent(now, r.ClusterName, text, forget)
		return nil
	}); err != nil {
		return err
	}
	r.pollers.ifRunning(r, func() { r.pollers.metrics.countFailure(r.ClusterName) })
	r.logChange(text, failure)
	now := r.pollers.loop.Now()
	if r.health.Failures++; r.health.Failures == 1 {
		r.health.failingSince = now
	}
	r.health.FailedAt, r.health.Message = now, text
	return nil
}

// logChange logs a new problem once, and its end.
func (r *poller) logChange(message string, failure error) {
	fault, _ := errors.AsType[*core.PanicError](failure)
	switch {
	case message == r.health.Message:
	case message == "":
		r.log.Info("the cluster is read again")
	case fault != nil:
		r.log.Error("the cluster cannot be read: a fault of its provider", "cause", fault.Cause, "stack", string(fault.Stack))
	default:
		r.log.Warn("the cluster cannot be read as it should be: trying again", "error", message)
	}
}

// publish publishes the health and the metrics.
func (r *poller) publish(wait time.Duration) {
	r.health.Interval = wait
	counted, counts := r.provider.(providers.Counted)
	r.pollers.ifRunning(r, func() {
		r.shown = r.health
		r.pollers.metrics.setInterval(r.ClusterName, r.interval)
		if counts {
			n := counted.Requests()
			r.pollers.metrics.countRequests(r.ClusterName, n-r.requests)
			r.requests = n
		}
	})
}

// stretched returns the next interval after a reading that took took. The interval doubles while a
// reading takes more than a quarter of it, so that the coordinator does not overload a slow
// cluster. It halves, step by step, once a reading takes at most a quarter of the shorter one.
func stretched(interval, least, took time.Duration) time.Duration {
	switch {
	case tooSlow(interval, took):
		return max(interval, min(2*interval, max(least, mostInterval)))
	case took <= interval/8:
		return max(least, interval/2)
	default:
		return interval
	}
}

// tooSlow reports whether a round took too large a part of its interval.
func tooSlow(interval, took time.Duration) bool { return took > interval/4 }
