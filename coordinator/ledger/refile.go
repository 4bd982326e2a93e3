package ledger

import (
	"slices"

	"github.com/bursar/bursar/label"
)

// # How other rules come into force
//
// Live allocations count in accounts by their labels. Allocations that agree in all labels that
// rules name form one account set, which knows their sums. So if other rules name no new labels,
// each set gets its new accounts and its new share at once. The time for that grows with the sets
// and accounts, not with the live allocations.
//
// If other rules name new labels, allocations of one set may differ in these. So first, in steps,
// each allocation moves to a set of those with which it agrees in the new labels, too. This changes
// nothing else: the rules in force select the same accounts and the same share for the new set as
// for the old one. New allocations get such sets at once. When all have one, the new rules come
// into force as above.
//
// Until then the earlier rules are in force: the ledger grants by them, and shows their accounts.
// The new rules are durable meanwhile. They are listed, and another change starts from them. A
// leader that loads has them in force from the beginning.

// refileStep is how many allocations move to another set in one step. One takes less than a
// microsecond.
const refileStep = 512

// refiling is new rules that are not in force yet.
type refiling struct {
	rules ruleset
	keys  label.Scope // of the rules in force, and of these
	after ID          // the allocations up to this one are in sets that tell enough
}

// latestRules are those that are in force, or will be when refile is done.
func (l *Ledger) latestRules() *ruleset {
	if l.refiling != nil {
		return &l.refiling.rules
	}
	return &l.rules
}

// putRules puts new rules in force, or begins to.
func (l *Ledger) putRules(rules ruleset) {
	if l.adjustRules(rules) {
		l.refiling = nil
		return
	}
	l.refiling = &refiling{rules: rules, keys: label.NewScope(slices.Concat(l.rules.keys.Keys(), rules.keys.Keys())...)}
	l.rulesGeneration++
	for _, set := range l.accountSets {
		if !set.tells(&rules.keys) {
			l.refile()
			return
		}
	}
	l.replaceRules()
}

// refile does one step on the way to the new rules, if there are any.
func (l *Ledger) refile() {
	r := l.refiling
	if r == nil {
		return
	}
	left, more := l.refileStep, false
	l.entries.Ascend(r.after, func(id ID, e *entry) bool {
		switch {
		case id == r.after:
			return true
		case left == 0:
			more = true
			return false
		}
		left--
		r.after = id
		if !e.tells(&r.rules.keys) {
			l.moveToFinerSet(e)
		}
		return true
	})
	if !more {
		l.replaceRules()
	}
}

// moveToFinerSet moves an entry to a set of those that agree with it in the keys of the new rules,
// too. That set has the same accounts and the same share.
func (l *Ledger) moveToFinerSet(e *entry) {
	from := e.accountSet
	l.link(e)
	l.movePartSet(e, from)
	if e.State.Holds() {
		from.held--
		from.takeFromSet(e.State, e.request())
		e.held++
		e.addToSet(e.State, e.request())
	}
	l.leaveSet(from)
}

// replaceRules puts the new rules in force: every account set gets the accounts and the share that
// its allocations would get after a restart.
func (l *Ledger) replaceRules() {
	classes, starved := l.dequeueAll()
	rules := l.refiling.rules
	l.refiling = nil
	rules.keepRests(&l.rules, l.now)
	l.rules = rules
	l.rulesGeneration++
	before := l.shares
	l.shares = make(map[string]*share, len(before))
	moved := make(map[*accountSet]*share) // to another share, from this one
	for _, set := range l.accountSets {
		was := set.share
		l.charge(set)
		set.countAll()
		if set.share.key != was.key {
			moved[set] = was
		}
	}
	for key, s := range l.shares {
		s.takeQueueUses(before[key])
	}
	l.moveQueueUses(moved)
	for _, s := range l.shares {
		s.revalue(&l.fleet)
	}
	for _, s := range l.rules.scopes {
		s.findExceeded()
	}
	for _, c := range classes {
		l.requeue(c)
	}
	for _, e := range starved { // they are starved by the new rules, too
		l.setEntryTimer(e)
	}
}

// countAll adds the sums of the set to its accounts and to its share, which are new.
func (set *accountSet) countAll() {
	for _, quota := range set.accounts {
		quota.held += set.held
	}
	set.addToAccounts()
	set.share.add(set.used.Vector(), 1)
	set.share.add(set.reserved.Vector(), 1)
	for _, parts := range set.partSets {
		parts.countAll(set.share)
	}
}

// addToAccounts adds the sums of the set to its accounts, and to its share's use of them.
func (set *accountSet) addToAccounts() {
	used, reserved := set.used.Vector(), set.reserved.Vector()
	for i, quota := range set.accounts {
		quota.add(Active, used)
		quota.add(Reserved, reserved)
		set.uses[i].add(used)
		set.uses[i].add(reserved)
	}
}

// takeQueueUses takes over the uses of cluster queues from the share with the same key.
func (s *share) takeQueueUses(before *share) {
	if before == nil {
		return
	}
	for a, u := range before.uses {
		if a.rule == nil {
			s.uses[a] = u
		}
	}
	s.clusters = before.clusters
}

// moveQueueUses moves the uses of cluster queues by allocations to their present share, if it has
// changed.
func (l *Ledger) moveQueueUses(moved map[*accountSet]*share) {
	if len(moved) == 0 {
		return
	}
	for _, c := range l.clusters {
		for _, e := range c.members {
			was := moved[e.accountSet]
			if was == nil {
				continue
			}
			if kept := l.shares[was.key]; kept != nil {
				was = kept // it has taken over the uses
			}
			for i := range e.external.charges {
				if t := &e.external.charges[i]; t.queue.cluster == c {
					t.use.subtract(t.vector)
					was.dropUse(t.use)
					t.countUse(e.share)
				}
			}
		}
	}
}

// keepRests lets the accounts rest that were held by the rules before, and are there by these.
func (rs *ruleset) keepRests(before *ruleset, now Instant) {
	for _, old := range before.scopes {
		i := slices.IndexFunc(rs.scopes, func(s *scope) bool { return s.Key() == old.Key() })
		if i < 0 {
			continue
		}
		old.order.Scan(func(key string, a *account) bool {
			if a.rests <= now {
				return true
			}
			if rs.scopes[i].rests == nil {
				rs.scopes[i].rests = make(map[string]Instant)
			}
			rs.scopes[i].rests[key] = a.rests
			if known, there := rs.scopes[i].order.Get(key); there {
				known.rests = a.rests
			}
			return true
		})
	}
}
