package ledger

import (
	"fmt"

	"github.com/bursar/bursar/resource"
)

// Audit recomputes every balance from the allocations and checks the invariants that a state can
// show: 1 to 3. It returns nothing if all sums are right.
func (l *Ledger) Audit() []Violation {
	var found []Violation
	report := func(invariant int, format string, args ...any) {
		found = append(found, Violation{invariant, fmt.Sprintf(format, args...)})
	}
	sums := make(map[*account]*balances)
	for _, h := range l.hostOrder {
		sums[&h.account] = &balances{}
	}
	for _, s := range l.rules.scopes {
		for _, a := range s.accounts {
			sums[a] = &balances{}
		}
	}
	for _, c := range l.clusters {
		for _, q := range c.queues {
			sums[&q.account] = &balances{}
		}
	}
	l.entries.Scan(func(id ID, e *entry) bool {
		l.auditEntry(id, e, sums, report)
		return true
	})
	l.auditClusters(sums, report)
	for a, sum := range sums {
		if !sum.used.EqualTo(a.used.Vector()) || !sum.reserved.EqualTo(a.reserved.Vector()) || sum.held != a.held {
			report(2, "%s: used %s reserved %s of %d allocations; its allocations are entitled to used %s reserved %s of %d",
				a.name, a.used.Vector(), a.reserved.Vector(), a.held, sum.used, sum.reserved, sum.held)
		}
		if a.overLimit() && !a.exceeded {
			report(1, "%s: over its limit %s with used %s reserved %s", a.name, a.limit, a.used.Vector(), a.reserved.Vector())
		}
	}
	l.auditBytes(report)
	l.auditClaims(sums, report)
	for _, h := range l.hostOrder {
		promised := int64(0)
		for _, e := range h.entries {
			promised += e.promise
		}
		if promised != h.promised {
			report(9, "host %s: promised %d, its allocations %d", h.ID, h.promised, promised)
		}
	}
	return found
}

// balances is the sum of the allocations of an account.
type balances struct {
	used, reserved resource.Vector
	held           int
	// Of a cluster queue:
	shown    resource.Vector
	attached int
}

// count adds an allocation.
func (b *balances) count(s State, v resource.Vector) {
	into := &b.reserved
	if s == Active {
		into = &b.used
	}
	if total, err := into.Add(v); err == nil {
		*into = total
	}
}

// auditEntry checks an entry by itself.
func (l *Ledger) auditEntry(id ID, e *entry, sums map[*account]*balances, report func(int, string, ...any)) {
	switch {
	case id != e.ID:
		report(3, "allocation %s is filed under %s", e.ID, id)
	case !e.State.Live():
		report(3, "allocation %s is %s and still in the books", e.ID, e.State)
	case e.State.Holds() && (e.host == nil || e.host.ID != e.HostID || l.hosts[e.HostID] != e.host):
		report(3, "allocation %s is %s on host %q, which does not have it", e.ID, e.State, e.HostID)
	case e.State == Waiting && e.host != nil:
		report(3, "allocation %s waits and holds host %s", e.ID, e.host.ID)
	case e.State == Waiting && e.present() && (e.class == nil || e.class.group == nil):
		report(7, "allocation %s waits behind nothing", e.ID)
	}
	if e.State.Holds() && e.host != nil {
		l.auditAccounts(e, sums, report)
	}
	if e.external != nil || len(e.Entitled.External) > 0 {
		l.auditCharges(e, sums, report)
	}
}

// auditAccounts checks which accounts an entry counts in, and adds it to their sums.
func (l *Ledger) auditAccounts(e *entry, sums map[*account]*balances, report func(int, string, ...any)) {
	want := l.rules.accounts(nil, e.Labels, new([]byte))
	if len(want) != len(e.accounts) {
		report(3, "allocation %s touches %d quota accounts, its labels %d", e.ID, len(e.accounts), len(want))
		return
	}
	for i, a := range append(want, &e.host.account) {
		if i < len(e.accounts) && e.accounts[i] != a {
			report(3, "allocation %s touches %s, its labels %s", e.ID, e.accounts[i].name, a.name)
		}
		sum := sums[a]
		if sum == nil {
			report(3, "allocation %s touches %s, which is in no table", e.ID, a.name)
			continue
		}
		sum.held++
		sum.count(e.State, e.request())
	}
}
