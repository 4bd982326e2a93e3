package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"connectrpc.com/connect"
	"github.com/cenkalti/backoff/v4"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/clusterid"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const (
	// syncTimeout bounds one call. A coordinator that takes longer counts as one that does not
	// answer.
	syncTimeout = 10 * time.Second
	// syncGap is the least time between two Syncs: one Sync carries all that becomes urgent within
	// it.
	syncGap = 20 * time.Millisecond
	// refusalGap is the least time between two Syncs that tell of grants which this host refuses,
	// or ask what has ended before it does. All that are refused within it share one: with more
	// Syncs, one user who asks for what is not there would keep the coordinator busy. A grant that
	// only fits once the agent has heard of a release may wait for it, too.
	refusalGap = 250 * time.Millisecond
	// syncRetryFirst and syncRetryLast are the delays after failed calls: the first, and what they
	// grow to. Engines that wait for a new leader to know their host wait that long at most; a
	// thousand agents make some 500 calls a second then.
	syncRetryFirst = 100 * time.Millisecond
	syncRetryLast  = 2 * time.Second
	// newLeaderSpread is the time over which a fleet comes to a new leader when it is named, at
	// least. A fleet so large that its interval has grown takes a part of that, one in
	// newLeaderShare: 10,000 agents come within 2 s.
	newLeaderSpread = time.Second
	newLeaderShare  = 5
	// callersSpread is the same for hosts whose callers wait for an answer. They would make their
	// agents report a little later in any case, see reportAfter.
	callersSpread = 50 * time.Millisecond
	// jitter is how far an interval varies, as a share of it, so that a fleet does not report at
	// once.
	jitter = 0.1
)

// syncLoop keeps the coordinator and this agent in agreement.
func (a *Agent) syncLoop(ctx context.Context) error {
	retry := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(syncRetryFirst), backoff.WithMaxInterval(syncRetryLast),
		backoff.WithMultiplier(2), backoff.WithRandomizationFactor(0.5), backoff.WithMaxElapsedTime(0),
	)
	var failed series
	for a.syncDue.wait(ctx) {
		a.newLeader.Store(false)
		if a.refusing() {
			a.refusedAt.now()
		}
		var err error
		a.loops.sync.do(func() { err = a.heartbeat(ctx) })
		now := time.Now()
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // whatever it is about, the agent ends
		case errors.Is(err, ErrReplaced):
			a.log.Error("the agent stops", "error", err)
			return err
		case err != nil:
			a.unsynced.Store(true)
			if a.newLeader.Load() {
				retry.Reset() // it was sent to the leader before
			}
			delay := retry.NextBackOff()
			a.syncDue.set(now.Add(delay), now.Add(delay))
			a.logFailure(ctx, &failed, err, delay)
			continue
		}
		if failed.count > 0 {
			a.log.Info("the coordinator answers again", "failures", failed.count)
		}
		failed = series{}
		a.unsynced.Store(false)
		retry.Reset()
		next := now.Add(a.interval())
		switch {
		case a.urgent():
			next = now
		case a.newLeader.Load() && !a.naming.hasAnswered():
			next = now.Add(a.spread())
		}
		a.syncDue.set(later(next, now.Add(syncGap)), now.Add(syncGap))
		if a.refusing() { // after that, or one that comes in between would wait for an interval
			a.syncDue.noLaterThan(a.refusalDue())
		}
	}
	return nil
}

const (
	// loudEvery is after how many failures a series is logged as a warning again: once a minute.
	loudEvery = 30
	// loudTexts is how many different failures of a series are logged as warnings at once. Several
	// coordinators may fail in turn, each with a text of its own, and some texts have another port
	// each time.
	loudTexts = 8
)

// series is failures without a success in between.
type series struct {
	count  int
	logged []string // the failures that were logged as warnings at once
}

// loud reports whether a failure is to be logged as a warning: a new one is, and one of every
// loudEvery.
func (s *series) loud(err error) bool {
	s.count++
	if text := err.Error(); len(s.logged) < loudTexts && !slices.Contains(s.logged, text) {
		s.logged = append(s.logged, text)
		return true
	}
	return s.count%loudEvery == 0
}

