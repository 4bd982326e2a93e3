package ledger

import (
	"fmt"
	"slices"
	"time"

	"github.com/bursar/bursar/label"
)

const userKey = label.User

// Defaults of Config.
const (
	defaultReservationTTL   = 2 * time.Minute
	defaultInterval         = 5 * time.Second
	defaultReportsPerSecond = 200
	defaultSuspectAfter     = 3
	defaultLostAfter        = 5 * time.Minute
	defaultStarvationAfter  = 30 * time.Second
	defaultCallerGrace      = 10 * time.Second
	defaultRequestRetention = 24 * time.Hour
	defaultStopGrace        = 10 * time.Second
)

func (c Config) withDefaults() Config {
	def := func(d *time.Duration, standard time.Duration) {
		if *d <= 0 {
			*d = standard
		}
	}
	def(&c.ReservationTTL, defaultReservationTTL)
	def(&c.Interval, defaultInterval)
	def(&c.LostAfter, defaultLostAfter)
	def(&c.StarvationAfter, defaultStarvationAfter)
	def(&c.CallerGrace, defaultCallerGrace)
	def(&c.RequestRetention, defaultRequestRetention)
	def(&c.StopGrace, defaultStopGrace)
	if c.ReportsPerSecond <= 0 {
		c.ReportsPerSecond = defaultReportsPerSecond
	}
	if c.SuspectAfter <= 0 {
		c.SuspectAfter = defaultSuspectAfter
	}
	return c
}

// Ledger is the state machine. See the package comment for how to use it.
type Ledger struct {
	cfg    Config
	placer Placer

	now      Instant // of the latest command; it never goes back
	revision uint64
	lastID   ID
	timers   timers

	entries map[ID]*entry // live
	order   []place       // the same by id, with holes where entries ended
	holes   int
	states  [Lost + 1]int // live entries by state
	// Entries in over-use: of each kind, and all.
	overUse   map[OverUseKind]int
	overUsers int
	spare     []*entry // for reuse

	requests requests

	hosts     map[string]*host
	hostOrder []*host // by id
	slots     []*host
	freeSlots []Slot
	fleet     fleet
	// settled is when hosts had the time to come back after a load. Before, nothing is refused as never to fit.
	settled Instant

	rules   ruleset
	filings map[string]*filing
	shares  map[string]*share

	providers []ProviderRecord // by cluster
	clusters  map[ClusterName]*cluster
	// loaded is when clusters had the time to be read after a load. Before, nothing is refused for good for want of one.
	loaded Instant

	classes map[string]*class
	anyHost queue    // requests that no host has room for
	dirty   []*queue // queues whose account has more to give
	skipped []skip   // classes set aside while looking further

	changes Changes
	turn    uint64 // of the Placer's queries
	scratch []byte
}

// New returns an empty ledger.
func New(cfg Config, placer Placer) *Ledger {
	return &Ledger{
		cfg:      cfg.withDefaults(),
		placer:   placer,
		entries:  make(map[ID]*entry),
		overUse:  make(map[OverUseKind]int),
		requests: newRequests(),
		hosts:    make(map[string]*host),
		rules:    ruleset{keys: label.NewScope(userKey)},
		filings:  make(map[string]*filing),
		shares:   make(map[string]*share),
		clusters: make(map[ClusterName]*cluster),
		classes:  make(map[string]*class),
	}
}

// begin starts a command: time moves on, and what is due by then happens first.
func (l *Ledger) begin(now Instant) {
	l.now = max(l.now, now)
	l.fire()
	l.settle()
}

// Advance moves time on and does what is due.
func (l *Ledger) Advance(now Instant) { l.begin(now) }

// NextTimer returns when Advance has something to do.
func (l *Ledger) NextTimer() (Instant, bool) {
	due := Instant(0)
	if t := l.timers.next(); t != nil {
		due = t.due
	}
	if at, waits := l.requests.next(); waits && (due == 0 || at < due) {
		due = at
	}
	return due, due != 0
}

// fire does what is due.
func (l *Ledger) fire() {
	for {
		t := l.timers.next()
		if t == nil || t.due > l.now {
			break
		}
		switch {
		case t.entry != nil:
			l.entryDue(t.entry)
		case t.host != nil:
			l.hostDue(t.host)
		default:
			l.clusterDue(t.cluster)
		}
	}
	l.requests.forget(l.now)
}

// Changes returns what changed since it was last called, and begins anew.
func (l *Ledger) Changes() Changes {
	c := l.changes
	c.Revision, c.LastID = l.revision, l.lastID
	l.changes = Changes{}
	if n := len(c.Transitions); n > 0 {
		l.changes.Transitions = make([]Allocation, 0, n) // the next batch is likely to be about as large
	}
	return c
}

