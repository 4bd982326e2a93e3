package commit

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// Loop runs a Core: one goroutine owns it and applies what comes through a bounded queue, another one talks to the
// store. The first never waits for the second, so that it can answer whatever the store does.
type Loop struct {
	Options

	core    *core.Core
	replica *replica

	calls    sync.Pool         // of *pendingCall, for reuse
	requests sync.Pool         // of *pendingRequest, for reuse
	queue    chan core.Command // bounded: what callers ask for
	priority priorityQueue     // unbounded, but each entry ends one that was bounded
	jobs     chan job          // for the goroutine that talks to the store; at most one under way
	outcomes chan outcome

	terms chan *Term // to lead, or with nil not to

	leads        atomic.Bool                  // the core does
	skew         atomic.Pointer[core.Skew]    // of the ledger's time to the clock; nil while it does not lead
	led          atomic.Uint64                // the epoch of the latest leadership
	history      *history                     // what has ended
	hidden       atomic.Pointer[[]string]     // what the file of providers hides of the stored ones
	refusals     atomic.Pointer[[]string]     // which commands are refused, and why
	notTaken     notTakenLog                  // what hosts report that others have
	unknownPanic atomic.Pointer[unknownPanic] // the last panic of which that is not known; nil: there was none
	rulesHidden  atomic.Pointer[[]string]     // which rules are not in force, and why
	// configured are the providers of the file, for the next leadership; nil: there was no file.
	configured atomic.Pointer[[]ledger.ProviderRecord]
	stopping   chan struct{} // closed by stop
	done       chan struct{} // closed when the loop has ended

	// Owned by the loop:
	inFlight  *core.Batch    // being committed
	deadline  ledger.Instant // of that commit
	term      *Term          // nil: may not lead
	loading   bool           // the store is asked for a lead
	atLeast   uint64         // what the next epoch must not be below
	rulesSeen uint64         // the ledger's count of changes of the rules, when rulesHidden was looked at
	stopped   bool
}

// Term is the permission to lead once: to take the lead, and to keep it until it is lost. The loop tells what becomes of it.
type Term struct {
	announced []uint64        // epochs that somebody has announced
	Began     chan store.Meta // holds one: the lead was taken
	over      chan error      // holds one: it could not be, or was lost
}

// job is something to do with the store: commit a batch, or take the lead where there is none.
type job struct {
	batch   *core.Batch
	term    *Term
	atLeast uint64
}

// outcome is what became of a job.
type outcome struct {
	job      job
	meta     store.Meta
	snapshot ledger.Snapshot
	err      error
}

// Admit refuses a new request of a caller whose history is full, with a *HistoryFullError.
func (w *Loop) Admit(caller string) error { return w.history.admit(caller) }

// KeepHistory keeps the history within its bounds until ctx ends, while this coordinator leads.
func (w *Loop) KeepHistory(ctx context.Context) { w.history.run(ctx) }

// Configure says which providers come from a file, for the next leadership.
func (w *Loop) Configure(providers []ledger.ProviderRecord) { w.configured.Store(&providers) }

// Lead tells the loop to take the lead, in an epoch above those that were announced, as far as they are to be believed. After stop nothing
// comes of it.
func (w *Loop) Lead(announced ...uint64) *Term {
	t := &Term{announced: announced, Began: make(chan store.Meta, 1), over: make(chan error, 1)}
	w.sendTerm(t)
	return t
}

// StepDown tells the loop not to lead any more. When it returns no command is applied, but what was applied before may still
// become durable.
func (w *Loop) StepDown() { w.sendTerm(nil) }

func (w *Loop) sendTerm(t *Term) {
	select {
	case w.terms <- t:
	case <-w.done:
	}
}

