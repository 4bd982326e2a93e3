package ledger

import (
	"cmp"
	"fmt"
	"iter"

	"github.com/bursar/bursar/resource"
)

// Unstored is how many times to live do not count yet.
func (l *Ledger) Unstored() int { return len(l.unstored) }

// HostBytes is what the rows of a host count with, and which part of that is one caller's.
func (l *Ledger) HostBytes(host, caller string) (all, its int64) {
	h := l.hosts[host]
	return h.bytes, h.bytesOf(l.callers[caller])
}

// CallerBytes is what the live allocations of a caller take: LiveBytes of each, LiveOverhead and
// QueueOverhead included.
func (l *Ledger) CallerBytes(caller string) int64 { return l.callers.of(caller) }

// RelayedBytes is the same of all callers of a host's agent together.
func (l *Ledger) RelayedBytes(host string) int64 { return l.relays.of(host) }

// AuditStepsOf is AuditSteps with steps of another size.
func (l *Ledger) AuditStepsOf(size int) iter.Seq[*AuditResult] { return l.auditSteps(size) }

// Lingering is how many allocations that hold nothing reports know that are being taken in.
func (l *Ledger) Lingering() (n int) {
	gone := func(id ID) {
		if e := l.entry(id); e == nil || !e.State.Holds() {
			n++
		}
	}
	for _, c := range l.readings.clusters {
		for id := range c.reading.next {
			gone(id)
		}
		c.reading.over.Scan(func(id ID) bool {
			gone(id)
			return true
		})
	}
	return n
}

// Auditing reports whether an audit is under way.
func (l *Ledger) Auditing() bool { return l.auditor != nil }

// CheckShareUses compares what each share has in its accounts with its allocations, and says what
// is wrong.
func (l *Ledger) CheckShareUses() (wrong string) {
	sums := make(map[*shareUse]*balances)
	count := func(u *shareUse, e *entry, v resource.Vector) {
		if u == nil || e.share.uses[u.account] != u {
			wrong = fmt.Sprintf("%s counts for its share where that is not known", e.ID)
			return
		}
		if sums[u] == nil {
			sums[u] = new(balances)
		}
		sums[u].count(Active, v, 1)
	}
	for _, e := range l.entries.Values() {
		if !e.State.Holds() {
			continue
		}
		for _, u := range e.uses {
			count(u, e, e.request())
		}
		for _, t := range e.queueCharges() {
			count(t.use, e, t.vector)
		}
		if e.external != nil {
			for i := range e.external.set.limits {
				limit := &e.external.set.limits[i]
				count(limit.use, e, limit.sum(e.Entitled.External))
			}
		}
	}
	for _, s := range l.shares {
		for a, u := range s.uses {
			has := resource.Vector{}
			if sums[u] != nil {
				has = sums[u].used.Vector()
			}
			if u.account != a || u.refs <= 0 || !u.sum.Vector().EqualTo(has) {
				wrong = fmt.Sprintf("share %s has %s in %s; its allocations have %s", s.key, u.sum.Vector(), a.name, has)
			}
		}
		wrong = cmp.Or(wrong, l.wrongInClusters(s))
	}
	return wrong
}

// SetRefileStep says how many allocations one step towards new rules looks at.
func (l *Ledger) SetRefileStep(allocations int) { l.refileStep = allocations }

// Refiling reports whether rules are not in force yet.
func (l *Ledger) Refiling() bool { return l.refiling != nil }

// SetReadingStep says how much of a cluster's report one step takes in.
func (l *Ledger) SetReadingStep(most int) { l.readings.step = most }

// TakingIn reports whether a report of a cluster is being taken in.
func (l *Ledger) TakingIn() bool { return len(l.readings.clusters) > 0 }

// QueueUsers are the accounts of users in this very queue, by name, of those that live allocations
// charge.
func (l *Ledger) QueueUsers(at resource.Address) (users []AccountInfo) {
	c := l.clusters[ClusterName{at.Kind, at.Cluster}]
	for _, u := range c.queues[queueKey{at.Path, at.Partition}].users {
		users = append(users, u.account.info())
	}
	return users
}

// CheckAccountSets compares what each account set holds with its allocations, and says what is
// wrong.
func (l *Ledger) CheckAccountSets() (wrong string) {
	sums, live := make(map[*accountSet]*balances), make(map[*accountSet]int)
	for _, e := range l.entries.Values() {
		if l.accountSets[e.text] != e.accountSet {
			return fmt.Sprintf("%s is in an account set that is in no table", e.ID)
		}
		if live[e.accountSet]++; sums[e.accountSet] == nil {
			sums[e.accountSet] = new(balances)
		}
		if e.State.Holds() {
			sums[e.accountSet].held++
			sums[e.accountSet].count(e.State, e.request(), 1)
		}
	}
	for _, set := range l.accountSets {
		if text := l.checkPartSets(set); text != "" {
			return text
		}
		has := sums[set]
		switch {
		case has == nil:
			wrong = fmt.Sprintf("account set %s has no allocation", set.labels)
		case live[set] != set.live || has.held != set.held || !has.used.Vector().EqualTo(set.used.Vector()) || !has.reserved.Vector().EqualTo(set.reserved.Vector()):
			wrong = fmt.Sprintf("account set %s of %d holds used %s reserved %s of %d; its %d allocations used %s reserved %s of %d",
				set.labels, set.live, set.used.Vector(), set.reserved.Vector(), set.held, live[set], has.used.Vector(), has.reserved.Vector(), has.held)
		}
	}
	return wrong
}

// checkPartSets compares what the part sets of an account set hold with its allocations.
func (l *Ledger) checkPartSets(set *accountSet) (wrong string) {
	live := make(map[*partSet]int)
	sums := make(map[*partSet][]balances)
	for _, e := range l.entries.Values() {
		if e.accountSet != set || e.external == nil {
			continue
		}
		parts := e.external.set
		if set.partSets[parts.text] != parts {
			return fmt.Sprintf("%s is in a part set that is in no table", e.ID)
		}
		if live[parts]++; sums[parts] == nil {
			sums[parts] = make([]balances, len(parts.parts))
		}
		for i, part := range e.Entitled.External {
			if part.Address != parts.parts[i].address {
				return fmt.Sprintf("%s has a part in %s, by its part set in %s", e.ID, part.Address, parts.parts[i].address)
			}
			if e.State.Holds() {
				sums[parts][i].held++
				sums[parts][i].count(e.State, part.Vector, 1)
			}
		}
	}
	for _, parts := range set.partSets {
		if live[parts] != parts.live || parts.live == 0 {
			return fmt.Sprintf("a part set of %s has %d allocations, and says %d", set.labels, live[parts], parts.live)
		}
		for i, held := range parts.parts {
			has := &sums[parts][i]
			if has.held != parts.held || !has.used.Vector().EqualTo(held.used.Vector()) || !has.reserved.Vector().EqualTo(held.reserved.Vector()) {
				wrong = fmt.Sprintf("a part set of %s holds used %s reserved %s of %d in %s; its allocations used %s reserved %s of %d", set.labels,
					held.used.Vector(), held.reserved.Vector(), parts.held, held.address, has.used.Vector(), has.reserved.Vector(), has.held)
			}
		}
	}
	return wrong
}
