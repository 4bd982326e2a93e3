package commit

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/seal"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/turns"
)

// Loop runs a Core. One goroutine owns the core and applies commands from a bounded queue, in which
// callers take turns. Another one calls the store. The first never waits for the second, so it can
// answer whatever the store does.
type Loop struct {
	Options

	core     *core.Core
	replica  *replica
	follower *follower

	calls    sync.Pool     // of *pendingCall, for reuse
	requests sync.Pool     // of *pendingRequest, for reuse
	queue    *commandQueue // commands of callers
	priority priorityQueue // commands of the server itself
	jobs     chan job      // for the goroutine that calls the store; at most one in flight
	outcomes chan outcome
	auditing chan struct{} // has one element during an audit

	terms chan *Term // a term to lead, or nil to step down

	leads atomic.Bool // whether the core leads
	// skew is the skew of the ledger's time to the clock; nil while it does not lead.
	skew atomic.Pointer[core.Skew]
	// outages are those at the begin of the latest leadership; nil: there was none.
	outages   atomic.Pointer[ledger.Outages]
	lastEpoch atomic.Uint64             // the epoch of the latest leadership
	sealKeys  atomic.Pointer[seal.Keys] // of the latest leadership
	// recalling is the leadership whose ledger does not know all remembered request ids yet; 0:
	// none.
	recalling atomic.Uint64
	history   *history // ended allocations
	// hidden lists the stored providers that the file of providers hides.
	hidden   atomic.Pointer[[]string]
	refusals atomic.Pointer[[]string] // the refused commands, with reasons
	notTaken notTakenLog              // engines of hosts that the ledger has elsewhere
	// unvouched logs hosts that report engines without a valid seal.
	unvouched notTakenLog
	// unknownPanic is the last panic without a known cause; nil: there was none.
	unknownPanic atomic.Pointer[unknownPanic]
	// unled is why the last attempt to lead failed, or a leadership ended; nil: no failure.
	unled       atomic.Pointer[error]
	ended       atomic.Pointer[EndedLeadership] // the latest ended leadership; nil: none
	rulesHidden atomic.Pointer[[]string]        // rules that are not in force, with reasons
	undeclared  atomic.Pointer[[]string]        // rules for undeclared dimensions
	// configured are the providers of the file, for the next leadership; nil: there was no file.
	configured atomic.Pointer[[]ledger.ProviderRecord]
	stopping   chan struct{} // closed by stop
	done       chan struct{} // closed when the loop has ended

	// Owned by the loop:
	inFlight  *core.Batch    // being committed
	deadline  ledger.Instant // of that commit
	term      *Term          // nil: may not lead
	loading   bool           // the store was asked for the lead
	restored  *restoring     // the restored state; nil: the store has not answered yet
	atLeast   uint64         // the lowest allowed next epoch
	copyWrong bool           // the last attempt to lead found the copy wrong
	// recallers load remembered request ids; stopRecaller ends the latest. Nil: there is none.
	recallers    sync.WaitGroup
	stopRecaller context.CancelFunc
	// recallFailed names the row that cannot be recalled; nil: there is none.
	recallFailed error
	// rulesSeen is the ledger's count of changes of the rules at the last update of rulesHidden.
	rulesSeen uint64
	// dimensionsSeen is the same for undeclared, by Ledger.DimensionsGeneration.
	dimensionsSeen uint64
	stopped        bool
}

// Term is the permission to lead once: to take the lead, and to keep it until it is lost. The loop
// reports its progress.
type Term struct {
	announced []uint64        // epochs that other coordinators have announced
	Began     chan store.Meta // buffer of one: the lead was taken
	over      chan error      // buffer of one: the lead was not taken, or was lost
	unwanted  chan struct{}   // closed at the step-down, or when another term has begun
}

// job is a task for the store: commit a batch, or take the lead if there is no batch.
type job struct {
	batch   *core.Batch
	term    *Term
	atLeast uint64
	whole   bool // also load the request ids of ended allocations
	doubts  bool // load the whole store: the last copy was wrong, and the next one may be
}

// outcome is the result of a job.
type outcome struct {
	job    job
	meta   store.Meta
	loaded core.Loaded
	read   time.Duration // the time of Lead and of the load
	proof  bool          // the result of proving the earlier outcome of the same job
	err    error
}

// provesLater reports whether another outcome will say if the loaded state is proven.
func (o *outcome) provesLater() bool { return o.err == nil && o.loaded.Prove != nil }

// Admit refuses a new request of a caller whose history is full, with a *HistoryFullError.
func (loop *Loop) Admit(caller string) error { return loop.history.admit(caller) }

