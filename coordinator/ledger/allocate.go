package ledger

import (
	"fmt"
	"slices"

	"github.com/bursar/bursar/coordinator/hostlabels"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/resource"
)

// Allocate reserves, waits or refuses.
//
// Errors: *DeniedError, *FieldError, *ConflictError, *NotFoundError (a queue that its cluster does
// not have), *LiveFullError, *TooMuchError, *InsufficientError, ErrNotRecalled.
func (l *Ledger) Allocate(now Instant, c AllocateCommand) (AllocateResult, error) {
	l.begin(now)
	if user := c.rightsOf(); !c.Actor.MayActAs(user) {
		return AllocateResult{}, notAs(&c.Actor, user)
	}
	key := keyOf(c.Actor.Name, c.RequestID)
	if key != noRequest {
		if result, repeated, err := l.repeat(key, &c); repeated || err != nil {
			return result, err
		}
	}
	e, err := l.prepare(&c)
	if err != nil {
		return AllocateResult{}, err
	}
	e.key = key
	h, blocked := l.decide(e)
	if blocked == nil && c.Wait > 0 {
		blocked = l.waitsItsTurn(e)
	}
	if blocked == nil {
		l.indexNew(e, &c)
		l.becomeReserved(e, h)
		return AllocateResult{Allocation: e.Allocation}, nil
	}
	if never := l.never(e); never != nil {
		l.discard(e)
		return AllocateResult{}, never
	}
	if c.Wait <= 0 {
		refusal := l.insufficient(e)
		l.discard(e)
		return AllocateResult{}, refusal
	}
	l.indexNew(e, &c)
	e.waitState = &waitState{waitsSince: l.now}
	if !c.Async {
		e.callers = 1
	}
	l.becomeWaiting(e, blocked, l.why(blocked, e))
	if !c.Async { // its caller is answered later, so nobody reads what it lacks now
		return AllocateResult{Allocation: e.Allocation}, nil
	}
	return AllocateResult{Allocation: l.shown(e)}, nil
}

// repeat answers a request that was made before.
func (l *Ledger) repeat(key requestKey, c *AllocateCommand) (AllocateResult, bool, error) {
	r := l.requests.find(key)
	switch {
	case r.id == 0 && l.requests.recalling:
		return l.repeatPast(c)
	case r.id == 0:
		return AllocateResult{}, false, nil
	case r.hash != c.RequestHash && r.hash != 0:
		// 0: adopted from an agent, which does not know the body
		return AllocateResult{}, true, &ConflictError{c.RequestID, r.id}
	case !r.live():
		return AllocateResult{Allocation: Allocation{ID: r.id}, Ended: true}, true, nil
	}
	e := l.entry(r.id)
	switch {
	case e.Adopted() && r.hash == 0 && !l.matchesAdopted(e, c):
		l.clearRequestID(e)
		return AllocateResult{}, false, nil
	case e.State != Waiting || c.Async:
	case c.Wait > 0:
		l.attachCaller(e)
	default: // it does not want to wait any longer: it gets what is free now, or is refused
		h, blocked := l.decide(e)
		if blocked != nil {
			return AllocateResult{}, true, l.refusal(e)
		}
		l.becomeReserved(e, h)
	}
	return AllocateResult{Allocation: l.shown(e)}, true, nil
}

// matchesAdopted reports whether an adopted engine with the request id of c can be what c asks
// for. It compares what is known, because the agent does not know the request's hash. Without this
// check the owner of that agent could answer requests of others.
func (l *Ledger) matchesAdopted(e *entry, c *AllocateCommand) bool {
	if w := c.Wishes; w != nil && (w.Host != "" && w.Host != e.HostID || !e.host.suits(w) || slices.Contains(w.Avoid, e.HostID)) {
		return false
	}
	r, err := l.normalized(c)
	// the record of an older agent has it after normalization
	return err == nil && (asked(c).Equal(e.Requested) || r.Equal(e.Requested)) && e.Labels.Equal(c.Labels) && e.Priority == c.Priority
}

