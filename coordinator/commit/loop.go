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

// Loop runs a Core. One goroutine owns it and applies what comes through a bounded queue, in which
// callers take turns; another one calls the store. The first never waits for the second, so it can
// answer whatever the store does.
type Loop struct {
	Options

	core     *core.Core
	replica  *replica
	follower *follower

	calls    sync.Pool     // of *pendingCall, for reuse
	requests sync.Pool     // of *pendingRequest, for reuse
	queue    *commandQueue // what callers ask for
	priority priorityQueue // what the server itself asks for
	jobs     chan job      // for the goroutine that calls the store; at most one under way
	outcomes chan outcome
	auditing chan struct{} // holds one while an audit is made

	terms chan *Term // to lead, or with nil not to

	leads atomic.Bool // the core does
	// skew is that of the ledger's time to the clock; nil while it does not lead.
	skew atomic.Pointer[core.Skew]
	// outages are those that the latest leadership began with; nil: there was none.
	outages   atomic.Pointer[ledger.Outages]
	lastEpoch atomic.Uint64             // the epoch of the latest leadership
	sealKeys  atomic.Pointer[seal.Keys] // of the latest leadership
	// recalling is the leadership whose ledger does not know all remembered request ids yet; 0:
	// none.
	recalling atomic.Uint64
	history   *history // what has ended
	// hidden is what the file of providers hides of the stored ones.
	hidden   atomic.Pointer[[]string]
	refusals atomic.Pointer[[]string] // which commands are refused, and why
	notTaken notTakenLog              // what hosts report that others have
	// unvouched are hosts that report engines for which nothing vouches.
	unvouched notTakenLog
	// unknownPanic is the last panic without a known cause; nil: there was none.
	unknownPanic atomic.Pointer[unknownPanic]
	// unled is why the last attempt to lead failed, or a leadership ended; nil: it did not.
	unled       atomic.Pointer[error]
	ended       atomic.Pointer[EndedLeadership] // the latest that ended; nil: none has
	rulesHidden atomic.Pointer[[]string]        // which rules are not in force, and why
	undeclared  atomic.Pointer[[]string]        // which rules are for dimensions that nothing declares
	// configured are the providers of the file, for the next leadership; nil: there was no file.
	configured atomic.Pointer[[]ledger.ProviderRecord]
	stopping   chan struct{} // closed by stop
	done       chan struct{} // closed when the loop has ended

	// Owned by the loop:
	inFlight  *core.Batch    // being committed
	deadline  ledger.Instant // of that commit
	term      *Term          // nil: may not lead
	loading   bool           // the store is asked for a lead
	restored  *restoring     // with what it gave; nil: it has given nothing yet
	atLeast   uint64         // the least that the next epoch may be
	copyWrong bool           // the last attempt to lead found that; until one succeeds
	// recallers bring remembered request ids; stopRecaller ends the latest. Nil: there is none.
	recallers    sync.WaitGroup
	stopRecaller context.CancelFunc
	// recallFailed says over which row the request ids could not be brought; nil: there is none.
	recallFailed error
	// rulesSeen is the ledger's count of changes of the rules, when rulesHidden was looked at.
	rulesSeen uint64
	// dimensionsSeen is the same of undeclared, by Ledger.DimensionsGeneration.
	dimensionsSeen uint64
	stopped        bool
}

// Term is the permission to lead once: to take the lead, and to keep it until it is lost. The loop
// tells what becomes of it.
type Term struct {
	announced []uint64        // epochs that somebody has announced
	Began     chan store.Meta // holds one: the lead was taken
	over      chan error      // holds one: it could not be, or was lost
	unwanted  chan struct{}   // closed when it was stepped down from, or another one has begun
}

// job is something to do with the store: commit a batch, or take the lead if there is none.
type job struct {
	batch   *core.Batch
	term    *Term
	atLeast uint64
	whole   bool // also load the request ids of what has ended
	doubts  bool // load everything: the last copy was wrong, and the next one may be
}

// outcome is the result of a job.
type outcome struct {
	job    job
	meta   store.Meta
	loaded core.Loaded
	read   time.Duration // how long Lead and reading took
	proof  bool          // of what was loaded before, for the same job
	err    error
}

