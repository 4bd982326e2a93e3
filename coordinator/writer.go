package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// writer runs a Core: one goroutine owns it and applies what comes through a bounded queue, another one talks to the
// store. The first never waits for the second, so that it can answer whatever the store does.
type writer struct {
	core   *core.Core
	store  store.Store
	clock  core.Steady
	limits Limits
	// remember is how long request ids are kept after the end.
	remember time.Duration
	// rules are those of the files at the moment, by source. Nil: they are the core's already.
	rules func() map[string][]ledger.Quota
	// clusters is told when other external clusters may have to be read than before. It must not block. Nil: nobody reads them.
	clusters func()
	feed     *feed
	replica  *replica
	meter    *meter
	tracer   *tracer // nil: nothing is traced
	log      *slog.Logger

	calls    sync.Pool         // of *pending, for reuse
	asks     sync.Pool         // of *pendingAsk, for reuse
	queue    chan core.Command // bounded: what callers ask for
	side     sideQueue         // unbounded, but each entry ends one that was bounded
	jobs     chan job          // for the goroutine that talks to the store; at most one under way
	outcomes chan outcome

	orders chan *tenure // to lead, or with nil not to

	leads       atomic.Bool               // the core does
	skew        atomic.Pointer[core.Skew] // of the ledger's time to the clock; nil while it does not lead
	led         atomic.Uint64             // the epoch of the latest leadership
	history     *history                  // what has ended
	hidden      atomic.Pointer[[]string]  // what the file of providers hides of the stored ones
	refusals    atomic.Pointer[[]string]  // which commands are refused, and why
	elsewhere   elsewhere                 // what hosts report that others have
	unblamed    atomic.Pointer[unblamed]  // the last panic of which that is not known; nil: there was none
	rulesHidden atomic.Pointer[[]string]  // which rules are not in force, and why
	// configured are the providers of the file, for the next leadership; nil: there was no file.
	configured atomic.Pointer[[]ledger.ProviderRecord]
	stopping   chan struct{} // closed by stop
	done       chan struct{} // closed when the loop has ended

	// Owned by the loop:
	busy      *core.Batch    // being committed
	deadline  ledger.Instant // of that commit
	tenure    *tenure        // nil: may not lead
	loading   bool           // the store is asked for a lead
	atLeast   uint64         // what the next epoch must not be below
	rulesSeen uint64         // the ledger's count of changes of the rules, when rulesHidden was looked at
	stopped   bool
}

// tenure is the permission to lead once: to take the lead, and to keep it until it is lost. The loop tells what becomes of it.
type tenure struct {
	announced []uint64        // epochs that somebody has announced
	began     chan store.Meta // holds one: the lead was taken
	over      chan error      // holds one: it could not be, or was lost
}

// job is something to do with the store: commit a batch, or take the lead where there is none.
type job struct {
	batch   *core.Batch
	tenure  *tenure
	atLeast uint64
}

// outcome is what became of a job.
type outcome struct {
	job      job
	meta     store.Meta
	snapshot ledger.Snapshot
	err      error
}

func newWriter(books *core.Core, s store.Store, clock core.Steady, c *Config, f *feed, m *meter, log *slog.Logger) *writer {
	w := &writer{
		core: books, store: s, clock: clock, limits: c.Limits, remember: c.Times.RequestRetention, feed: f, meter: m, log: log,
		calls:    sync.Pool{New: newPending},
		asks:     sync.Pool{New: newPendingAsk},
		queue:    make(chan core.Command, c.Limits.Queue),
		side:     sideQueue{signal: make(chan struct{}, 1)},
		jobs:     make(chan job, 1),
		outcomes: make(chan outcome, 1),
		orders:   make(chan *tenure),
		stopping: make(chan struct{}),
		done:     make(chan struct{}),
	}
	w.history = newHistory(w, c)
	w.replica = newReplica(w, books.EmptyLedger)
	return w
}