// clearRequestID takes the request id away from an adopted engine.
func (l *Ledger) clearRequestID(e *entry) {
	l.requests.drop(e.key, e.ID)
	e.RequestID, e.key = "", noRequest
	l.recordEntry(e)
}

// rightsOf is the user that the request's caller acts as.
func (c *AllocateCommand) rightsOf() string {
	return rightsOf(c.Actor.Name, c.Subordinate, c.Labels)
}

// asked is what a request asks for: an engine is one instance.
func asked(c *AllocateCommand) resource.Resource {
	r := c.Resource
	if !r.Has(resource.Instances) {
		r.Vector = r.WithInstances(1)
	}
	return r
}

// normalized is what the rules make of what a request asks for.
func (l *Ledger) normalized(c *AllocateCommand) (resource.Resource, error) {
	r := asked(c)
	v, err := l.rules.normalize(c.Labels, r.Vector)
	r.Vector = v
	return r, err
}

// prepare checks a request and makes its entry, which is in no table yet.
func (l *Ledger) prepare(c *AllocateCommand) (*entry, error) {
	if err := checkName("caller", c.Actor.Name); err != nil {
		return nil, err
	}
	if err := checkName("request_id", c.RequestID); err != nil {
		return nil, err
	}
	if err := checkUser(c.Labels.Value(userKey)); err != nil {
		return nil, err
	}
	if c.Priority != 0 && !c.Actor.Priority {
		return nil, &DeniedError{Actor: c.Actor.Name, Wanted: fmt.Sprintf("set priority %d", c.Priority)}
	}
	if err := checkAsked(c.Resource.Vector); err != nil {
		return nil, err
	}
	if err := c.Resource.Validate(); err != nil {
		return nil, outOfRange("resource", err)
	}
	entitled, err := l.resolve(c.Resource.External, c.Labels)
	if err != nil {
		return nil, err
	}
	r, err := l.normalized(c)
	if err != nil {
		return nil, err
	}

	if w := c.Wishes; w != nil {
		for _, id := range w.Avoid {
			if err := checkName("host.avoid", id); err != nil {
				return nil, err
			}
		}
	}
	a := Allocation{
		RequestID: c.RequestID, Caller: c.Actor.Name, RequestHash: c.RequestHash,
		Labels: c.Labels, Subordinate: isSubordinate(c.Subordinate, c.Actor.Name), Requested: asked(c), Entitled: resource.Resource{Vector: r.Vector, External: entitled}, Wishes: c.Wishes, Priority: c.Priority,
		Created: l.now, ReservationTTL: c.ReservationTTL, Async: c.Async, Start: newStart(c),
	}
	if a.ReservationTTL <= 0 {
		a.ReservationTTL = l.cfg.ReservationTTL
	}
	if c.Wait > 0 { // one that is granted at once too: its host's agent may veto that
		a.WaitDeadline = l.now.Add(c.Wait)
	}
	if a.HostID, err = l.namedHost(c.Wishes); err != nil {
		return nil, err
	}
	if err := l.affords(&a, a.LiveBytes()+a.overhead()); err != nil {
		return nil, err
	}
	e := l.newEntry()
	e.Allocation = a
	l.link(e)
	l.attachExternal(e, nil)
	if err := l.summable(&a, largest(&a.Entitled)); err != nil && l.never(e) == nil {
		l.discard(e)
		return nil, err
	}
	return e, nil
}

// namedHost is the only host that a request wants, which may not be there yet; empty: any host.
func (l *Ledger) namedHost(w *Wishes) (string, error) {
	if w == nil || w.Host == "" {
		return "", nil
	}
	if !identity.IsHostID(w.Host) {
		return "", &FieldError{"host.id", validText(w.Host), "the id of a host: at most 253 letters, digits and . _ : -, the first one a letter or a digit"}
	}
	if h := l.hosts[w.Host]; h != nil && !h.suits(w) {
		return "", &FieldError{"host.id", w.Host, "a host that meets " + hostlabels.Lacks(h.Labels, w.conditions())}
	}
	if slices.Contains(w.Avoid, w.Host) {
		return "", &FieldError{"host.id", w.Host, "a host that is not to be avoided"}
	}
	return w.Host, nil
}

