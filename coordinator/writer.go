package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// writer runs a Core: one goroutine owns it and applies what comes through a bounded queue, another one talks to the
// store. The first never waits for the second, so that it can answer whatever the store does.
type writer struct {
	core   *Core
	store  store.Store
	clock  steady
	limits Limits
	// remember is how long request ids are kept after the end.
	remember time.Duration
	feed     *feed
	meter    *meter
	log      *slog.Logger

	calls sync.Pool    // of *pending, for reuse
	asks  sync.Pool    // of *pendingAsk, for reuse
	queue chan Command // bounded: what callers ask for
	side  sideQueue    // unbounded, but each entry ends one that was bounded
	jobs  chan job     // for the goroutine that talks to the store; at most one under way
	ended chan outcome

	taking   atomic.Bool   // commands are taken: between the first leadership and stop
	stopping chan struct{} // closed by stop
	done     chan struct{} // closed when the loop has ended

	// Owned by the loop:
	busy     *Batch         // being committed
	deadline ledger.Instant // of that commit
	leading  bool           // a Lead is under way, or due at retryAt
	retryAt  ledger.Instant
	retry    backoff.BackOff
	atLeast  uint64
	stopped  bool
}

// sideQueue takes commands that must not be refused: those of callers who leave, and of the server itself.
type sideQueue struct {
	mu     sync.Mutex
	list   []Command // guarded by mu
	signal chan struct{}
}

func (q *sideQueue) put(command Command) {
	q.mu.Lock()
	q.list = append(q.list, command)
	q.mu.Unlock()
	select {
	case q.signal <- struct{}{}:
	default: // it is signalled already
	}
}

func (q *sideQueue) take() []Command {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.list
	q.list = nil
	return list
}

// job is something to do with the store: commit a batch, or take the lead where there is none.
type job struct {
	batch   *Batch
	atLeast uint64
}

// outcome is what became of a job.
type outcome struct {
	job      job
	meta     store.Meta
	snapshot ledger.Snapshot
	err      error
}

func newWriter(core *Core, s store.Store, clock steady, c *Config, f *feed, m *meter, log *slog.Logger) *writer {
	return &writer{
		core: core, store: s, clock: clock, limits: c.Limits, remember: c.Times.RequestRetention, feed: f, meter: m, log: log,
		calls:    sync.Pool{New: newPending},
		asks:     sync.Pool{New: newPendingAsk},
		queue:    make(chan Command, c.Limits.Queue),
		side:     sideQueue{signal: make(chan struct{}, 1)},
		jobs:     make(chan job, 1),
		ended:    make(chan outcome, 1),
		stopping: make(chan struct{}),
		done:     make(chan struct{}),
		retry: backoff.NewExponentialBackOff(
			backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0)),
	}
}

// lead takes the first leadership. It must come before run: what is wrong with the store or the rules then is a refusal to
// start.
func (w *writer) lead(ctx context.Context) error {
	o := w.load(ctx, 0)
	if o.err != nil {
		return o.err
	}
	if err := w.take(o); err != nil {
		return err
	}
	w.taking.Store(true)
	return nil
}

// load takes the lead in the store and reads what is there.
func (w *writer) load(ctx context.Context, atLeast uint64) outcome {
	o := outcome{job: job{atLeast: atLeast}}
	if o.meta, o.err = w.store.Lead(ctx, atLeast); o.err != nil {
		return o
	}
	since := w.clock.now().Add(-w.remember).Time()
	o.snapshot, o.err = w.store.Load(ctx, o.meta.Epoch, since)
	return o
}

// take makes the core lead with what was loaded.
func (w *writer) take(o outcome) error {
	now := w.clock.now()
	if err := w.core.Lead(now, o.meta, o.snapshot); err != nil {
		return err
	}
	w.feed.reset(o.snapshot.Revision)
	w.meter.leads(o.meta.Epoch)
	if ahead := w.core.now.Sub(now); ahead > time.Minute {
		w.log.Warn("the clock is behind what the store holds; time stands still until it has caught up", "ahead", ahead)
	}
	w.log.Info("leading", "epoch", o.meta.Epoch, "store", o.meta.StoreID, "revision", o.snapshot.Revision,
		"allocations", len(o.snapshot.Allocations), "hosts", len(o.snapshot.Hosts))
	return nil
}

// submit queues a command, without waiting.
func (w *writer) submit(command Command) error {
	if !w.taking.Load() {
		return ErrNotLeading
	}
	select {
	case w.queue <- command:
		return nil
	default:
		w.meter.refused.Inc()
		return ErrBusy
	}
}

// run applies and commits until stop. The goroutine that it starts has ended when it returns.
func (w *writer) run() {
	defer close(w.done)
	ctx, cancel := context.WithCancel(context.Background())
	var storing sync.WaitGroup
	storing.Go(func() { w.talk(ctx) })
	defer storing.Wait()
	defer cancel()
	defer close(w.jobs)

	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	stopping := w.stopping
	for !w.stopped {
		queue := w.queue
		if w.core.Pending() >= w.limits.Batch {
			queue = nil // full: what comes now waits in the queue, whose bound then holds
		}
		timer.Reset(w.wait())
		select {
		case command := <-queue:
			w.apply(command)
		case <-w.side.signal:
			for _, command := range w.side.take() {
				w.apply(command)
			}
		case o := <-w.ended:
			w.settle(o)
		case <-timer.C:
			w.tick()
		case <-stopping:
			stopping = nil
			w.core.HangUp(w.clock.now(), ErrStopping)
		}
		w.gather()
		w.hand()
		if stopping == nil && w.busy == nil && w.core.Pending() == 0 {
			w.stopped = true
		}
	}
	w.finish()
}

