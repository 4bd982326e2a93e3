package ledger

import (
	"slices"

	"github.com/bursar/bursar/resource"
)

// Audit recomputes every balance from the allocations and checks the invariants that a state can
// show: 1 to 3. It returns nothing if all sums are right. It does all that AuditSteps does, at one
// moment.
func (l *Ledger) Audit() (found []Violation) {
	defer func(other *auditor) { l.auditor = other }(l.auditor) // nothing changes meanwhile
	for result := range l.AuditSteps() {
		found = result.Violations
	}
	return found
}

// balances is the sum of the allocations of an account.
type balances struct {
	sums
	held int
	// Of a cluster queue:
	shown    [readings]resource.Sum
	attached int
}

// count adds an allocation's resources to the account's balance, or subtracts them.
func (b *balances) count(s State, v resource.Vector, by int) {
	addOrSubtract(b.in(s), v, by)
}

// addOrSubtract adds the vector if by is 1, and subtracts it if by is -1. A vector whose addition
// would overflow shows as a difference to the account.
func addOrSubtract(s *resource.Sum, v resource.Vector, by int) {
	if by > 0 {
		_ = s.Add(v)
	} else {
		_ = s.Minus(v)
	}
}

// counted is an allocation as the sums of an audit have it. It is subtracted again when the
// allocation has changed.
type counted struct {
	state   State
	vector  resource.Vector
	quotas  []*account      // nobody changes the list
	host    *account        // nil: it holds nothing
	charges []countedCharge // of cluster queues that are in the tables
	limits  []countedLimit  // of external parts
	largest int64           // of its quantities
	caller  string          // empty: it was adopted
	relay   string          // the host whose agent it came through; empty: none
	bytes   int64
}

// count checks an entry by itself, and adds it to the sums.
func (a *auditor) count(id ID, e *entry) {
	switch {
	case id != e.ID:
		a.reportf(3, "allocation %s is filed under %s", e.ID, id)
	case !e.State.Live():
		a.reportf(3, "allocation %s is %s and still in the ledger", e.ID, e.State)
	case e.State.Holds() && (e.host == nil || e.host.ID != e.HostID || a.hosts[e.HostID] != e.host):
		a.reportf(3, "allocation %s is %s on host %q, which does not have it", e.ID, e.State, e.HostID)
	case e.State == Waiting && e.host != nil:
		a.reportf(3, "allocation %s waits and holds host %s", e.ID, e.host.ID)
	case e.State == Waiting && e.present() && (e.waitsIn() == nil || e.class.group == nil):
		a.reportf(7, "allocation %s waits behind nothing", e.ID)
	}
	a.checkProcess(e)
	a.countStarved(e)
	c := &counted{state: e.State, vector: e.request(), largest: largest(&e.Entitled), bytes: e.LiveBytes() + e.overhead()}
	if e.State.Holds() && e.host != nil {
		a.countAccounts(e, c)
	}
	if e.external != nil || len(e.Entitled.External) > 0 {
		a.countCharges(e, c)
	}
	if !e.Adopted() {
		c.caller = e.Payer()
	}
	if e.relayed() {
		c.relay = e.HostID
	}
	a.entries.Set(id, c)
	a.add(c, 1)
}

// checkProcess checks that an entry's host knows its process.
func (a *auditor) checkProcess(e *entry) {
	if e.host != nil && e.tracked() && !e.host.hasPID(e) {
		a.reportf(3, "host %s does not know process %d of allocation %s", e.HostID, e.Process.PID, e.ID)
	}
}

// countAccounts checks which accounts an entry counts in.
func (a *auditor) countAccounts(e *entry, c *counted) {
	a.quotas = a.rules.accounts(a.quotas[:0], e.Labels, &a.key)
	if len(a.quotas) != len(e.accounts) {
		a.reportf(3, "allocation %s touches %d quota accounts, its labels %d", e.ID, len(e.accounts), len(a.quotas))
		return
	}
	for i, quota := range a.quotas {
		if e.accounts[i] != quota {
			a.reportf(3, "allocation %s touches %s, its labels %s", e.ID, e.accounts[i].name, quota.name)
		}
	}
	c.quotas, c.host = e.accounts, &e.host.account
	if !slices.Equal(a.quotas, e.accounts) {
		c.quotas = slices.Clone(a.quotas)
	}
	a.countLimits(e, c)
}

// add adds a counted allocation to the sums, or subtracts it.
func (a *auditor) add(c *counted, by int) {
	if c.host != nil {
		a.sumOf(c.host).held += by
		a.sumOf(c.host).count(c.state, c.vector, by)
	}
	a.largest += int64(by) * c.largest
	for _, quota := range c.quotas {
		a.sumOf(quota).held += by
		a.sumOf(quota).count(c.state, c.vector, by)
	}
	for i := range c.limits {
		a.sumOf(c.limits[i].account).held += by
		a.sumOf(c.limits[i].account).count(c.state, c.limits[i].vector, by)
	}
	a.addCharges(c, by)
	a.callerBytes.add(c.caller, c, by)
	a.relayBytes.add(c.relay, c, by)
}

// sumOf is the sum of the allocations of an account.
func (a *auditor) sumOf(of *account) *balances {
	sum := a.sums[of]
	if sum == nil {
		sum = new(balances)
		a.sums[of] = sum
	}
	return sum
}

// compare compares an account with its allocations.
func (a *auditor) compare(of *account) {
	a.result.Accounts++
	a.compareClaim(of)
	sum := a.sums[of]
	if sum == nil {
		sum = new(balances)
	}
	used, reserved := sum.used.Vector(), sum.reserved.Vector()
	if !used.EqualTo(of.used.Vector()) || !reserved.EqualTo(of.reserved.Vector()) || sum.held != of.held {
		a.reportf(2, "%s: used %s reserved %s of %d allocations; its allocations are entitled to used %s reserved %s of %d",
			of.name, of.used.Vector(), of.reserved.Vector(), of.held, used, reserved, sum.held)
	}
	if of.overLimit() && !of.exceeded {
		a.reportf(1, "%s: over its limit %s with used %s reserved %s", of.name, of.limit, of.used.Vector(), of.reserved.Vector())
	}
}

// compareHost compares a host with its allocations.
func (a *auditor) compareHost(h *host) {
	a.compare(&h.account)
	promised, bytes, shares := int64(0), int64(0), make(map[*usage]int64)
	for i, e := range h.entries {
		if int(e.hostIndex) != i || e.host != h {
			a.reportf(3, "host %s: allocation %s is in its list, and does not say so", h.ID, e.ID)
		}
		promised += e.promise
		own := e.LiveBytes() + ChargeOverhead*int64(len(e.queueCharges()))
		if bytes += own; !e.Adopted() {
			shares[a.callers[e.Payer()]] += own
		}
	}
	if promised != h.promised {
		a.reportf(9, "host %s: promised %d, its allocations %d", h.ID, h.promised, promised)
	}
	a.compareHostBytes(h, bytes, shares)
}
