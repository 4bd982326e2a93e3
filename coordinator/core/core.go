package core

import (
	"maps"
	"slices"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// Command is one change or read of the ledger, with its waiting caller: a *Call, a *Request, a
// *Report or a *Registration.
type Command interface {
	// Trace returns the recorded span of the command; nil if there is none.
	Trace() *Span

	// apply runs the command. It reports whether this batch answers the caller. If not, the command
	// has added itself to the waiters, or has answered because it changed and read nothing.
	apply(c *Core, now ledger.Instant) (answer bool)
	// Answer answers the caller, once, from any goroutine, without blocking: with nil once all data
	// that the command changed or could have read is durable, otherwise with the reason why its
	// outcome is unknown.
	Answer(err error)
	// origin returns the origin of the command; nil: no caller would send it again.
	origin() *Origin
}

// Call is a command that the batch answers in which it was applied.
type Call struct {
	// Do is run once, while the core leads. Its caller may read the results after Done was called
	// with nil.
	Do func(c *Core, now ledger.Instant)
	// AtOnce calls Done as soon as Do has run. It is for commands that return nothing that could
	// fail to become durable.
	AtOnce bool
	// Done is called once: with nil when the result is durable, or with the reason why it is not.
	// It must not block.
	Done func(error)
	// From may be nil.
	From *Origin
	// Span may be nil.
	Span *Span
}

// OnLedger returns the Do of a Call that needs only the ledger.
func OnLedger(f func(l *ledger.Ledger, now ledger.Instant)) func(*Core, ledger.Instant) {
	return func(c *Core, now ledger.Instant) { f(c.ledger, now) }
}

// Trace implements Command.
func (c *Call) Trace() *Span { return c.Span }

func (c *Call) apply(core *Core, now ledger.Instant) bool {
	c.Do(core, now)
	if c.AtOnce {
		c.Done(nil)
	}
	return !c.AtOnce
}

// Answer implements Command.
func (c *Call) Answer(err error) { c.Done(err) }

func (c *Call) origin() *Origin { return c.From }

// Core is the write path of a coordinator. It applies commands to the ledger in order and gathers
// them into batches. Their callers are answered when the batch is durable. While one batch is being
// committed, the next one gathers. At most one batch is in flight, so if it fails, only the
// commands that build on it fail, too.
//
// The now of every method is the coordinator's own clock. The ledger's time follows from it, see
// Skew.
//
//	core.Lead(now, meta, snapshot)
//	core.Do(now, command) …           any number
//	batch := core.Take()              nil while one is in flight, or if there is nothing
//	err := store.Commit(batch.Batch)  anywhere
//	batch.Stored(now)                 anywhere, if err is nil
//	batch.Answer(err)                 anywhere, once the outcome is known
//	core.Done(now)                    or, if err != nil, core.Drop and a new Lead
type Core struct {
	config    ledger.Config
	newPlacer func() ledger.Placer
	draw      func() uint64 // draws the number of a leadership

	ledger *ledger.Ledger // nil while not leading
	meta   store.Meta
	skew   Skew // of the ledger's time to the coordinator's clock
	// now is the ledger's time of the latest command. It never goes back in a leadership.
	now             ledger.Instant
	storedTime      ledger.Instant // the last ledger's time in the store
	batchedRevision uint64         // the revision of the last batch
	applied         []Command      // applied; answered with the next batch
	waiters         map[ledger.ID]*Request
	deadlines       deadlines // of the waiters
	advance         Call      // does the due work
	inFlight        *Batch
	// leadership is a number that no other leadership has, not even one of the same epoch in a
	// store that was restored from a backup.
	leadership uint64

	// fault is why this leadership cannot go on. explaining is set during the explanation of a
	// failed wait: that of expired, or, if that is nil, one of the current command. If the
	// explanation panics, unexplained is set, and later waits end without an explanation.
	fault       *PanicError
	explaining  bool
	expired     *Request
	unexplained bool
	// refused are the commands, and aside the stored waiting requests, that made the ledger panic.
	// The store has the refused commands of an earlier leadership, or gets them with the first
	// batch of the next one. The next leadership cancels the stored requests.
	refused RefusedSet
	aside   map[ledger.ID]string

	over over
	// informed has the hosts of the ledger that know, or may know, this leadership's epoch.
	informed map[string]bool
	// returns spreads the full reports of hosts from an earlier leadership.
	returns returns
	// setback is the evidence that the store went back in time before this leadership.
	setback setback
	// superseded is an epoch of another leadership, not below this one's, that an agent has seen;
	// 0: none.
	superseded  uint64
	fenceLimits fenceLimits // limits of hosts that have seen such epochs, over all leaderships

	// files are the rules from files, by source. They are not in the store.
	files map[string][]ledger.Quota
	// providers are those of the file. They are not in the store. shadowed are the stored providers
	// that they hide, and hidden are texts about these, as of the last Lead or the last reload
	// after it.
	providers []ledger.ProviderRecord
	shadowed  []ledger.ProviderRecord
	hidden    []string
	// providerGenerations counts the changes of a provider in this leadership: a reading from
	// before a change may be of another cluster.
	providerGenerations map[ledger.ClusterName]uint64
}

// NewCore returns a core that does not lead yet. Every Lead makes a new placer, and draws a number
// for the leadership, which must never be 0 and never repeat.
func NewCore(config ledger.Config, newPlacer func() ledger.Placer, draw func() uint64) *Core {
	return &Core{
		config: config, newPlacer: newPlacer, draw: draw, advance: Call{Do: advance, Done: func(error) {}},
		waiters: make(map[ledger.ID]*Request), files: make(map[string][]ledger.Quota), fenceLimits: make(fenceLimits),
		aside: make(map[ledger.ID]string),
	}
}

// QuotasOfFiles returns the rules of files in the form of a snapshot.
func QuotasOfFiles(files map[string][]ledger.Quota) (rules []ledger.Quota) {
	for source, quotas := range files {
		for _, q := range quotas {
			q.Source = source
			rules = append(rules, q)
		}
	}
	return rules
}

// EmptyLedger makes a ledger, with a placer of its own. Any goroutine may call it.
func (c *Core) EmptyLedger() *ledger.Ledger { return ledger.New(c.config, c.newPlacer()) }

// ClockSkew is the skew of the ledger's time in the latest leadership.
func (c *Core) ClockSkew() Skew { return c.skew }

// Leading reports whether the core can apply commands.
func (c *Core) Leading() bool { return c.ledger != nil }

// Meta is the store's meta at the beginning of the leadership.
func (c *Core) Meta() store.Meta { return c.meta }

// ownEpoch is the epoch and number of this leadership, which hosts get.
func (c *Core) ownEpoch() SeenEpoch { return SeenEpoch{c.meta.Epoch, c.leadership} }

// Ledger is the current ledger, with changes that are not durable yet; nil while not leading.
func (c *Core) Ledger() *ledger.Ledger { return c.ledger }

// advanceTime advances the ledger's time. It never goes back: an earlier now counts as the latest
// one.
func (c *Core) advanceTime(now ledger.Instant) ledger.Instant {
	c.now = max(c.now, c.skew.Ledger(now))
	return c.now
}

// Time is the ledger's time at a time of the coordinator's clock, in the latest leadership.
func (c *Core) Time(now ledger.Instant) ledger.Instant { return c.skew.Ledger(now) }

// Do applies a command, or answers it at once if the core does not lead. An error is a panic of the
// ledger: the core must be dropped.
func (c *Core) Do(now ledger.Instant, command Command) error {
	if c.ledger == nil || c.fault != nil {
		command.Answer(ErrNotLeading)
		return c.Fault()
	}
	c.advanceTime(now)
	if len(c.refused.list) > 0 {
		if refusal := c.refused.Of(command.origin(), c.now); refusal != nil {
			refused := &RefusedError{*refusal}
			report, lives := command.(*Report)
			if !lives {
				command.Answer(refused)
				return nil
			}
			report.refused = refused
		}
	}
	c.ledger.ActAs(actorOf(command))
	return c.withRecover(c.ledger, command, func() {
		if command.apply(c, c.now) {
			c.applied = append(c.applied, command)
		}
	})
}

// actorOf returns the author of a command, for watchers of the change; empty: this coordinator.
func actorOf(command Command) string {
	switch r := command.(type) {
	case *Report:
		return hostActor + r.Command.HostID
	case *Registration:
		return hostActor + r.Command.HostID
	}
	if from := command.origin(); from != nil {
		return from.Caller
	}
	return ""
}

// hostActor is the prefix of a host id, for changes that the host's agent reported.
const hostActor = "host:"

// Advance lets the ledger do the due work. Its errors are those of Do.
func (c *Core) Advance(now ledger.Instant) error {
	if c.ledger == nil {
		return nil
	}
	return c.Do(now, &c.advance)
}

// NextTimer is when Advance is due, by the clock.
func (c *Core) NextTimer() (due ledger.Instant, set bool) {
	if c.ledger == nil {
		return 0, false
	}
	if c.fault != nil || c.withRecover(c.ledger, nil, func() {
		due, set = c.ledger.NextTimer()
		if keep := c.storedTime.Add(keepTime); c.inFlight == nil && c.ledger.Pending() && (!set || keep < due) {
			due, set = keep, true
		}
	}) != nil {
		return 0, true // at once: Advance returns the error
	}
	if len(c.deadlines) > 0 && (!set || c.deadlines[0].until < due) {
		due, set = c.deadlines[0].until, true
	}
	return c.skew.clock(due), set
}

// keepTime is how often the ledger's time is made durable while a timer runs and no row changes. If
// the clock of the next leadership is behind, at most this much time has to pass again.
const keepTime = 5 * time.Second

// Recorded is the total size in bytes of the allocation rows that were changed in this leadership;
// 0 while not leading.
func (c *Core) Recorded() int64 {
	if c.ledger == nil {
		return 0
	}
	return c.ledger.Recorded()
}

// Pending is the number of applied commands that are not in a batch yet.
func (c *Core) Pending() int { return len(c.applied) }

// Take closes the gathered batch and returns it for the commit. It returns nil while another batch
// is in flight and if there is a Fault. It also returns nil if there is no change, no waiting
// caller, and no need to store the time.
func (c *Core) Take() *Batch {
	if c.ledger == nil || c.fault != nil || c.inFlight != nil {
		return nil
	}
	keep := c.now.Sub(c.storedTime) >= keepTime && c.ledger.Pending()
	if len(c.applied) == 0 && c.ledger.Revision() == c.batchedRevision && !keep && c.refused.unkept == 0 {
		return nil
	}
	var changes ledger.Changes
	if c.withRecover(c.ledger, nil, func() {
		changes = c.ledger.Changes()
		c.decideWaiters(changes.Transitions)
	}) != nil {
		return nil
	}
	if c.refused.unkept > 0 || len(c.refused.gone) > 0 {
		c.refused.changes(&changes)
	}
	after := c.batchedRevision
	changes.Time = c.now // commands that only read advance it, too
	c.batchedRevision = changes.Revision
	c.inFlight = &Batch{Batch: store.Batch{Epoch: c.meta.Epoch, Changes: changes, KeepTime: keep}, Commands: c.applied, after: after, grace: c.ledger.Interval()}
	if !c.inFlight.Empty() {
		c.storedTime = c.now
	}
	c.applied = nil
	return c.inFlight
}

// InFlight reports whether a batch was taken and is not done yet.
func (c *Core) InFlight() bool { return c.inFlight != nil }

// Done says that the last taken batch is durable: the time of its grants begins to count. It
// applies no command and does not advance the ledger's time. The caller must not read the
// transitions of the batch any more: later batches use their array.
func (c *Core) Done(now ledger.Instant) {
	if c.inFlight == nil {
		return
	}
	done := c.inFlight
	c.inFlight = nil
	c.refused.keep(done.Refusals)
	_ = c.withRecover(c.ledger, nil, func() { // a panic there is in Fault
		c.ledger.Durable(max(c.now, c.skew.Ledger(now)), done.Revision)
		c.ledger.Reuse(&done.Changes)
	})
}

// Drop ends the leadership: it drops the ledger and answers all callers without an answer with err.
// It does not answer the callers of a batch in flight: the goroutine that commits the batch does.
func (c *Core) Drop(err error) {
	open, waiters := c.applied, c.waiters
	c.ledger, c.applied, c.inFlight, c.fault = nil, nil, nil, nil
	c.waiters, c.deadlines = make(map[ledger.ID]*Request), nil
	for _, command := range open {
		command.Answer(err)
	}
	clearWaiters(waiters, func(_ ledger.ID, request *Request) { request.Answer(err) })
}

// DetachAll answers all waiters with err. Their requests keep their places for as long as a request
// without a caller does.
func (c *Core) DetachAll(now ledger.Instant, err error) {
	waiters := c.waiters
	c.waiters, c.deadlines = make(map[ledger.ID]*Request), nil
	clearWaiters(waiters, func(id ledger.ID, request *Request) {
		if c.fault == nil {
			// a panic is in Fault
			_ = c.withRecover(c.ledger, nil, func() { c.ledger.Detach(c.advanceTime(now), id) })
		}
		request.Answer(err)
	})
}

// clearWaiters removes every waiter, in the order of their allocations, so that the same commands
// have the same answers.
func clearWaiters(waiters map[ledger.ID]*Request, each func(ledger.ID, *Request)) {
	for _, id := range slices.Sorted(maps.Keys(waiters)) {
		for request := waiters[id]; request != nil; {
			next := request.next
			request.next, request.waiting = nil, false
			each(id, request)
			request = next
		}
	}
}

// Superseded returns the epoch that the next Lead must exceed, if an agent has reported an epoch
// above this core's, or the same epoch of another leadership. Then the store was restored from a
// backup, or this coordinator is no longer the leader.
func (c *Core) Superseded() (uint64, bool) { return c.superseded, c.superseded != 0 }

// SetQuotaFiles replaces the rules of some files, by source, all or nothing. If the core leads, the
// ledger applies them or refuses them with a *ledger.FieldError. If not, the next Lead applies
// them.
func (c *Core) SetQuotaFiles(now ledger.Instant, files map[string][]ledger.Quota) error {
	if c.ledger != nil {
		now = c.advanceTime(now)
	}
	return c.ReplaceQuotaFiles(now, files)
}

// ReplaceQuotaFiles does the same at a given time of the ledger. It is for use in a command.
func (c *Core) ReplaceQuotaFiles(now ledger.Instant, files map[string][]ledger.Quota) error {
	if c.ledger != nil {
		if err := c.ledger.SetSources(now, files); err != nil {
			return err
		}
	}
	maps.Copy(c.files, files)
	return nil
}

// SetProviders sets the providers of a file, for the next Lead.
func (c *Core) SetProviders(records []ledger.ProviderRecord) { c.providers = records }