// logFailure logs a failure: as a warning if it is loud, else at level debug.
func (a *Agent) logFailure(ctx context.Context, s *series, err error, delay time.Duration) {
	level := slog.LevelDebug
	if s.loud(err) {
		level = slog.LevelWarn
	}
	text := "the coordinator does not answer: engines go on, new requests wait"
	if _, other := errors.AsType[*clusterid.Error](err); other {
		text = "no coordinator of this host's cluster answers, and another cluster's does: engines go on, new requests wait"
	}
	switch connect.CodeOf(err) { //nolint:exhaustive // the others may be over by themselves
	case connect.CodeUnauthenticated, connect.CodePermissionDenied:
		text = "the coordinator refuses this agent: engines go on, new requests wait"
	case connect.CodeAlreadyExists:
		text = "another agent has this host's id: this one starts no engines"
	}
	a.log.Log(ctx, level, text, "error", err, "failures", s.count, "retry_in", delay.Round(time.Millisecond).String())
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// interval is the time to the next Sync: as a new leader has said it for this host, or at once if
// callers wait for that, or the usual one, varied.
func (a *Agent) interval() time.Duration {
	var interval, resync time.Duration
	a.locked(func(t *tracker.Tracker) { interval, resync = t.Interval(), t.ResyncAfter() })
	switch {
	case resync > 0 && a.asking.Load() > 0:
		return 0
	case resync > 0:
		return resync
	}
	return time.Duration(float64(interval) * (1 + jitter*(2*rand.Float64()-1)))
}

// awaited reports whether a new leader has heard of the host, and has said when to report.
func (a *Agent) awaited() (awaited bool) {
	a.locked(func(t *tracker.Tracker) { awaited = t.ResyncAfter() > 0 })
	return awaited
}

// spread is when this agent comes to a new leader that was just named, one of a fleet.
func (a *Agent) spread() time.Duration {
	if a.asking.Load() > 0 {
		return rand.N(callersSpread)
	}
	var interval time.Duration
	a.locked(func(t *tracker.Tracker) { interval = t.Interval() })
	return rand.N(spreadOf(interval))
}

func spreadOf(interval time.Duration) time.Duration {
	return max(newLeaderSpread, interval/newLeaderShare)
}

func (a *Agent) urgent() (urgent bool) {
	a.locked(func(t *tracker.Tracker) { urgent = t.Urgent() })
	return urgent
}

func (a *Agent) refusing() (refusing bool) {
	a.locked(func(t *tracker.Tracker) { refusing = t.Refusing() })
	return refusing
}

// refusalDue is when the next Sync may tell of refused grants.
func (a *Agent) refusalDue() time.Time { return a.refusedAt.last().Add(refusalGap) }

// heartbeat sends one Sync, and does what the answer asks for.
func (a *Agent) heartbeat(ctx context.Context) error {
	outcome, err := a.sync(ctx)
	if err != nil {
		return err
	}
	return a.carryOut(ctx, outcome)
}

// sync registers the host if that is needed, and sends one Sync.
func (a *Agent) sync(ctx context.Context) (tracker.Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	var before uint64
	a.locked(func(t *tracker.Tracker) { before = t.Epoch() })
	err := a.register(ctx)
	a.noteClusters() // in any case: it may be why it failed
	if err != nil {
		return tracker.Outcome{}, err
	}
	var request *bursarv1.SyncRequest
	a.locked(func(t *tracker.Tracker) { request = t.BuildSync(time.Now()) })
	began := time.Now()
	response, err := a.deps.Hosts.Sync(ctx, request)
	a.metrics.synced(time.Since(began), err)
	switch connect.CodeOf(err) { //nolint:exhaustive // the others say nothing about this host
	case connect.CodeNotFound, connect.CodeAborted:
		// It does not know this host, or it knows a later incarnation of its agent: Register tells
		// which.
		a.locked((*tracker.Tracker).Resync)
	}
	if err != nil {
		return tracker.Outcome{}, fmt.Errorf("sync: %w", err)
	}
	if slices.ContainsFunc(response.GetGrants(), reserved) {
		a.readFreshMemory(ctx)
	}
	var outcome tracker.Outcome
	a.locked(func(t *tracker.Tracker) {
		if outcome, err = t.Answer(time.Now(), request, response); t.Epoch() > before {
			a.naming.answered()
		}
		close(a.answered)
		a.answered = make(chan struct{})
	})
	if err != nil {
		a.leaveSuperseded(err)
		return tracker.Outcome{}, fmt.Errorf("sync: %w", err)
	}
	return outcome, nil
}

func reserved(a *bursarv1.Allocation) bool {
	return a.GetState() == bursarv1.AllocationState_ALLOCATION_STATE_RESERVED
}

// leaveSuperseded makes the next call avoid a coordinator whose leadership is over, though it
// answers.
func (a *Agent) leaveSuperseded(err error) {
	if _, superseded := errors.AsType[*tracker.EpochError](err); superseded {
		a.deps.Elsewhere()
	}
}

// register announces the host if the coordinator does not know it.
func (a *Agent) register(ctx context.Context) error {
	var request *bursarv1.RegisterRequest
	a.locked(func(t *tracker.Tracker) {
		if t.NeedsRegister() {
			request = t.BuildRegister()
		}
	})
	if request == nil {
		return nil
	}
	request.Uptime, request.IdentityToken = durationpb.New(a.deps.Meter.Place().Uptime), a.token
	ctx, info := connect.NewClientContext(ctx)
	response, err := a.deps.Hosts.Register(ctx, request)
	if err != nil {
		if connect.CodeOf(err) == connect.CodeAlreadyExists && connect.IsWireError(err) {
			refused := &StrangerError{err}
			a.stranger.Store(refused)
			return refused
		}
		if connect.CodeOf(err) == connect.CodeAborted && connect.IsWireError(err) {
			return fmt.Errorf("%w (%w)", ErrReplaced, err)
		}
		return fmt.Errorf("register: %w", err)
	}
	if err := a.registeredAt(clusterid.Of(info.ResponseHeader()), response); err != nil {
		return fmt.Errorf("register: %w", err)
	}
	a.locked(func(t *tracker.Tracker) { err = t.Registered(response) })
	if err != nil {
		a.leaveSuperseded(err)
		return fmt.Errorf("register: %w", err)
	}
	a.storeToken(response)
	a.stranger.Store(nil)
	a.log.Info("registered", "epoch", response.GetEpoch(), "store_id", response.GetStoreId(), "interval", response.GetInterval().AsDuration())
	return nil
}

// carryOut does what the answer to a Sync asks for.
func (a *Agent) carryOut(ctx context.Context, outcome tracker.Outcome) error {
	if outcome.Shutdown {
		return ErrReplaced
	}
	for _, order := range outcome.Stops {
		a.stop(ctx, order)
	}
	for _, grant := range outcome.Vetoed {
		var refused tracker.Refusal
		a.locked(func(t *tracker.Tracker) { refused, _ = t.Veto(grant.GetId()) })
		a.countVeto(grant, refused)
	}
	for _, engine := range outcome.Adopted {
		a.log.Info("an engine was taken over from the coordinator", "allocation_id", engine.GetId(), "pid", engine.GetProcess().GetPid())
	}
	for _, engine := range outcome.Forgotten {
		a.log.Info("an engine has no allocation any more; it is left alone", "allocation_id", engine.GetId(), "pid", engine.GetProcess().GetPid())
	}
	var draining bool
	a.locked(func(t *tracker.Tracker) { draining = t.Draining() })
	if draining != a.draining {
		a.draining = draining
		a.log.Info("the coordinator has changed its mind about new engines here", "draining", draining)
	}
	if len(outcome.Adopted)+len(outcome.Forgotten) > 0 {
		a.measureIn(0)
	}
	a.watch(ctx)
	a.scheduleSave()
	a.syncedAt.now()
	a.becomeReady()
	return nil
}

// becomeReady closes ready once the coordinator knows the host. Only the sync loop calls it.
func (a *Agent) becomeReady() {
	select {
	case <-a.ready:
	default:
		a.locked(func(t *tracker.Tracker) {
			if !t.NeedsRegister() {
				close(a.ready)
			}
		})
	}
}