// newEntry returns an entry to fill in.
func (l *Ledger) newEntry() *entry {
	n := len(l.spare)
	if n == 0 {
		e := &entry{}
		e.timer.owner = e
		return e
	}
	e := l.spare[n-1]
	l.spare = l.spare[:n-1]
	e.timer.owner = e
	return e
}

// discard forgets an entry that is in no table.
func (l *Ledger) discard(e *entry) {
	l.unlink(e)
	l.recycle(e)
}

// indexNew puts the entry of a new request into the tables, and the row of its launch next to it.
func (l *Ledger) indexNew(e *entry, c *AllocateCommand) {
	l.index(e)
	if c.Launch != nil {
		e.changeLaunch(func(launch *Launch) { launch.Row = e.ID })
		l.changes.Launches = append(l.changes.Launches, LaunchRow{e.ID, c.Launch.Spec})
	}
}

// index puts a new entry into the tables.
func (l *Ledger) index(e *entry) {
	if e.ID == 0 {
		e.ID = l.nextID()
	}
	e.shareLabels()
	l.entries.Set(e.ID, e)
	l.countState(e, 1)
	l.countOverUse(e, 1)
	l.addUsage(e)
	if e.RequestID != "" {
		if e.key == noRequest {
			e.key = keyOf(e.Caller, e.RequestID)
		}
		l.requests.add(e.key, e.RequestHash, e.ID)
	}
}

// decide finds the host that a request can go to now, or the queue of what blocks it: that no host
// there is could take it, then the first of its quotas that is short, then the first of its cluster
// queues, then the host it wants, then all hosts.
func (l *Ledger) decide(e *entry) (*host, *queue) {
	l.deciding = e
	h, blocked := l.place(e)
	if blocked != nil && l.hostless(e) {
		blocked = &l.absent
	}
	l.deciding = nil
	return h, blocked
}

func (l *Ledger) place(e *entry) (*host, *queue) {
	asked := l.charges(e)
	for c := range asked.all {
		if h := c.host(); !c.fits() || h != nil && l.closedTo(e, h) || c.account.heldFrom(e, c.vector) {
			return nil, &c.account.queue
		}
	}
	switch {
	case asked.host != nil:
		return asked.host, nil
	case e.HostID != "": // that host is not there
		return nil, &l.absent
	}
	if h := l.hostFor(e); h != nil {
		return h, nil
	}
	return nil, &l.anyHost
}

func (l *Ledger) query(e *entry) Query {
	l.turn++
	q := Query{Request: e.request(), Wishes: e.Wishes, Turn: l.turn}
	if l.mayCrowd(e) {
		q.Rejected = func(slot Slot) bool { return l.crowded(e, l.slots[slot]) }
	}
	return q
}

// insufficient describes everything that is short for a request.
func (l *Ledger) insufficient(e *entry) *InsufficientError {
	refusal := &InsufficientError{Reason: ReasonRefused}
	asked := l.charges(e)
	var final, awaited, short, returning bool
	for c := range asked.all {
		before := len(refusal.Shortfalls)
		refusal.Shortfalls = l.shortfalls(refusal.Shortfalls, e, c)
		switch h := c.host(); {
		case h != nil:
			short, returning = len(refusal.Shortfalls) > before, l.awaits(h)
		case len(refusal.Shortfalls) == before:
		case c.part != nil && c.part.queue.cluster.awaited(l):
			awaited = true
		default:
			final = true
		}
	}
	switch {
	case asked.host != nil:
	case e.HostID != "":
		short, refusal.Shortfalls = true, append(refusal.Shortfalls, e.noSuchHost())
	default:
		if short = l.hostFor(e) == nil; short {
			l.noHost(refusal, e)
		}
		returning = l.now < l.hostsBack && l.awaitsOneFor(e)
	}
	refusal.Returning = !final && (returning || awaited && !short)
	return refusal
}