// lead tells the loop to take the lead, in an epoch above those that were announced, as far as they are to be believed. After stop nothing
// comes of it.
func (w *writer) lead(announced ...uint64) *tenure {
	t := &tenure{announced: announced, began: make(chan store.Meta, 1), over: make(chan error, 1)}
	w.order(t)
	return t
}

// stepDown tells the loop not to lead any more. When it returns no command is applied, but what was applied before may still
// become durable.
func (w *writer) stepDown() { w.order(nil) }

func (w *writer) order(t *tenure) {
	select {
	case w.orders <- t:
	case <-w.done:
	}
}

// take makes the core lead with what was loaded.
func (w *writer) take(o outcome) error {
	if w.rules != nil {
		if err := w.core.SetFiles(0, w.rules()); err != nil { // it does not lead yet: nothing to refuse them
			return err
		}
	}
	if configured := w.configured.Load(); configured != nil {
		w.core.SetProviders(*configured)
	}
	now := w.clock.Now()
	if err := w.core.Lead(now, o.meta, o.snapshot); err != nil {
		if fault, ok := errors.AsType[*core.PanicError](err); ok {
			w.tellFault(fault)
		}
		if row, refused := errors.AsType[*ledger.RestoreError](err); refused {
			err = keptBy(err, row.What, row.ID) // the tables have the same names
		}
		return err
	}
	led := w.core.ClockSkew()
	w.skew.Store(&led)
	w.feed.reset(o.snapshot.Revision)
	w.meter.leads(o.meta.Epoch)
	w.led.Store(o.meta.Epoch)
	w.leads.Store(true)
	w.replica.forget()
	for _, what := range w.core.HiddenProviders() {
		w.log.Warn(what)
	}
	hidden, refused := w.core.HiddenProviders(), w.core.Refusals()
	w.hidden.Store(&hidden)
	w.refusals.Store(&refused)
	w.reread()
	for _, warning := range led.Warning(now) {
		w.log.Warn(warning, "skew", led.Ahead)
	}
	w.log.Info("leading", "epoch", o.meta.Epoch, "store", o.meta.StoreID, "revision", o.snapshot.Revision,
		"allocations", len(o.snapshot.Allocations), "hosts", len(o.snapshot.Hosts))
	return nil
}

// submit queues a command, without waiting.
func (w *writer) submit(command core.Command) error {
	switch {
	case w.isStopping():
		return core.ErrStopping
	case !w.leads.Load():
		return core.ErrNotLeading
	}
	select {
	case w.queue <- command:
		return nil
	default:
		w.meter.refused.Inc()
		return ErrBusy
	}
}

// ended reports whether the loop turns no more.
func (w *writer) ended() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

