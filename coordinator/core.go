package coordinator

import (
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync/atomic"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// Command is one thing to do to the ledger, with the caller that waits for it: a *Call, an *Ask, a *Report or an *Enrolment.
type Command interface {
	// apply does it. It reports whether the caller is to be answered with this batch; if not, the command has put itself
	// among those that wait, or has answered where there was nothing to do or to see.
	apply(c *Core, now ledger.Instant) (answer bool)
	// answer tells the caller, once, from any goroutine, without blocking: nil once everything that the command changed or
	// could have seen is durable, else why nothing is known of it.
	answer(err error)
}

// Call is a command that is answered with the batch it was applied in.
type Call struct {
	// Do is run once, on the ledger. What it keeps for its caller may be read after Done was called with nil.
	Do func(l *ledger.Ledger, now ledger.Instant)
	// Done is told once when the result holds, or why it does not. It must not block.
	Done func(error)
}

func (c *Call) apply(core *Core, now ledger.Instant) bool {
	c.Do(core.ledger, now)
	return true
}

func (c *Call) answer(err error) { c.Done(err) }

// Core is the write path of a coordinator: commands are applied to the ledger in order, gathered into batches, and their
// callers answered when the batch is durable. While one batch is being committed the next one gathers; there is never more
// than one under way, so a batch that fails takes only what was built on it down with it.
//
//	core.Lead(now, meta, snapshot)
//	core.Do(now, command) …           any number
//	batch := core.Take()              nil while one is under way, or where there is nothing
//	err := store.Commit(batch.Batch)  anywhere
//	batch.Answer(err)                 anywhere, once the outcome is known
//	core.Done()                       or, where err != nil, core.Drop and a new Lead
type Core struct {
	config    ledger.Config
	newPlacer func() ledger.Placer
	draw      func() uint64 // the number of a leadership

	ledger *ledger.Ledger // nil while not leading
	meta   store.Meta
	now    ledger.Instant // of the latest command; it never goes back
	taken  uint64         // the revision that the last batch reached
	open   []Command      // applied; answered with the next batch
	line   map[ledger.ID]*Ask
	flight *Batch
	// leadership is a number that no other leadership has, not even one of the same epoch in a store that was put back.
	leadership uint64

	told    map[string]bool // hosts of the ledger that have heard of this leadership's epoch, or may have
	outdone uint64          // an epoch of another leadership, not below this one's, that an agent has seen; 0: none
	claims  claims          // of hosts that have seen such epochs, over all leaderships

	// files are the rules that come from files, by source: they are not in the store.
	files map[string][]ledger.Quota
	// providers are those of the file: they are not in the store. What they hide of the stored ones is shadowed, and in words hidden; of the
	// last Lead, or the last reload in it.
	providers []ledger.ProviderRecord
	shadowed  []ledger.ProviderRecord
	hidden    []string
	// turns count how often a provider was changed in this leadership: what was read for an earlier one is of another cluster, maybe.
	turns map[ledger.ClusterName]uint64
}

// Batch is what one commit covers: the changed rows, and the callers that are answered when they are durable.
type Batch struct {
	store.Batch
	commands []Command
	answered atomic.Bool
}

// Answer tells every caller that the batch covers: nil where it is durable, else why it is not known to be. Only the first
// call does; whoever gives up on a commit may do so while it is still under way.
func (b *Batch) Answer(err error) {
	if !b.answered.CompareAndSwap(false, true) {
		return
	}
	for _, command := range b.commands {
		command.answer(err)
	}
}

// Size is the number of callers that wait for the batch.
func (b *Batch) Size() int { return len(b.commands) }

// NewCore returns a core that does not lead yet. Every Lead takes a fresh placer, and draws a number for the leadership, which is never 0 and
// never comes twice.
func NewCore(config ledger.Config, newPlacer func() ledger.Placer, draw func() uint64) *Core {
	return &Core{
		config: config, newPlacer: newPlacer, draw: draw,
		line: make(map[ledger.ID]*Ask), files: make(map[string][]ledger.Quota), claims: make(claims),
	}
}

// Lead begins a leadership with what the store has. The rules and providers from files are those of SetFiles and SetProviders. An error leaves the core
// not leading.
func (c *Core) Lead(now ledger.Instant, meta store.Meta, snapshot ledger.Snapshot) error {
	if c.ledger != nil {
		return errors.New("coordinator: lead: leads already")
	}
	snapshot.Quotas = append(snapshot.Quotas, fromFiles(c.files)...)
	stored := snapshot.Providers
	snapshot.Providers, c.hidden = withFile(stored, c.providers)
	c.shadowed = hiddenOf(stored, snapshot.Providers)
	c.now = max(c.now, now, lastInstant(snapshot))
	books := ledger.New(c.config, c.newPlacer())
	if err := books.Restore(c.now, snapshot); err != nil {
		return fmt.Errorf("coordinator: lead: %w", err)
	}
	c.ledger, c.meta, c.taken, c.outdone = books, meta, snapshot.Revision, 0
	c.leadership = c.draw()
	c.told, c.turns = make(map[string]bool), make(map[ledger.ClusterName]uint64)
	return nil
}

// fromFiles are the rules of files, as a snapshot has them.
func fromFiles(files map[string][]ledger.Quota) (rules []ledger.Quota) {
	for source, quotas := range files {
		for _, q := range quotas {
			q.Source = source
			rules = append(rules, q)
		}
	}
	return rules
}

// lastInstant is the latest moment that the stored rows tell of. A clock that went back while nobody ran is held there.
func lastInstant(s ledger.Snapshot) ledger.Instant {
	last := s.LastID.Created()
	for i := range s.Allocations {
		a := &s.Allocations[i]
		last = max(last, a.Created, a.Reserved, a.Confirmed)
	}
	for i := range s.Hosts {
		last = max(last, s.Hosts[i].Registered)
	}
	for i := range s.Remembered {
		last = max(last, s.Remembered[i].Ended)
	}
	return last
}

// Leading reports whether commands can be applied.
func (c *Core) Leading() bool { return c.ledger != nil }

// Meta is the store's, as of the leadership's begin.
func (c *Core) Meta() store.Meta { return c.meta }

// sighting is what a host that hears of this leadership has seen.
func (c *Core) sighting() Sighting { return Sighting{c.meta.Epoch, c.leadership} }

// Ledger is the ledger as it is now, including what is not durable yet; nil while not leading.
func (c *Core) Ledger() *ledger.Ledger { return c.ledger }

// Do applies a command, or answers it at once where the core does not lead. Time never goes back: an earlier now counts as
// the latest one. An error is a panic of the ledger: the core must be dropped.
func (c *Core) Do(now ledger.Instant, command Command) (err error) {
	if c.ledger == nil {
		command.answer(ErrNotLeading)
		return nil
	}
	defer func() {
		if cause := recover(); cause != nil {
			err = &PanicError{Cause: cause, Stack: debug.Stack()}
			command.answer(err)
		}
	}()
	c.now = max(c.now, now)
	if command.apply(c, c.now) {
		c.open = append(c.open, command)
	}
	return nil
}

// Advance lets the ledger do what is due. An error is as for Do.
func (c *Core) Advance(now ledger.Instant) error {
	if c.ledger == nil {
		return nil
	}
	return c.Do(now, &Call{Do: (*ledger.Ledger).Advance, Done: func(error) {}})
}

// NextTimer is when Advance is due.
func (c *Core) NextTimer() (ledger.Instant, bool) {
	if c.ledger == nil {
		return 0, false
	}
	return c.ledger.NextTimer()
}

// Pending is the number of commands that were applied and are not in a batch yet.
func (c *Core) Pending() int { return len(c.open) }

// Take closes the batch that has gathered, for its owner to commit. It is nil while another is under way, and where
// nothing has changed and nobody asks.
func (c *Core) Take() *Batch {
	if c.ledger == nil || c.flight != nil || (len(c.open) == 0 && c.ledger.Revision() == c.taken) {
		return nil
	}
	changes := c.ledger.Changes()
	c.settle(changes.Transitions)
	c.taken = changes.Revision
	c.flight = &Batch{Batch: store.Batch{Epoch: c.meta.Epoch, Changes: changes}, commands: c.open}
	c.open = nil
	return c.flight
}

// InFlight reports whether a batch was taken and is not done.
func (c *Core) InFlight() bool { return c.flight != nil }

// Done says that the batch that was taken last is durable.
func (c *Core) Done() { c.flight = nil }

// Drop ends the leadership: the ledger is forgotten, and whoever has not been answered is, with err, but for the callers of
// a batch under way, who are answered by whoever commits it.
func (c *Core) Drop(err error) {
	open, line := c.open, c.line
	c.ledger, c.open, c.flight = nil, nil, nil
	c.line = make(map[ledger.ID]*Ask)
	for _, command := range open {
		command.answer(err)
	}
	clearLine(line, func(_ ledger.ID, ask *Ask) { ask.answer(err) })
}

// HangUp answers everybody who waits on the line with err. What they wait for keeps its place for as long as that of a
// caller who went away.
func (c *Core) HangUp(now ledger.Instant, err error) {
	line := c.line
	c.line = make(map[ledger.ID]*Ask)
	clearLine(line, func(id ledger.ID, ask *Ask) {
		c.ledger.Detach(max(c.now, now), id)
		ask.answer(err)
	})
}

// clearLine takes every ask off a line, in the order of their allocations: the same commands have the same answers.
func clearLine(line map[ledger.ID]*Ask, each func(ledger.ID, *Ask)) {
	for _, id := range slices.Sorted(maps.Keys(line)) {
		for ask := line[id]; ask != nil; {
			next := ask.next
			ask.next, ask.on = nil, false
			each(id, ask)
			ask = next
		}
	}
}

// Outdone returns the epoch that the next Lead must exceed, where an agent has reported one that is above this core's, or the
// same of another leadership: the store was restored from a backup, or this is not the leader any more.
func (c *Core) Outdone() (uint64, bool) { return c.outdone, c.outdone != 0 }

// SetFiles replaces the rules of some files, by source, all or nothing. Where the core leads, the ledger takes them over or
// refuses them with a *ledger.FieldError; where it does not, the next Lead does.
func (c *Core) SetFiles(now ledger.Instant, files map[string][]ledger.Quota) error {
	if c.ledger != nil {
		c.now = max(c.now, now)
		if err := c.ledger.SetSources(c.now, files); err != nil {
			return err
		}
	}
	maps.Copy(c.files, files)
	return nil
}

// SetProviders says which providers come from a file, for the next Lead.
func (c *Core) SetProviders(records []ledger.ProviderRecord) { c.providers = records }
