package ledger

import (
	"time"

	"github.com/tidwall/btree"

	"github.com/bursar/bursar/label"
)

const userKey = label.User

// Defaults of Config.
const (
	defaultReservationTTL   = 2 * time.Minute
	defaultInterval         = 5 * time.Second
	defaultReportsPerSecond = 1000
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

	now      Instant // the time of the latest command; it never goes back
	commands uint64  // that have begun
	fresh    uint64  // see Described
	restored Instant // when Restore was
	outages  Outages
	revision uint64
	lastID   ID
	spent    btree.Set[ID] // ids above lastID whose allocations have ended
	// returned has the revision at which a lost lease came back or was released: older rows of it
	// are out of date.
	returned map[ID]uint64
	timers   timers // of hosts and clusters
	ends     timers // of entries

	entries btree.Map[ID, *entry] // live
	states  [Lost + 1]int         // live entries by state
	// together is the sum of the largest quantities of live entries: see largest.
	together int64
	// Entries in over-use, by kind and in all.
	overUse      map[OverUseKind]int
	overUseRules map[OverUseRule]*Notes // that entries share; see noteRule
	overUsers    int
	spare        []*entry // for reuse

	requests requests

	// callers and relays count the bytes of live allocations: by caller, and by host for those
	// that came through its agent.
	callers, relays usages
	full            map[*usage]struct{} // the usages of both kinds that are nearly at their bound

	hosts     map[string]*host
	hostOrder []*host             // by id
	expected  []*expectedHost     // by id
	timed     map[*timer]struct{} // of hosts with a cordon that ends by itself, or with a deadline
	slots     []*host
	freeSlots []Slot
	fleet     fleet
	// declared counts the hosts that list a custom dimension.
	declared             map[string]int
	dimensionsGeneration uint64 // changes when another set of dimensions is declared
	// machines has the hosts by the machine that they are on, and shared the machines of several.
	machines map[machine][]*host
	shared   map[machine]struct{}
	// hostsBack is the time by which hosts can have reported after a load. Before it no request is
	// refused as one that can never fit.
	hostsBack Instant
	// shapes counts how often a host has come, gone, or got other labels or another size.
	shapes uint64

	rules ruleset
	// rulesGeneration counts how often the rules were replaced.
	rulesGeneration uint64
	listed          []Quota // what Quotas has returned, of the rules of listedAt
	listedAt        uint64
	accountSets     map[string]*accountSet
	shares          map[string]*share
	refiling        *refiling // new rules that are not in force yet; nil: none
	refileStep      int       // allocations in one step of it

	providers []ProviderRecord // by cluster
	clusters  map[ClusterName]*cluster
	// valuations counts the changes of the capacities of clusters.
	valuations uint64
	readings   readingList // reports that are being taken in
	// clustersRead is the time by which clusters can have been read after a load. Before it no
	// request is refused for good because a cluster is unknown.
	clustersRead Instant

	classes  map[string]*class
	anyHost  queue    // requests that no host has room for
	absent   queue    // requests that no host there is could ever take
	marked   []*queue // queues whose account has more to give, see walk.go
	freeing  []freeing
	setAside []*group // that had all the misses they may have in this step
	step     uint64   // of the walks
	// crowdedOut says that the last step granted as much as one may, so that others who come first
	// may still wait for what is free.
	crowdedOut bool

	starved    heap[*share] // those that have starved requests
	hostGrants hostGrants
	claims     []*claim
	holders    holders
	visits     uint64 // rounds of visits of the starved
	visitDue   bool   // something has changed that concerns them
	visiting   []ID   // those whom the present round has yet to visit
	// visitAgain is when, as far as the present round knows, the next one is due.
	visitAgain Instant
	// visitTimer is when something changes that concerns them without a command.
	visitTimer   timer
	claimedHosts []*host // those that are held

	// deciding is the request that is being decided. early is set before a command begins, while
	// the ledger does what was due by then. If the ledger panics, they say whose fault it is.
	deciding *entry
	admits   bool // deciding waited, and is being granted
	early    bool
	begun    bool // see Begin

	changes Changes
	rows    []Allocation // the array for the transitions of the next batch; see Reuse
	actor   string       // who gives the command; see ActAs
	// own is how many transitions came due by themselves since an Advance: see Config.OwnChanges.
	own      int
	checks   int        // of starvation, in this step
	taken    int        // how many of them Changes has returned since then
	unstored []unstored // in the order of their revisions
	turn     uint64     // of the Placer's queries
	scratch  []byte
	// scratchCharges is what chargesOf works in; it is empty between its calls.
	scratchCharges []queueCharge

	recorded int64    // see Recorded
	auditor  *auditor // the audit that is under way; nil: none
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
		timed:       make(map[*timer]struct{}),
		declared:    make(map[string]int),
		machines:    make(map[machine][]*host),
		shared:      make(map[machine]struct{}),
		rules:       ruleset{keys: label.NewScope(userKey)},
		accountSets: make(map[string]*accountSet),
		refileStep:  refileStep,
		shares:      make(map[string]*share),
		clusters:    make(map[ClusterName]*cluster),
		readings:    readingList{step: readingStep},
		classes:     make(map[string]*class),
		starved:     newStarved(),
		holders:     newHolders(),
		visits:      1, // an account that nobody wanted has the number 0
	}
}