// shortfalls appends what one account lacks for a request, or why it gives it nothing.
func (l *Ledger) shortfalls(list []Shortfall, e *entry, c charge) []Shortfall {
	switch h := c.host(); {
	case h != nil:
		return l.shortOn(list, h, e)
	case c.part != nil:
		return l.shortIn(list, c.part, e)
	}
	return l.short(list, c.account, e, c.vector)
}

// shortIn appends what a cluster queue lacks, or why nothing new may go there. If its cluster is
// not known, that is said once, for the queue that was asked for, and nothing of its user.
func (l *Ledger) shortIn(list []Shortfall, t *queueCharge, e *entry) []Shortfall {
	if t.queue.of != nil && !t.queue.cluster.known {
		return list
	}
	note := t.unschedulable()
	if note == "" {
		t.queue.updateMasters()
		return t.delayShortfall(l.short(list, &t.queue.account, e, t.queue.limited(t.vector)))
	}
	if note == NoteUnknown && !t.own {
		return list
	}
	for dimension, asked := range t.vector.All() {
		if asked != 0 {
			s := t.queue.account.shortfall(dimension, asked, 0, note)
			s.Detail = t.detail(note, l.now)
			return append(list, s)
		}
	}
	return list
}

// shortOn appends why the request cannot go to a host.
func (l *Ledger) shortOn(list []Shortfall, h *host, e *entry) []Shortfall {
	before := len(list)
	list = h.shortfalls(list, e.request())
	l.judgeSize(list[before:], e, h)
	if len(list) == before && !h.suits(e.Wishes) {
		lost := h.account.closedShortfall(e.request(), NoteLabels)
		lost.Detail = "it does not meet " + hostlabels.Lacks(h.Labels, e.Wishes.conditions())
		list = append(list, lost)
	}
	if len(list) == before && l.crowded(e, h) {
		crowded := h.account.closedShortfall(e.request(), NoteRefused)
		crowded.Detail = l.crowdedText(e.Payer(), h.callers[l.callers[e.Payer()]])
		list = append(list, crowded)
	}
	if len(list) == before {
		list = l.short(list, &h.account, e, e.request())
	}
	return list
}

// short appends what one account lacks for v, or that it is held for another request than e.
func (l *Ledger) short(list []Shortfall, a *account, e *entry, v resource.Vector) []Shortfall {
	before := len(list)
	list = a.shortfalls(list, v)
	if len(list) == before && a.heldFrom(e, v) {
		for dimension, asked := range v.All() {
			free := a.left(dimension)
			if more := free - a.kept(dimension, free); asked > more && a.mostOf(dimension) < unlimited {
				list = append(list, a.shortfall(dimension, asked, more, NoteHeld))
			}
		}
	}
	return list
}

// surveyed is how many hosts a refusal looks at one by one. A larger fleet is left to Explain.
const surveyed = 1000

// noHost describes why no host takes the request: what the closest host lacks, and in a small
// fleet, or if there is nothing else to say, how many hosts each filter removes.
func (l *Ledger) noHost(refusal *InsufficientError, e *entry) {
	q := l.query(e)
	before := len(refusal.Shortfalls)
	if l.hostless(e) {
		refusal.Shortfalls = l.tooSmall(refusal.Shortfalls, e)
		if len(refusal.Shortfalls) == before { // there is no largest host: labels remove all
			refusal.Filters = &HostFilters{Total: len(l.hosts), Labels: len(l.hosts), Unmet: l.unmet(e)}
			return
		}
	} else if slot := l.placer.Closest(q); slot != NoSlot {
		refusal.Shortfalls = l.shortOn(refusal.Shortfalls, l.slots[slot], e)
	}
	if len(l.hosts) <= surveyed || len(refusal.Shortfalls) == 0 {
		refusal.Filters = l.survey(e, q)
	}
}