// KeepHistory keeps the history within its bounds until ctx ends, while this coordinator leads.
func (loop *Loop) KeepHistory(ctx context.Context) { loop.history.run(ctx) }

// Configure sets the providers of a file, for the next leadership.
func (loop *Loop) Configure(providers []ledger.ProviderRecord) { loop.configured.Store(&providers) }

// Lead tells the loop to take the lead, in an epoch above all believable announced ones. After Stop
// it has no effect.
func (loop *Loop) Lead(announced ...uint64) *Term {
	t := &Term{announced: announced, Began: make(chan store.Meta, 1), over: make(chan error, 1), unwanted: make(chan struct{})}
	loop.sendTerm(t)
	return t
}

// StepDown tells the loop to stop leading. After its return no command is applied, but earlier ones
// may still become durable.
func (loop *Loop) StepDown() { loop.sendTerm(nil) }

func (loop *Loop) sendTerm(t *Term) {
	select {
	case loop.terms <- t:
	case <-loop.done:
	}
}

// submit queues a command, without waiting.
func (loop *Loop) submit(of turns.Owner, command core.Command) error {
	switch {
	case loop.IsStopping():
		return core.ErrStopping
	case !loop.leads.Load():
		return core.ErrNotLeading
	case !loop.queue.put(of, command):
		loop.Metrics.refused.Inc()
		return ErrBusy
	default:
		return nil
	}
}

// hasEnded reports whether the loop has ended.
func (loop *Loop) hasEnded() bool {
	select {
	case <-loop.done:
		return true
	default:
		return false
	}
}

// IsStopping reports whether Stop was called.
func (loop *Loop) IsStopping() bool {
	select {
	case <-loop.stopping:
		return true
	default:
		return false
	}
}

// Run applies and commits until Stop. The goroutines that it starts have ended when it returns.
func (loop *Loop) Run() {
	defer close(loop.done)
	ctx, cancel := context.WithCancel(context.Background())
	var storing sync.WaitGroup
	storing.Go(func() { loop.storeLoop(ctx) })
	storing.Go(func() { loop.follower.run(ctx) })
	defer loop.recallers.Wait()
	defer storing.Wait()
	defer cancel()
	defer close(loop.jobs)

	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	stopping := loop.stopping
	for !loop.stopped {
		queue := loop.queue.signal
		if loop.batchFull() {
			queue = nil // new commands wait in the queue, within its bounds
		}
		timer.Reset(loop.untilDue())
		select {
		case <-queue: // gather takes it
		case <-loop.priority.signal:
			for _, command := range loop.priority.takeAll() {
				loop.apply(loop.Clock.Now(), command)
			}
		case t := <-loop.terms:
			loop.setTerm(t)
		case o := <-loop.outcomes:
			loop.finishJob(o)
		case <-timer.C:
			loop.tick()
		case <-stopping:
			stopping = nil
			loop.core.DetachAll(loop.Clock.Now(), core.ErrStopping)
		}
		loop.gather()
		loop.dispatch()
		loop.publishHiddenRules()
		if stopping == nil && loop.inFlight == nil && loop.core.Pending() == 0 {
			loop.stopped = true
		}
	}
	loop.refuseQueued()
}

// untilDue returns the time until something is due.
func (loop *Loop) untilDue() time.Duration {
	due, set := loop.core.NextTimer()
	consider := func(at ledger.Instant) {
		if !set || at < due {
			due, set = at, true
		}
	}
	if loop.inFlight != nil && loop.deadline != 0 {
		consider(loop.deadline)
	}
	if !set {
		return time.Hour
	}
	return max(0, due.Sub(loop.Clock.Now()))
}

// tick does the work that is due.
func (loop *Loop) tick() {
	now := loop.Clock.Now()
	if loop.inFlight != nil && loop.deadline != 0 && now >= loop.deadline {
		loop.deadline = 0 // the committing goroutine has not returned; a new Lead waits for it
		err := &Error{Err: store.ErrUnknownOutcome}
		loop.Log.Error("a commit takes too long", "timeout", loop.CommitTimeout, "epoch", loop.inFlight.Epoch)
		loop.inFlight.Answer(err)
		if loop.core.Leading() { // otherwise its leadership is over already
			loop.abandon(err)
		}
	}
	if err := loop.core.Advance(now); err != nil {
		loop.endAfterPanic(err)
	}
}