// wait is how long nothing is due.
func (w *writer) wait() time.Duration {
	due, set := w.core.NextTimer()
	consider := func(at ledger.Instant) {
		if !set || at < due {
			due, set = at, true
		}
	}
	if w.busy != nil && w.deadline != 0 {
		consider(w.deadline)
	}
	if w.leading && w.retryAt != 0 {
		consider(w.retryAt)
	}
	if !set {
		return time.Hour
	}
	return max(0, due.Sub(w.clock.now()))
}

// gather applies what else has arrived, so that one commit covers it.
func (w *writer) gather() {
	for w.core.Pending() < w.limits.Batch {
		select {
		case command := <-w.queue:
			w.apply(command)
		default:
			return
		}
	}
}

func (w *writer) apply(command Command) {
	if err := w.core.Do(w.clock.now(), command); err != nil {
		w.panicked(err)
	}
}

// tick does what has come due.
func (w *writer) tick() {
	now := w.clock.now()
	if w.busy != nil && w.deadline != 0 && now >= w.deadline {
		w.deadline = 0 // the goroutine that commits is still at it; a new Lead waits for it
		err := &CommitError{Err: store.ErrUnknownOutcome}
		w.log.Error("a commit takes too long", "timeout", w.limits.CommitTimeout, "epoch", w.busy.Epoch)
		w.busy.Answer(err)
		w.abandon(err)
	}
	if w.leading && w.retryAt != 0 && now >= w.retryAt && w.busy == nil {
		w.retryAt = 0
		w.jobs <- job{atLeast: w.atLeast}
	}
	if err := w.core.Advance(now); err != nil {
		w.panicked(err)
	}
}

// hand gives the store what has gathered, if it is free.
func (w *writer) hand() {
	if epoch, outdone := w.core.Outdone(); outdone && w.core.Leading() {
		w.log.Warn("an agent has seen a later epoch than this one's", "epoch", w.core.Meta().Epoch, "seen", epoch)
		w.atLeast = max(w.atLeast, epoch+1)
		w.abandon(ErrNotLeading)
	}
	if w.busy != nil {
		return
	}
	if w.busy = w.core.Take(); w.busy != nil {
		// The store is told to give up at the timeout. One that does not is given up on a little later.
		w.deadline = w.clock.now().Add(w.limits.CommitTimeout + w.limits.CommitTimeout/10)
		w.jobs <- job{batch: w.busy}
	}
}

// settle takes in what became of a job.
func (w *writer) settle(o outcome) {
	if o.job.batch == nil {
		w.leadEnded(o)
		return
	}
	w.busy = nil
	switch {
	case o.err == nil && w.core.InFlight():
		w.core.Done()
	case w.core.Leading():
		w.log.Error("a commit failed: leading anew", "epoch", o.job.batch.Epoch, "error", o.err)
		w.abandon(&CommitError{Err: o.err})
	}
	if w.leading && w.retryAt == 0 { // it waited for this
		w.retryAt = w.clock.now()
	}
}

func (w *writer) leadEnded(o outcome) {
	err := o.err
	if err == nil {
		err = w.take(o)
	}
	if err != nil {
		wait := w.retry.NextBackOff()
		w.log.Error("cannot take the lead", "error", err, "retry_in", wait)
		w.retryAt = w.clock.now().Add(wait)
		return
	}
	w.retry.Reset()
	w.leading, w.atLeast = false, 0
}

// abandon ends the leadership and begins a new one: what the ledger holds may not be what the store has.
func (w *writer) abandon(err error) {
	w.atLeast = max(w.atLeast, w.core.Meta().Epoch+1)
	w.core.Drop(err)
	w.meter.abandons()
	w.leading, w.retryAt = true, 0
	if w.busy == nil {
		w.retryAt = w.clock.now()
	}
}

func (w *writer) panicked(err error) {
	if fault, ok := errors.AsType[*PanicError](err); ok {
		w.log.Error("the ledger panicked: leading anew", "cause", fault.Cause, "stack", string(fault.Stack))
	}
	w.abandon(ErrNotLeading)
}

// stop lets run end once what was applied is durable. Whoever waits on the line is told ErrStopping, as is whoever comes.
func (w *writer) stop() {
	w.taking.Store(false)
	close(w.stopping)
}

// finish answers what came too late.
func (w *writer) finish() {
	w.core.Drop(ErrStopping)
	for {
		select {
		case command := <-w.queue:
			command.answer(ErrStopping)
		default:
			return
		}
	}
}

// talk does the jobs, one after the other.
func (w *writer) talk(ctx context.Context) {
	for j := range w.jobs {
		if j.batch != nil {
			w.ended <- outcome{job: j, err: w.commit(ctx, j.batch)}
		} else {
			w.ended <- w.load(ctx, j.atLeast)
		}
	}
}

// commit makes a batch durable, then shows it to the watchers and answers its callers.
func (w *writer) commit(ctx context.Context, b *Batch) error {
	ctx, cancel := context.WithTimeout(ctx, w.limits.CommitTimeout)
	defer cancel()
	start := w.clock.now()
	err := w.store.Commit(ctx, b.Batch)
	if err != nil {
		b.Answer(&CommitError{Err: err})
		return err
	}
	w.meter.committed(b, w.clock.now().Sub(start))
	if !b.Empty() {
		w.feed.publish(&b.Changes)
	}
	b.Answer(nil)
	return nil
}
