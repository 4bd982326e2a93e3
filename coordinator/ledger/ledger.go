package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tidwall/btree"

	"github.com/bursar/bursar/label"
)

const userKey = label.User

// Defaults of Config.
const (
	defaultReservationTTL   = 2 * time.Minute
	defaultInterval         = 5 * time.Second
	defaultReportsPerSecond = 200
	defaultOwnChanges       = 512
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
	if c.HostLiveBytes <= 0 {
		c.HostLiveBytes = HostLiveBytes
	}
	if c.CallerLiveBytes <= 0 {
		c.CallerLiveBytes = CallerLiveBytes
	}
	if c.OwnChanges <= 0 {
		c.OwnChanges = defaultOwnChanges
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
	spent    btree.Set[ID] // those above it whose allocations have ended
	timers   timers        // of hosts and clusters
	ends     timers        // of entries

	entries btree.Map[ID, *entry] // live
	states  [Lost + 1]int         // live entries by state
	// Entries in over-use: of each kind, and all.
	overUse   map[OverUseKind]int
	overUsers int
	spare     []*entry // for reuse

	requests requests

	callers, relays usages              // what lives, in bytes: by caller, and by host of those that came through its agent
	full            map[*usage]struct{} // those of both that have nearly as much as they may

	hosts     map[string]*host
	hostOrder []*host // by id
	slots     []*host
	freeSlots []Slot
	fleet     fleet
	// hostsBack is when hosts had the time to come back after a load. Before, nothing is refused as never to fit.
	hostsBack Instant

	rules ruleset
	// rulesTurn counts how often they were replaced.
	rulesTurn   uint64
	accountSets map[string]*accountSet
	shares      map[string]*share

	providers []ProviderRecord // by cluster
	clusters  map[ClusterName]*cluster
	// clustersRead is when clusters had the time to be read after a load. Before, nothing is refused for good for want of one.
	clustersRead Instant

	classes map[string]*class
	anyHost queue    // requests that no host has room for
	dirty   []*queue // queues whose account has more to give
	skipped []skip   // classes set aside while looking further

	// deciding is the request that is being looked at, and early is set before a command begins, while what was due by then is done: whose
	// fault it is if the ledger panics.
	deciding *entry
	admits   bool // it waited, and is being granted
	early    bool

	changes  Changes
	own      int        // how many transitions came due since an Advance: see Config.OwnChanges
	taken    int        // of those, the ones that Changes has returned since then
	unstored []unstored // in the order of their revisions
	turn     uint64     // of the Placer's queries
	scratch  []byte
}

// New returns an empty ledger.
func New(cfg Config, placer Placer) *Ledger {
	return &Ledger{
		cfg:         cfg.withDefaults(),
		placer:      placer,
		overUse:     make(map[OverUseKind]int),
		requests:    newRequests(),
		callers:     make(usages),
		relays:      make(usages),
		full:        make(map[*usage]struct{}),
		hosts:       make(map[string]*host),
		rules:       ruleset{keys: label.NewScope(userKey)},
		accountSets: make(map[string]*accountSet),
		shares:      make(map[string]*share),
		clusters:    make(map[ClusterName]*cluster),
		classes:     make(map[string]*class),
	}
}

// begin starts a command: time moves on, and what is due by then happens first.
func (l *Ledger) begin(now Instant) {
	l.now = max(l.now, now)
	l.early = true
	l.fire()
	l.grantWaiting()
	l.early = false
}

// Advance moves time on and does what is due, as much of it as one batch may have.
func (l *Ledger) Advance(now Instant) {
	l.own, l.taken = l.own-l.taken, 0
	l.begin(now)
}

// Behind reports whether more may have come due than the batch has room for.
func (l *Ledger) Behind() bool { return l.own >= l.cfg.OwnChanges }

// NextTimer returns when Advance has something to do. Where the batch has as much as it may, that is when Changes was called.
func (l *Ledger) NextTimer() (Instant, bool) {
	due := Instant(0)
	if t := l.nextTimer(); t != nil {
		due = t.due
	}
	if l.Behind() {
		if l.taken > 0 {
			due = l.now
		}
		return due, due != 0
	}
	if at, waits := l.requests.next(); waits && (due == 0 || at < due) {
		due = at
	}
	return due, due != 0
}

// Pending reports whether there are waits or reservations: what ends when its time has come.
func (l *Ledger) Pending() bool { return l.states[Waiting]+l.states[Reserved] > 0 }

// nextTimer is the timer that is due first, of those whose turn may come in this batch; nil where none is set.
func (l *Ledger) nextTimer() *timer {
	t := l.timers.next()
	if end := l.ends.next(); end != nil && !l.Behind() && (t == nil || end.due <= t.due) {
		return end
	}
	return t
}

// fire does what is due, as far as the batch may have it.
func (l *Ledger) fire() {
	for {
		t := l.nextTimer()
		if t == nil || t.due > l.now {
			break
		}
		before := l.revision
		switch {
		case t.entry != nil:
			l.deciding = t.entry
			l.entryDue(t.entry)
			l.deciding = nil
		case t.host != nil:
			l.hostDue(t.host)
		default:
			l.clusterDue(t.cluster)
		}
		l.own += int(l.revision - before) //nolint:gosec // the rows of a host at most
	}
	l.requests.expire(l.now)
}

// Changes returns what changed since it was last called, and begins anew.
func (l *Ledger) Changes() Changes {
	c := l.changes
	c.Revision, c.LastID, c.Time = l.revision, l.lastID, l.now
	l.changes = Changes{Transitions: make([]Allocation, 0, len(c.Transitions))} // the next batch is likely to be about as large
	l.taken = l.own
	return c
}

// Revision is the number of the latest transition.
func (l *Ledger) Revision() uint64 { return l.revision }

// Restore rebuilds the ledger from what was stored. It must be the first command. Liveness starts afresh: hosts count as
// returning until they report, deadlines that are due get one interval's grace, and requests that waited wait for their callers. Times in
// the rows that are later than now are taken for now.
func (l *Ledger) Restore(now Instant, s Snapshot) error {
	if l.revision != 0 || l.entries.Len() != 0 {
		return fmt.Errorf("ledger: restore: already in use at revision %d", l.revision)
	}
	l.now, l.revision, l.lastID = now, s.Revision, lastID(&s)
	l.rules = newRuleset(bySource(s.Quotas))
	l.rulesTurn++
	l.providers = slices.SortedFunc(slices.Values(s.Providers), func(a, b ProviderRecord) int { return a.Compare(b.ClusterName) })
	if wrong, err := checkProviders(l.providers); err != nil {
		return fmt.Errorf("ledger: restore: %w", &RestoreError{"provider", wrong.String(), err})
	}
	for _, p := range l.providers {
		c := l.cluster(p.ClusterName)
		c.configured, c.since = true, l.now
	}
	for _, r := range s.Hosts {
		l.restoreHost(r)
		l.updatePlacer(l.hosts[r.ID])
	}
	l.clustersRead = now.Add(time.Duration(l.cfg.SuspectAfter) * l.Interval())
	if len(s.Hosts) > 0 {
		l.hostsBack = now.Add(time.Duration(l.cfg.SuspectAfter) * l.Interval())
	}
	allocations := sorted(s.Allocations, func(a, b Allocation) int { return cmp.Compare(a.ID, b.ID) })
	for i := range allocations {
		if err := l.restoreEntry(&allocations[i], s.SetAside); err != nil {
			return fmt.Errorf("ledger: restore: %w", err)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.SetAside)) {
		switch e := l.entry(id); {
		case e == nil:
		case e.State == Waiting:
			l.end(e, Canceled, s.SetAside[id])
		case e.State == Reserved: // after a veto it would wait again, and be looked at
			e.WaitDeadline = 0
		}
	}
	for _, h := range l.hostOrder {
		h.account.exceeded = h.account.overLimit()
	}
	for _, scope := range l.rules.scopes {
		for _, quota := range scope.accounts {
			quota.exceeded = quota.overLimit()
		}
	}
	for _, r := range sorted(s.Remembered, func(a, b Remembered) int { return cmp.Compare(a.Ended, b.Ended) }) {
		l.requests.remember(keyOf(r.Caller, r.RequestID), r.RequestHash, r.ID, min(r.Ended, now).Add(l.cfg.RequestRetention))
	}
	return nil
}

// sorted returns the list in order, which stores have it in already: only another list is copied.
func sorted[T any](list []T, compare func(a, b T) int) []T {
	if slices.IsSortedFunc(list, compare) {
		return list
	}
	return slices.SortedFunc(slices.Values(list), compare)
}

func (l *Ledger) restoreEntry(a *Allocation, aside map[ID]string) error {
	if !a.State.Live() {
		return unrestored(a.ID, "state %s: want a live one", a.State)
	}
	if l.entry(a.ID) != nil {
		return unrestored(a.ID, "twice")
	}
	e := l.newEntry()
	e.Allocation = *a
	e.notAfter(l.now)
	l.link(e)
	h := l.hosts[a.HostID]
	l.attachExternal(e, h) // which of them a provider knows it has yet to report
	l.index(e)
	if h == nil && (e.State.Holds() || a.HostID != "") {
		return unrestored(a.ID, "no such host: %q", a.HostID)
	}
	if e.State == Waiting {
		e.detached = l.now
		if _, ends := aside[e.ID]; !ends && e.present() {
			_, blocked := l.decide(e) // no host is open before it reports
			l.enqueue(e, blocked)
		}
		l.setEntryTimer(e)
		return nil
	}
	if e.Expires != 0 {
		e.Expires = max(e.Expires, l.now.Add(l.Interval()))
	}
	l.hold(e, h)
	l.setEntryTimer(e)
	return nil
}

// notAfter corrects the times of a row that was not written by a ledger whose time is now: nothing has happened yet that has not, and no
// deadline is further away than it was when it was set.
func (e *entry) notAfter(now Instant) {
	if e.Created > now {
		wait := max(0, e.WaitDeadline.Sub(e.Created))
		e.Created = now
		if e.WaitDeadline != 0 {
			e.WaitDeadline = now.Add(min(wait, MaxInstant.Sub(now)))
		}
	}
	e.Reserved, e.Confirmed, e.PassedSince = min(e.Reserved, now), min(e.Confirmed, now), min(e.PassedSince, now)
	switch e.State {
	case Reserved:
		e.Expires = min(e.Expires, now.Add(e.ReservationTTL))
	case Active:
		e.Expires = min(e.Expires, now.Add(e.ttl()))
	default: // it does not expire
	}
}

// lastID is the last id that was given out, by what was stored. One that leaves no room behind it was not: then the rows tell.
func lastID(s *Snapshot) ID {
	if s.LastID < ^ID(0)-spareIDs {
		return s.LastID
	}
	last := ID(0)
	tells := func(id ID) {
		if id < ^ID(0)-spareIDs {
			last = max(last, id)
		}
	}
	for i := range s.Allocations {
		tells(s.Allocations[i].ID)
	}
	for i := range s.Remembered {
		tells(s.Remembered[i].ID)
	}
	return last
}

// recordEntry gives the entry a new revision and hands its new form to the store and the watchers.
func (l *Ledger) recordEntry(e *entry) {
	if e.State.Live() {
		l.updateBytes(e)
	}
	l.revision++
	e.Revision = l.revision
	if e.host != nil {
		e.host.changed = l.revision
	}
	l.changes.Transitions = append(l.changes.Transitions, e.Allocation)
}

// entry finds a live entry; nil: there is none.
func (l *Ledger) entry(id ID) *entry {
	e, _ := l.entries.Get(id)
	return e
}

// lookup finds a live entry.
func (l *Ledger) lookup(id ID) (*entry, error) {
	e := l.entry(id)
	if e == nil {
		return nil, &NotFoundError{What: "allocation", ID: id.String()}
	}
	return e, nil
}