func (w *writer) isStopping() bool {
	select {
	case <-w.stopping:
		return true
	default:
		return false
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
		case t := <-w.orders:
			w.obey(t)
		case o := <-w.outcomes:
			w.settle(o)
		case <-timer.C:
			w.tick()
		case <-stopping:
			stopping = nil
			w.core.HangUp(w.clock.Now(), core.ErrStopping)
		}
		w.gather()
		w.hand()
		w.showHidden()
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
	if !set {
		return time.Hour
	}
	return max(0, due.Sub(w.clock.Now()))
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

func (w *writer) apply(command core.Command) {
	applied(command.Trace())
	if err := w.core.Do(w.clock.Now(), command); err != nil {
		w.panicked(err)
	}
}

// tick does what has come due.
func (w *writer) tick() {
	now := w.clock.Now()
	if w.busy != nil && w.deadline != 0 && now >= w.deadline {
		w.deadline = 0 // the goroutine that commits is still at it; a new Lead waits for it
		err := &CommitError{Err: store.ErrUnknownOutcome}
		w.log.Error("a commit takes too long", "timeout", w.limits.CommitTimeout, "epoch", w.busy.Epoch)
		w.busy.Answer(err)
		if w.core.Leading() { // else the leadership that it was made in is over already
			w.abandon(err)
		}
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
		w.abandon(core.ErrNotLeading)
	}
	if w.busy != nil {
		if fault := w.core.Fault(); fault != nil {
			w.panicked(fault)
		}
		return
	}
	if w.busy = w.core.Take(); w.core.Fault() != nil {
		w.panicked(w.core.Fault())
	} else if w.busy != nil {
		// The store is told to give up at the timeout. One that does not is given up on a little later.
		w.deadline = w.clock.Now().Add(w.limits.CommitTimeout + w.limits.CommitTimeout/10)
		w.jobs <- job{batch: w.busy}
	}
}

// settle takes in what became of a job.
func (w *writer) settle(o outcome) {
	if o.job.batch == nil {
		w.loading = false
		w.loaded(o)
	} else {
		w.busy = nil
		switch {
		case o.err == nil && w.core.InFlight():
			w.core.Done(w.clock.Now())
		case o.err != nil && w.core.Leading():
			w.log.Error("a commit failed: this leadership is over", "epoch", o.job.batch.Epoch, "error", o.err)
			w.abandon(&CommitError{Err: o.err})
		}
	}
	w.seek()
}

// loaded takes in the lead of the store, if it is still wanted.
func (w *writer) loaded(o outcome) {
	t := o.job.tenure
	if t != w.tenure {
		return
	}
	err := o.err
	if err == nil {
		err = w.take(o)
	}
	if err != nil {
		w.tenure = nil
		t.over <- err
		return
	}
	w.atLeast = 0
	t.began <- o.meta
}

// obey begins a tenure, or ends the one that there is.
func (w *writer) obey(t *tenure) {
	if w.core.Leading() {
		w.log.Info("not leading any more", "epoch", w.core.Meta().Epoch)
		w.drop(core.ErrNotLeading)
		if w.busy != nil { // whoever leads now tells what became of it
			w.busy.Answer(&CommitError{Err: store.ErrUnknownOutcome})
		}
	}
	w.tenure = t
	w.seek()
}

// seek asks the store for the lead where there is a tenure for it, and the store is free.
func (w *writer) seek() {
	if w.tenure != nil && !w.core.Leading() && !w.loading && w.busy == nil {
		w.loading = true
		w.jobs <- job{tenure: w.tenure, atLeast: w.atLeast}
	}
}

// abandon ends the leadership and its tenure: what the ledger holds may not be what the store has.
func (w *writer) abandon(err error) {
	w.drop(err)
	w.giveUp(err)
}

// giveUp ends the tenure of a leadership that was dropped.
func (w *writer) giveUp(err error) {
	w.meter.abandoned.Inc()
	t := w.tenure
	w.tenure = nil
	t.over <- err
}

// drop forgets the ledger. Those who watch are told to look elsewhere. The same epoch is never led again, not even where the store was
// put back to before it.
func (w *writer) drop(err error) {
	w.atLeast = max(w.atLeast, w.core.Meta().Epoch+1)
	w.leads.Store(false)
	w.skew.Store(nil)
	w.hidden.Store(nil)
	w.rulesHidden.Store(nil)
	w.rulesSeen = 0
	w.meter.hiddenRules.Set(0)
	w.meter.leading.Set(0)
	w.feed.cut(err)
	w.core.Drop(err)
	w.reread()
}

// reread says that other external clusters may have to be read than before.
func (w *writer) reread() {
	if w.clusters != nil {
		w.clusters()
	}
}

// stop lets run end once what was applied is durable. Whoever waits on the line is told ErrStopping, as is whoever comes.
func (w *writer) stop() { close(w.stopping) }

// finish answers what came too late.
func (w *writer) finish() {
	w.drop(core.ErrStopping)
	for {
		select {
		case command := <-w.queue:
			command.Answer(core.ErrStopping)
		default:
			return
		}
	}
}

// now is the ledger's time while this coordinator leads, else its clock's.
func (w *writer) now() ledger.Instant { return w.clock.Now().Add(w.behind()) }

// behind is how far this coordinator's clock is behind the ledger's time; zero while it does not lead.
func (w *writer) behind() time.Duration {
	if s := w.skew.Load(); s != nil {
		return s.Left(w.clock.Now())
	}
	return 0
}