// provesLater reports whether another outcome says if what was loaded is proven.
func (o *outcome) provesLater() bool { return o.err == nil && o.loaded.Prove != nil }

// Admit refuses a new request of a caller whose history is full, with a *HistoryFullError.
func (loop *Loop) Admit(caller string) error { return loop.history.admit(caller) }

// KeepHistory keeps the history within its bounds until ctx ends, while this coordinator leads.
func (loop *Loop) KeepHistory(ctx context.Context) { loop.history.run(ctx) }

// Configure says which providers come from a file, for the next leadership.
func (loop *Loop) Configure(providers []ledger.ProviderRecord) { loop.configured.Store(&providers) }

// Lead tells the loop to take the lead, in an epoch above the announced ones that can be believed.
// After Stop it has no effect.
func (loop *Loop) Lead(announced ...uint64) *Term {
	t := &Term{announced: announced, Began: make(chan store.Meta, 1), over: make(chan error, 1), unwanted: make(chan struct{})}
	loop.sendTerm(t)
	return t
}

// StepDown tells the loop not to lead any more. When it returns no command is applied, but what
// was applied before may still become durable.
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

// Run applies and commits until stop. The goroutines that it starts have ended when it returns.
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
			queue = nil // what comes now waits in the queue, and the queue's bounds apply
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

// untilDue is how long nothing is due.
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

// tick does what has come due.
func (loop *Loop) tick() {
	now := loop.Clock.Now()
	if loop.inFlight != nil && loop.deadline != 0 && now >= loop.deadline {
		loop.deadline = 0 // the goroutine that commits has not returned; a new Lead waits for it
		err := &Error{Err: store.ErrUnknownOutcome}
		loop.Log.Error("a commit takes too long", "timeout", loop.CommitTimeout, "epoch", loop.inFlight.Epoch)
		loop.inFlight.Answer(err)
		if loop.core.Leading() { // else the leadership that it was made in is over already
			loop.abandon(err)
		}
	}
	if err := loop.core.Advance(now); err != nil {
		loop.endAfterPanic(err)
	}
}

// dispatch gives the store what has gathered, if it is free.
func (loop *Loop) dispatch() {
	if epoch, superseded := loop.core.Superseded(); superseded && loop.core.Leading() {
		loop.Log.Warn("an agent has seen a later epoch than this one's", "epoch", loop.core.Meta().Epoch, "seen", epoch)
		loop.atLeast = max(loop.atLeast, epoch+1)
		loop.abandon(core.ErrNotLeading)
	}
	if loop.recallFailed != nil && loop.core.Leading() {
		loop.Log.Error("the request ids of ended allocations cannot be loaded: this leadership is over", "epoch", loop.core.Meta().Epoch, "error", loop.recallFailed)
		loop.dropLedger(core.ErrNotLeading) // it may be another caller's row
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

// finishJob takes over the result of a job.
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

// setTerm begins a term, or ends the one that there is.
func (loop *Loop) setTerm(t *Term) {
	if loop.core.Leading() {
		loop.Log.Info("not leading any more", "epoch", loop.core.Meta().Epoch)
		loop.dropLedger(core.ErrNotLeading)
		if loop.inFlight != nil { // the next leader finds out its result
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

// endTerm ends the term of a leadership that was dropped.
func (loop *Loop) endTerm(err error) {
	loop.Metrics.abandoned.Inc()
	t := loop.term
	loop.term = nil
	t.over <- err
}

// dropLedger forgets the ledger. Watchers are sent to another coordinator. The same epoch is never
// led again, even if the store was put back to before it.
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

// refreshPollers says that other external clusters may have to be read than before.
func (loop *Loop) refreshPollers() {
	if loop.ClustersChanged != nil {
		loop.ClustersChanged()
	}
}

// Stop lets Run end once what was applied is durable. Waiting requests are answered with
// ErrStopping, and so are new commands.
func (loop *Loop) Stop() { close(loop.stopping) }

// Stopping is closed by Stop.
func (loop *Loop) Stopping() <-chan struct{} { return loop.stopping }

// refuseQueued answers what came too late.
func (loop *Loop) refuseQueued() {
	loop.dropLedger(core.ErrStopping)
	for command := loop.queue.take(); command != nil; command = loop.queue.take() {
		command.Answer(core.ErrStopping)
	}
}