// startLeading makes the core lead with what was loaded.
func (w *Loop) startLeading(o outcome) error {
	if w.Rules != nil {
		if err := w.core.SetFiles(0, w.Rules()); err != nil { // it does not lead yet: nothing to refuse them
			return err
		}
	}
	if configured := w.configured.Load(); configured != nil {
		w.core.SetProviders(*configured)
	}
	now := w.Clock.Now()
	if err := w.core.Lead(now, o.meta, o.snapshot); err != nil {
		if fault, ok := errors.AsType[*core.PanicError](err); ok {
			w.recordFault(fault)
		}
		if row, refused := errors.AsType[*ledger.RestoreError](err); refused {
			err = badRow(err, row.What, row.ID) // the tables have the same names
		}
		return err
	}
	led := w.core.ClockSkew()
	w.skew.Store(&led)
	w.Feed.reset(o.snapshot.Revision)
	w.Meter.leads(o.meta.Epoch)
	w.led.Store(o.meta.Epoch)
	w.leads.Store(true)
	w.replica.forget()
	for _, what := range w.core.HiddenProviders() {
		w.Log.Warn(what)
	}
	hidden, refused := w.core.HiddenProviders(), w.core.Refusals()
	w.hidden.Store(&hidden)
	w.refusals.Store(&refused)
	w.refreshPollers()
	for _, warning := range led.Warning(now) {
		w.Log.Warn(warning, "skew", led.Ahead)
	}
	w.Log.Info("leading", "epoch", o.meta.Epoch, "store", o.meta.StoreID, "revision", o.snapshot.Revision,
		"allocations", len(o.snapshot.Allocations), "hosts", len(o.snapshot.Hosts))
	return nil
}

// submit queues a command, without waiting.
func (w *Loop) submit(command core.Command) error {
	switch {
	case w.IsStopping():
		return core.ErrStopping
	case !w.leads.Load():
		return core.ErrNotLeading
	}
	select {
	case w.queue <- command:
		return nil
	default:
		w.Meter.refused.Inc()
		return ErrBusy
	}
}

// hasEnded reports whether the loop turns no more.
func (w *Loop) hasEnded() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// IsStopping reports whether Stop was called.
func (w *Loop) IsStopping() bool {
	select {
	case <-w.stopping:
		return true
	default:
		return false
	}
}

// Run applies and commits until stop. The goroutine that it starts has ended when it returns.
func (w *Loop) Run() {
	defer close(w.done)
	ctx, cancel := context.WithCancel(context.Background())
	var storing sync.WaitGroup
	storing.Go(func() { w.storeLoop(ctx) })
	defer storing.Wait()
	defer cancel()
	defer close(w.jobs)

	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	stopping := w.stopping
	for !w.stopped {
		queue := w.queue
		if w.core.Pending() >= w.Batch {
			queue = nil // full: what comes now waits in the queue, whose bound then holds
		}
		timer.Reset(w.untilDue())
		select {
		case command := <-queue:
			w.apply(command)
		case <-w.priority.signal:
			for _, command := range w.priority.takeAll() {
				w.apply(command)
			}
		case t := <-w.terms:
			w.setTerm(t)
		case o := <-w.outcomes:
			w.finishJob(o)
		case <-timer.C:
			w.tick()
		case <-stopping:
			stopping = nil
			w.core.DetachAll(w.Clock.Now(), core.ErrStopping)
		}
		w.gather()
		w.dispatch()
		w.publishHiddenRules()
		if stopping == nil && w.inFlight == nil && w.core.Pending() == 0 {
			w.stopped = true
		}
	}
	w.refuseQueued()
}

// untilDue is how long nothing is due.
func (w *Loop) untilDue() time.Duration {
	due, set := w.core.NextTimer()
	consider := func(at ledger.Instant) {
		if !set || at < due {
			due, set = at, true
		}
	}
	if w.inFlight != nil && w.deadline != 0 {
		consider(w.deadline)
	}
	if !set {
		return time.Hour
	}
	return max(0, due.Sub(w.Clock.Now()))
}

// gather applies what else has arrived, so that one commit covers it.
func (w *Loop) gather() {
	for w.core.Pending() < w.Batch {
		select {
		case command := <-w.queue:
			w.apply(command)
		default:
			return
		}
	}
}

func (w *Loop) apply(command core.Command) {
	markApplied(command.Trace())
	if err := w.core.Do(w.Clock.Now(), command); err != nil {
		w.endAfterPanic(err)
	}
}

// tick does what has come due.
func (w *Loop) tick() {
	now := w.Clock.Now()
	if w.inFlight != nil && w.deadline != 0 && now >= w.deadline {
		w.deadline = 0 // the goroutine that commits is still at it; a new Lead waits for it
		err := &Error{Err: store.ErrUnknownOutcome}
		w.Log.Error("a commit takes too long", "timeout", w.CommitTimeout, "epoch", w.inFlight.Epoch)
		w.inFlight.Answer(err)
		if w.core.Leading() { // else the leadership that it was made in is over already
			w.abandon(err)
		}
	}
	if err := w.core.Advance(now); err != nil {
		w.endAfterPanic(err)
	}
}

