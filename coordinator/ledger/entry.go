package ledger

import (
	"slices"

	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/resource"
)

// entry is a live allocation with its place in the ledger's tables.
type entry struct {
	Allocation

	*accountSet
	external *external // nil if it has no part in an external cluster

	timer timer
	// If it expires: the revision from whose commit its time counts, 0 once it counts, and when
	// that time is over. See Durable.
	unstored      uint64
	durableExpiry Instant
	key           requestKey // noRequest before it is indexed
	caller        *usage     // nil: it was adopted
	relay         *usage     // nil: it did not come through a host's agent

	// While it holds something:
	host      *host
	hostIndex int32 // in host.entries
	bytes     int32 // LiveBytes when it was last recorded; 0 before it is indexed
	promise   int64 // bytes of memory that it may still use beyond what the last sample showed

	*waitState // nil: it has never waited, or will never wait again
}

// waitState is what an entry has from when it waits until its engine runs: a grant may be vetoed,
// and then it waits again.
type waitState struct {
	callers      int     // callers that wait for its answer
	detached     Instant // since when there are none
	class        *class  // nil while it has no caller
	memberIndex  int
	waitsSince   Instant
	nextCheck    Instant  // of whether it is starved
	claim        *claim   // on the accounts that are held for it; nil: none is
	windows      int      // holds that it had
	turn         Instant  // when it last had its turn among the starved of its share
	lastHosts    []string // that were held for it, if it names none
	starved      bool
	starvedIndex int // in those of its share
}

// present reports whether somebody waits for a grant or will look for it.
func (e *entry) present() bool { return e.Async || e.waitState != nil && e.callers > 0 }

// waitsIn is the class in which it waits; nil: it does not wait, or has no caller.
func (e *entry) waitsIn() *class {
	if e.waitState == nil {
		return nil
	}
	return e.class
}

// isStarved reports whether it waits and is starved.
func (e *entry) isStarved() bool { return e.waitState != nil && e.starved }

// request is what it asks of its host and its quotas.
func (e *entry) request() resource.Vector { return e.Entitled.Vector }

// queueCharges are those of its external parts, of cluster queues above before those below.
func (e *entry) queueCharges() []queueCharge {
	if e.external == nil {
		return nil
	}
	return e.external.charges
}

// queueCharge is the charge of a cluster queue; nil: the account is another's.
func (e *entry) queueCharge(of AccountName) *queueCharge {
	list := e.queueCharges()
	if i := slices.IndexFunc(list, func(t queueCharge) bool { return t.queue.account.name.Equal(of) }); i >= 0 {
		return &list[i]
	}
	return nil
}

// untouchedMemory is the memory, in bytes, that the entry may still use beyond what was measured
// of it. A grant that is newer than the last sample counts in full, because nothing was measured
// of it.
func (e *entry) untouchedMemory() int64 { return max(0, e.Entitled.Memory()-e.Unreclaimable) }

// hold counts the entry, which is reserved or active, in its accounts and on its host.
func (l *Ledger) hold(e *entry, h *host) {
	e.host, e.hostIndex = h, int32(len(h.entries)) //nolint:gosec // see mostEngines
	h.entries = append(h.entries, e)
	e.shareTexts(h)
	h.promise(e)
	if e.Claimed != nil {
		h.unaccepted++
	}
	l.countHostBytes(e, h, e.hostBytes())
	l.count(&h.account, e)
	for i, quota := range e.accounts {
		l.count(quota, e)
		e.uses[i].add(e.request())
	}
	e.held++
	e.addToSet(e.State, e.request())
	if e.external != nil {
		e.holdParts()
		e.holdExternal()
	}
	e.share.count(e.request(), 1, &l.fleet)
	if e.tracked() {
		h.track(e)
	}
	l.updatePlacerBalance(h)
}

// shareTexts replaces texts of the entry by those of its host that are equal, so that the entry
// keeps none of its own: rows that are loaded have one each.
func (e *entry) shareTexts(h *host) {
	e.HostID = h.ID
	if e.HostAddress == h.Address {
		e.HostAddress = h.Address
	}
	if e.Process.BootID == h.BootID {
		e.Process.BootID = h.BootID
	}
}

// count counts the entry in one of its accounts.
func (l *Ledger) count(a *account, e *entry) {
	a.add(e.State, e.request())
	a.held++
}

// uncount gives back what count counted. What becomes free may let others be granted.
func (l *Ledger) uncount(a *account, e *entry) {
	a.subtract(e.State, e.request())
	a.held--
	l.freed(a)
}

// promise counts on the host the memory that the entry may still use now, instead of what it
// counted with before.
func (h *host) promise(e *entry) {
	h.promised -= e.promise
	e.promise = e.untouchedMemory()
	h.promised += e.promise
}