// Revision is the number of the latest transition.
func (l *Ledger) Revision() uint64 { return l.revision }

// Restore rebuilds the ledger from what was stored. It must be the first command. Liveness starts afresh: hosts count as
// returning until they report, deadlines that are due get one interval's grace, and requests that waited wait for their callers.
func (l *Ledger) Restore(now Instant, s Snapshot) error {
	if l.revision != 0 || len(l.entries) != 0 {
		return fmt.Errorf("ledger: restore: already in use at revision %d", l.revision)
	}
	l.now, l.revision, l.lastID = now, s.Revision, s.LastID
	bySource := make(map[string][]Quota)
	for _, q := range s.Quotas {
		bySource[q.Source] = append(bySource[q.Source], q)
	}
	rules, err := newRuleset(bySource)
	if err != nil {
		return fmt.Errorf("ledger: restore: %w", err)
	}
	l.rules = rules
	l.providers = slices.Clone(s.Providers)
	slices.SortFunc(l.providers, func(a, b ProviderRecord) int { return a.Compare(b.ClusterName) })
	if err := checkProviders(l.providers); err != nil {
		return fmt.Errorf("ledger: restore: %w", err)
	}
	for _, p := range l.providers {
		c := l.cluster(p.ClusterName)
		c.configured, c.since = true, l.now
	}
	for _, r := range s.Hosts {
		l.restoreHost(r)
		l.show(l.hosts[r.ID])
	}
	l.loaded = now.Add(time.Duration(l.cfg.SuspectAfter) * l.interval())
	if len(s.Hosts) > 0 {
		l.settled = now.Add(time.Duration(l.cfg.SuspectAfter) * l.interval())
	}
	slices.SortFunc(s.Allocations, func(a, b Allocation) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	for i := range s.Allocations {
		if err := l.restoreEntry(&s.Allocations[i]); err != nil {
			return fmt.Errorf("ledger: restore: %w", err)
		}
	}
	for _, h := range l.hostOrder {
		h.account.exceeded = h.account.overLimit()
		l.repromise(h)
		l.show(h)
	}
	for _, scope := range l.rules.scopes {
		for _, quota := range scope.accounts {
			quota.exceeded = quota.overLimit()
		}
	}
	slices.SortFunc(s.Remembered, func(a, b Remembered) int { return int(a.Ended.Sub(b.Ended)) })
	for _, r := range s.Remembered {
		l.requests.remember(keyOf(r.Caller, r.RequestID), r.RequestHash, r.ID, r.Ended.Add(l.cfg.RequestRetention))
	}
	l.settle()
	return nil
}

func (l *Ledger) restoreEntry(a *Allocation) error {
	if !a.State.Live() {
		return fmt.Errorf("allocation %s: state %s: want a live one", a.ID, a.State)
	}
	if _, twice := l.entries[a.ID]; twice {
		return fmt.Errorf("allocation %s: twice", a.ID)
	}
	e := l.blank()
	e.Allocation = *a
	l.open(e)
	l.tie(e)
	l.enter(e)
	h := l.hosts[a.HostID]
	if h == nil && (e.State.Holds() || a.HostID != "") {
		return fmt.Errorf("allocation %s: no such host: %q", a.ID, a.HostID)
	}
	if e.State == Waiting {
		e.detached = l.now
		if e.present() {
			_, blocked := l.decide(e) // no host is open before it reports
			l.join(e, blocked)
		}
		l.retime(e)
		return nil
	}
	if e.Expires != 0 {
		e.Expires = max(e.Expires, l.now.Add(l.interval()))
	}
	l.hold(e, h)
	l.retime(e)
	return nil
}

// transition records that the entry is in a new state, or changed in a way that others must see.
func (l *Ledger) transition(e *entry, s State, reason string) {
	l.states[e.State]--
	e.State, e.Reason = s, reason
	l.states[s]++
	l.touch(e)
}

// touch gives the entry a new revision and hands its new form to the store and the watchers.
func (l *Ledger) touch(e *entry) {
	l.revision++
	e.Revision = l.revision
	if e.State.Holds() && e.host != nil {
		e.host.touched = l.revision
	}
	l.changes.Transitions = append(l.changes.Transitions, e.Allocation)
}

// lookup finds a live entry.
func (l *Ledger) lookup(id ID) (*entry, error) {
	e := l.entries[id]
	if e == nil {
		return nil, &NotFoundError{What: "allocation", ID: id.String()}
	}
	return e, nil
}