// Advance moves time on and does what is due, up to the bound of one batch.
func (l *Ledger) Advance(now Instant) {
	l.own, l.taken = l.own-l.taken, 0
	l.begin(now)
	l.refile()
	l.takeInReports()
}

// Behind reports whether more may have come due than the batch has room for.
func (l *Ledger) Behind() bool { return l.own >= l.cfg.OwnChanges }

// NextTimer returns when Advance has something to do. If the last step left some of its work to the
// next one, that is now. If the batch is at its bound, that is when Changes was called.
func (l *Ledger) NextTimer() (Instant, bool) {
	if l.refiling != nil {
		return l.now, true
	}
	if (len(l.marked) > 0 || len(l.freeing) > 0 || l.visitDue || len(l.visiting) > 0 || len(l.readings.clusters) > 0) && !l.Behind() { // the last step had no time for all that may be granted
		return l.now, true
	}
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

// Pending reports whether something waits for time to pass: a request that waits, a reservation, a
// lease, a cordon that ends by itself, or the deadline of a drain.
func (l *Ledger) Pending() bool {
	return l.states[Waiting]+l.states[Reserved]+len(l.unstored)+len(l.timed) > 0 || l.ends.next() != nil
}

// Outages are the times in which no coordinator led, as far as the store knows.
func (l *Ledger) Outages() Outages { return l.outages }

// nextTimer is the timer that is due first, of those that may fire in this batch; nil if none is
// set.
func (l *Ledger) nextTimer() *timer {
	t := l.timers.next()
	if end := l.ends.next(); end != nil && !l.Behind() && (t == nil || end.due <= t.due) {
		return end
	}
	return t
}

// fire does what is due, up to the bound of the batch and of the checks in one step.
func (l *Ledger) fire() {
	for l.checks = 0; l.checks < checksPerStep; {
		t := l.nextTimer()
		if t == nil || t.due > l.now {
			break
		}
		before := l.revision
		switch owner := t.owner.(type) {
		case *entry:
			l.deciding = owner
			l.entryDue(owner)
			l.deciding = nil
		case *host:
			l.hostDue(owner)
		case *expectedHost:
			l.forgetExpected(owner.ID)
		case *cluster:
			l.clusterDue(owner)
		case nil: // the visits
			l.timers.set(t, 0)
			l.visitDue = true
		}
		l.own += int(l.revision - before) //nolint:gosec // the rows of a host at most
	}
	l.requests.expire(l.now)
}

// Revision is the number of the latest transition.
func (l *Ledger) Revision() uint64 { return l.revision }

// recordEntry gives the entry a new revision and adds its new form to the changes, for the store
// and the watchers.
func (l *Ledger) recordEntry(e *entry) {
	if e.State.Live() {
		l.updateBytes(e)
	}
	l.revision++
	e.Revision = l.revision
	l.stampRevision()
	if e.host != nil {
		e.host.changed = l.revision
	}
	l.changes.Transitions = append(l.changes.Transitions, e.Allocation)
	l.noteRecorded(e)
}

// entry finds a live entry; nil if there is none.
func (l *Ledger) entry(id ID) *entry {
	e, _ := l.entries.Get(id)
	return e
}