// unhold gives back what hold counted. State must still be the one that it was counted in.
func (l *Ledger) unhold(e *entry) {
	h := e.host
	last := h.entries[len(h.entries)-1]
	h.entries[e.hostIndex], last.hostIndex = last, e.hostIndex
	h.entries[len(h.entries)-1] = nil
	h.entries = h.entries[:len(h.entries)-1]
	h.promised, e.promise = h.promised-e.promise, 0
	if e.Claimed != nil {
		h.unaccepted--
	}
	l.countHostBytes(e, h, -e.hostBytes())
	l.uncount(&h.account, e)
	for i, quota := range e.accounts {
		l.uncount(quota, e)
		e.uses[i].subtract(e.request())
	}
	e.held--
	e.takeFromSet(e.State, e.request())
	if e.external != nil {
		l.unholdParts(e)
		l.unholdExternal(e)
	}
	e.share.count(e.request(), -1, &l.fleet)
	if e.tracked() {
		h.untrack(e)
	}
	h.addDeparture(e.ID, l.revision+1)
	h.changed = l.revision + 1
	e.host = nil
	l.updatePlacerBalance(h)
}

// moveToUsed moves what the entry holds from reserved to used.
func (l *Ledger) moveToUsed(e *entry) {
	v := e.request()
	e.host.account.replace(Reserved, Active, v, v)
	for _, quota := range e.accounts {
		quota.replace(Reserved, Active, v, v)
	}
	e.takeFromSet(Reserved, v)
	e.addToSet(Active, v)
	if e.external != nil {
		e.activateParts()
	}
	for _, t := range e.queueCharges() {
		t.queue.account.replace(Reserved, Active, t.vector, t.vector)
	}
}

// entitle changes what an entry that holds something counts as. What becomes free may let others
// be granted.
func (l *Ledger) entitle(e *entry, r resource.Resource) {
	h := e.host
	before, after, parts := e.request(), r.Vector, e.Entitled.External
	l.countLargest(e, largest(&r)-largest(&e.Entitled))
	e.Entitled = r
	h.promise(e)
	for _, a := range append([]*account{&h.account}, e.accounts...) {
		a.replace(e.State, e.State, before, after)
		l.freed(a)
	}
	for _, u := range e.uses {
		u.subtract(before)
		u.add(after)
	}
	e.takeFromSet(e.State, before)
	e.addToSet(e.State, after)
	if e.external != nil {
		l.entitleParts(e, parts)
		l.entitleExternal(e)
	}
	e.share.count(before, -1, &l.fleet)
	e.share.count(after, 1, &l.fleet)
	l.updatePlacerBalance(h)
}

// setEntryTimer sets the entry's timer to what is due first.
func (l *Ledger) setEntryTimer(e *entry) {
	due := Instant(0)
	first := func(at Instant) {
		if at != 0 && (due == 0 || at < due) {
			due = at
		}
	}
	if e.State == Waiting {
		first(e.WaitDeadline)
		if !e.present() {
			first(e.detached.Add(l.cfg.CallerGrace))
		}
		first(l.starvationDue(e))
		if e.claim != nil {
			first(e.claim.until)
		}
	} else if e.unstored == 0 {
		first(max(e.Expires, e.durableExpiry))
	}
	l.ends.set(&e.timer, due)
}

// entryDue does what the entry's timer was set for.
func (l *Ledger) entryDue(e *entry) {
	switch {
	case e.State == Reserved:
		l.becomeExpired(e, "not confirmed within "+e.ReservationTTL.String())
	case e.State == Active:
		l.becomeExpired(e, "lease not renewed within "+e.ttl().String())
	case e.WaitDeadline <= l.now:
		l.becomeExpired(e, ReasonWaited)
	case !e.present() && e.detached.Add(l.cfg.CallerGrace) <= l.now:
		e.Forget = !e.hasExecuted()
		l.becomeCanceled(e, "its caller did not come back within "+l.cfg.CallerGrace.String())
	case e.claim != nil:
		l.endClaim(e)
		l.setEntryTimer(e)
	default:
		l.checkStarvation(e)
	}
}

// may checks that the actor may change the entry.
func (e *entry) may(actor identity.Actor, wanted string) error {
	if e.Caller == actor.Name || actor.MayActAs(e.RightsOf()) {
		return nil
	}
	return &DeniedError{Actor: actor.Name, Wanted: wanted + " allocation " + e.ID.String() + " of user " + e.RightsOf()}
}

// lookupRequest finds a live entry by its id or, without one, by the request id that a caller gave
// it.
func (l *Ledger) lookupRequest(actor identity.Actor, id ID, requestID string) (*entry, error) {
	if id == 0 {
		r := l.requests.find(keyOf(actor.Name, requestID))
		if !r.live() {
			return nil, &NotFoundError{What: "request", ID: requestID}
		}
		id = r.id
	}
	return l.lookup(id)
}

// lookup finds a live entry.
func (l *Ledger) lookup(id ID) (*entry, error) {
	e := l.entry(id)
	if e == nil {
		return nil, &NotFoundError{What: "allocation", ID: id.String()}
	}
	return e, nil
}