// dispatch gives the current batch to the store, if the store is free.
func (loop *Loop) dispatch() {
	if epoch, superseded := loop.core.Superseded(); superseded && loop.core.Leading() {
		loop.Log.Warn("an agent has seen a later epoch than this one's", "epoch", loop.core.Meta().Epoch, "seen", epoch)
		loop.atLeast = max(loop.atLeast, epoch+1)
		loop.abandon(core.ErrNotLeading)
	}
	if loop.recallFailed != nil && loop.core.Leading() {
		loop.Log.Error("the request ids of ended allocations cannot be loaded: this leadership is over", "epoch", loop.core.Meta().Epoch, "error", loop.recallFailed)
		loop.dropLedger(core.ErrNotLeading) // the row may be another caller's
		loop.endTerm(loop.recallFailed)
	}
	if loop.inFlight != nil {
		if fault := loop.core.Fault(); fault != nil {
			loop.endAfterPanic(fault)
		}
		return
	}
	loop.queue.nextBatch()
	if loop.inFlight = loop.core.Take(); loop.core.Fault() != nil {
		loop.endAfterPanic(loop.core.Fault())
	} else if loop.inFlight != nil {
		// The store gives up at the timeout. If it does not, the loop gives up a little later.
		loop.deadline = loop.Clock.Now().Add(loop.CommitTimeout + loop.CommitTimeout/10)
		loop.jobs <- job{batch: loop.inFlight}
	}
}

// finishJob applies the result of a job.
func (loop *Loop) finishJob(o outcome) {
	switch {
	case o.proof:
		loop.finishLoad(o.err)
	case o.job.batch == nil:
		loop.restored = loop.restore(o)
		if !o.provesLater() {
			loop.finishLoad(nil)
		}
	default:
		loop.inFlight = nil
		switch {
		case o.err == nil && loop.core.InFlight():
			loop.core.Done(loop.Clock.Now())
		case o.err != nil && loop.core.Leading():
			loop.Log.Error("a commit failed: this leadership is over", "epoch", o.job.batch.Epoch, "error", o.err)
			loop.abandon(&Error{Err: o.err})
		}
	}
	loop.acquire()
}

// setTerm begins a term, or ends the current one.
func (loop *Loop) setTerm(t *Term) {
	if loop.core.Leading() {
		loop.Log.Info("not leading any more", "epoch", loop.core.Meta().Epoch)
		loop.dropLedger(core.ErrNotLeading)
		if loop.inFlight != nil { // the next leader finds its result
			loop.inFlight.Answer(&Error{Err: store.ErrUnknownOutcome})
		}
	}
	if loop.term != nil {
		close(loop.term.unwanted)
	}
	loop.term = t
	loop.acquire()
}

// acquire asks the store for the lead if there is a term and the store is free.
func (loop *Loop) acquire() {
	if loop.term != nil && !loop.core.Leading() && !loop.loading && loop.inFlight == nil {
		loop.loading = true
		loop.follower.suspend()
		loop.jobs <- job{term: loop.term, atLeast: loop.atLeast, whole: loop.recallFailed != nil, doubts: loop.copyWrong}
	}
}

// abandon ends the leadership and its term: the ledger and the store may differ.
func (loop *Loop) abandon(err error) {
	loop.dropLedger(err)
	loop.endTerm(err)
}

// endTerm ends the term of a leadership whose ledger was dropped.
func (loop *Loop) endTerm(err error) {
	loop.Metrics.abandoned.Inc()
	t := loop.term
	loop.term = nil
	t.over <- err
}

// dropLedger drops the ledger, and ends all watches so that watchers go to another coordinator. The
// same epoch is never led again, even if the store is restored to a time before it.
func (loop *Loop) dropLedger(err error) {
	loop.atLeast = max(loop.atLeast, loop.core.Meta().Epoch+1)
	loop.leads.Store(false)
	loop.endRecall()
	loop.skew.Store(nil)
	loop.hidden.Store(nil)
	loop.rulesHidden.Store(nil)
	loop.undeclared.Store(nil)
	loop.rulesSeen, loop.dimensionsSeen = 0, 0
	loop.Metrics.hiddenRules.Set(0)
	loop.Metrics.leading.Set(0)
	loop.Feed.endWatches(err)
	loop.core.Drop(err)
	loop.refreshPollers()
}

// refreshPollers says that the external clusters to poll may have changed.
func (loop *Loop) refreshPollers() {
	if loop.ClustersChanged != nil {
		loop.ClustersChanged()
	}
}

// Stop lets Run end once all applied commands are durable. Waiting requests and new commands get
// ErrStopping.
func (loop *Loop) Stop() { close(loop.stopping) }

// Stopping is closed by Stop.
func (loop *Loop) Stopping() <-chan struct{} { return loop.stopping }

// refuseQueued answers the remaining commands.
func (loop *Loop) refuseQueued() {
	loop.dropLedger(core.ErrStopping)
	for command := loop.queue.take(); command != nil; command = loop.queue.take() {
		command.Answer(core.ErrStopping)
	}
}
