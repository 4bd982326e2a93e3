package report

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"connectrpc.com/connect"
	"github.com/cenkalti/backoff/v4"

	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const (
	// Timeout bounds one call. A coordinator that takes longer counts as one that does not answer.
	Timeout = 10 * time.Second
	// Gap is the least time between two Syncs: one Sync carries all that becomes urgent within
	// it.
	Gap = 20 * time.Millisecond
	// refusalGap is the least time between two Syncs that tell of grants which this host refuses,
	// or ask which engines have ended before it refuses one. All grants that are refused within it
	// share one Sync: with more Syncs, one user whose requests do not fit would keep the
	// coordinator busy. A grant that only fits once the agent has heard of a release may wait for
	// it, too.
	refusalGap = 250 * time.Millisecond
	// syncRetryFirst and syncRetryLast are the delays after failed calls: the first, and the
	// longest that they grow to. Engines that wait for a new leader to know their host wait that
	// long at most; a thousand agents make some 500 calls a second then.
	syncRetryFirst = 100 * time.Millisecond
	syncRetryLast  = 2 * time.Second
	// newLeaderSpread is the time over which a fleet comes to a new leader when it is named, at
	// least. A fleet so large that its interval has grown takes a part of that, one in
	// newLeaderShare: 10,000 agents come within 2 s.
	newLeaderSpread = time.Second
	newLeaderShare  = 5
	// CallersSpread is the same for hosts whose callers wait for an answer. They would make their
	// agents report a little later in any case, see callers.
	CallersSpread = 50 * time.Millisecond
	// jitter is how far an interval varies, as a share of it, so that a fleet does not report at
	// once.
	jitter = 0.1
)

// Loop keeps the coordinator and this agent in agreement.
func (r *Reporter) Loop(ctx context.Context) error {
	retry := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(syncRetryFirst), backoff.WithMaxInterval(syncRetryLast),
		backoff.WithMultiplier(2), backoff.WithRandomizationFactor(0.5), backoff.WithMaxElapsedTime(0),
	)
	var failed series
	for r.syncDue.Wait(ctx) {
		r.newLeader.Store(false)
		if r.refusing() {
			r.refusedAt.Now()
		}
		var err error
		r.pass(func() { err = r.heartbeat(ctx) })
		now := time.Now()
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // whatever it is about, the agent ends
		case errors.Is(err, ErrReplaced):
			r.log.Error("the agent stops", "error", err)
			return err
		case err != nil:
			r.unsynced.Store(true)
			if r.newLeader.Load() {
				retry.Reset() // it was sent to the leader before
			}
			delay := retry.NextBackOff()
			r.syncDue.Set(now.Add(delay), now.Add(delay))
			r.logFailure(ctx, &failed, err, delay)
			continue
		}
		if failed.count > 0 {
			r.log.Info("the coordinator answers again", "failures", failed.count)
		}
		failed = series{}
		r.unsynced.Store(false)
		retry.Reset()
		next := now.Add(r.interval())
		switch {
		case r.urgent():
			next = now
		case r.newLeader.Load() && !r.naming.hasAnswered():
			next = now.Add(r.spread())
		}
		r.syncDue.Set(later(next, now.Add(Gap)), now.Add(Gap))
		if r.refusing() { // after that, or one that comes in between would wait for an interval
			r.syncDue.NoLaterThan(r.RefusalDue())
		}
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// interval is the time to the next Sync: as a new leader has said it for this host, or at once if
// callers wait for that, or the usual one, varied.
func (r *Reporter) interval() time.Duration {
	var interval, resync time.Duration
	r.state.Locked(func(t *tracker.Tracker) { interval, resync = t.Interval(), t.ResyncAfter() })
	switch {
	case resync > 0 && r.asking.Load() > 0:
		return 0
	case resync > 0:
		return resync
	}
	return time.Duration(float64(interval) * (1 + jitter*(2*rand.Float64()-1)))
}

// awaited reports whether a new leader has heard of the host, and has said when to report.
func (r *Reporter) awaited() (awaited bool) {
	r.state.Locked(func(t *tracker.Tracker) { awaited = t.ResyncAfter() > 0 })
	return awaited
}

// spread is when this agent comes to a new leader that was just named, one of a fleet.
func (r *Reporter) spread() time.Duration {
	if r.asking.Load() > 0 {
		return rand.N(CallersSpread)
	}
	var interval time.Duration
	r.state.Locked(func(t *tracker.Tracker) { interval = t.Interval() })
	return rand.N(spreadOf(interval))
}

func spreadOf(interval time.Duration) time.Duration {
	return max(newLeaderSpread, interval/newLeaderShare)
}

func (r *Reporter) urgent() (urgent bool) {
	r.state.Locked(func(t *tracker.Tracker) { urgent = t.Urgent() })
	return urgent
}

func (r *Reporter) refusing() (refusing bool) {
	r.state.Locked(func(t *tracker.Tracker) { refusing = t.Refusing() })
	return refusing
}

// RefusalDue is when the next Sync may tell of refused grants.
func (r *Reporter) RefusalDue() time.Time { return r.refusedAt.Last().Add(refusalGap) }

// heartbeat sends one Sync, and carries out its answer.
func (r *Reporter) heartbeat(ctx context.Context) error {
	outcome, err := r.sync(ctx)
	if err != nil {
		return err
	}
	return r.carryOut(ctx, outcome)
}

// sync registers the host if that is needed, and sends one Sync.
func (r *Reporter) sync(ctx context.Context) (tracker.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	var before uint64
	r.state.Locked(func(t *tracker.Tracker) { before = t.Epoch() })
	err := r.register(ctx)
	r.noteClusters() // in any case: it may be why it failed
	if err != nil {
		return tracker.Outcome{}, err
	}
	var request *bursarv1.SyncRequest
	r.state.Locked(func(t *tracker.Tracker) { request = t.BuildSync(time.Now()) })
	began := time.Now()
	response, err := r.hosts.Sync(ctx, request)
	r.synced(time.Since(began), err)
	switch connect.CodeOf(err) { //nolint:exhaustive // the others say nothing about this host
	case connect.CodeNotFound, connect.CodeAborted:
		// It does not know this host, or it knows a later incarnation of its agent: Register tells
		// which.
		r.state.Locked((*tracker.Tracker).Resync)
	}
	if err != nil {
		return tracker.Outcome{}, fmt.Errorf("sync: %w", err)
	}
	if slices.ContainsFunc(response.GetGrants(), isReserved) {
		r.freshMemory(ctx)
	}
	var outcome tracker.Outcome
	r.state.Locked(func(t *tracker.Tracker) {
		if outcome, err = t.Answer(time.Now(), request, response); t.Epoch() > before {
			r.naming.answered()
		}
		r.state.Answered.Happened()
	})
	if err != nil {
		r.leaveSuperseded(err)
		return tracker.Outcome{}, fmt.Errorf("sync: %w", err)
	}
	return outcome, nil
}

func isReserved(a *bursarv1.Allocation) bool {
	return a.GetState() == bursarv1.AllocationState_ALLOCATION_STATE_RESERVED
}