// dispatch gives the store what has gathered, if it is free.
func (w *Loop) dispatch() {
	if epoch, outdone := w.core.Superseded(); outdone && w.core.Leading() {
		w.Log.Warn("an agent has seen a later epoch than this one's", "epoch", w.core.Meta().Epoch, "seen", epoch)
		w.atLeast = max(w.atLeast, epoch+1)
		w.abandon(core.ErrNotLeading)
	}
	if w.inFlight != nil {
		if fault := w.core.Fault(); fault != nil {
			w.endAfterPanic(fault)
		}
		return
	}
	if w.inFlight = w.core.Take(); w.core.Fault() != nil {
		w.endAfterPanic(w.core.Fault())
	} else if w.inFlight != nil {
		// The store is told to give up at the timeout. One that does not is given up on a little later.
		w.deadline = w.Clock.Now().Add(w.CommitTimeout + w.CommitTimeout/10)
		w.jobs <- job{batch: w.inFlight}
	}
}

// finishJob takes in what became of a job.
func (w *Loop) finishJob(o outcome) {
	if o.job.batch == nil {
		w.loading = false
		w.finishLoad(o)
	} else {
		w.inFlight = nil
		switch {
		case o.err == nil && w.core.InFlight():
			w.core.Done(w.Clock.Now())
		case o.err != nil && w.core.Leading():
			w.Log.Error("a commit failed: this leadership is over", "epoch", o.job.batch.Epoch, "error", o.err)
			w.abandon(&Error{Err: o.err})
		}
	}
	w.acquire()
}

// finishLoad takes in the lead of the store, if it is still wanted.
func (w *Loop) finishLoad(o outcome) {
	t := o.job.term
	if t != w.term {
		return
	}
	err := o.err
	if err == nil {
		err = w.startLeading(o)
	}
	if err != nil {
		w.term = nil
		t.over <- err
		return
	}
	w.atLeast = 0
	t.Began <- o.meta
}

// setTerm begins a term, or ends the one that there is.
func (w *Loop) setTerm(t *Term) {
	if w.core.Leading() {
		w.Log.Info("not leading any more", "epoch", w.core.Meta().Epoch)
		w.dropLedger(core.ErrNotLeading)
		if w.inFlight != nil { // whoever leads now tells what became of it
			w.inFlight.Answer(&Error{Err: store.ErrUnknownOutcome})
		}
	}
	w.term = t
	w.acquire()
}

// acquire asks the store for the lead where there is a term for it, and the store is free.
func (w *Loop) acquire() {
	if w.term != nil && !w.core.Leading() && !w.loading && w.inFlight == nil {
		w.loading = true
		w.jobs <- job{term: w.term, atLeast: w.atLeast}
	}
}

// abandon ends the leadership and its term: what the ledger holds may not be what the store has.
func (w *Loop) abandon(err error) {
	w.dropLedger(err)
	w.endTerm(err)
}

// endTerm ends the term of a leadership that was dropped.
func (w *Loop) endTerm(err error) {
	w.Meter.abandoned.Inc()
	t := w.term
	w.term = nil
	t.over <- err
}

// dropLedger forgets the ledger. Those who watch are told to look elsewhere. The same epoch is never led again, not even where the store was
// put back to before it.
func (w *Loop) dropLedger(err error) {
	w.atLeast = max(w.atLeast, w.core.Meta().Epoch+1)
	w.leads.Store(false)
	w.skew.Store(nil)
	w.hidden.Store(nil)
	w.rulesHidden.Store(nil)
	w.rulesSeen = 0
	w.Meter.hiddenRules.Set(0)
	w.Meter.leading.Set(0)
	w.Feed.endWatches(err)
	w.core.Drop(err)
	w.refreshPollers()
}

// refreshPollers says that other external clusters may have to be read than before.
func (w *Loop) refreshPollers() {
	if w.ClustersChanged != nil {
		w.ClustersChanged()
	}
}

// Stop lets run end once what was applied is durable. Requests that wait are answered with ErrStopping, as is what comes.
func (w *Loop) Stop() { close(w.stopping) }

// refuseQueued answers what came too late.
func (w *Loop) refuseQueued() {
	w.dropLedger(core.ErrStopping)
	for {
		select {
		case command := <-w.queue:
			command.Answer(core.ErrStopping)
		default:
			return
		}
	}
}
