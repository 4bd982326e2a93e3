package ledger

import (
	"slices"

	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// accountSet is the quota accounts and the fair share of an allocation with certain labels. All
// live allocations whose labels agree in the keys that the rules name, and in the user, share one.
// They may agree in more: rules name fewer keys when some were removed, and more are told apart
// before others come. The scope's name is a part of the text, so that sets of different keys are
// different.
type accountSet struct {
	text string // of those labels
	// keys are the labels in which its allocations agree, labels their values.
	keys   label.Scope
	labels label.Set
	// accounts are the quotas that the labels select, in the order of their scopes. The host's
	// account is not among them.
	accounts []*account
	share    *share
	uses     []*shareUse // of the share, in these accounts
	live     int         // allocations that share it
	latest   label.Set   // all labels of one of them: the next one is likely to have the same

	// held is the number of its allocations that hold something, with their sums: after a change of
	// rules these count in other accounts at once.
	held int
	sums
	// partSets are those of them that have external parts, by the addresses of these.
	partSets map[string]*partSet
}

// link gives an entry its account set.
func (l *Ledger) link(e *entry) {
	keys := &l.rules.keys
	if l.refiling != nil {
		keys = &l.refiling.keys
	}
	l.scratch = keys.AppendKey(l.scratch[:0], e.Labels)
	set := l.accountSets[string(l.scratch)]
	if set == nil {
		set = &accountSet{text: string(l.scratch), keys: *keys, labels: keys.Project(e.Labels)}
		l.charge(set)
		l.accountSets[set.text] = set
	}
	set.live++
	e.accountSet = set
}

// shareLabels gives an entry, which is put into the tables, the labels of the one before that
// counts in the same accounts, if they are equal.
func (e *entry) shareLabels() {
	if e.Labels.Equal(e.latest) {
		e.Labels = e.latest
	} else {
		e.latest = e.Labels
	}
}

// charge finds the accounts and the share of an account set by the rules in force.
func (l *Ledger) charge(set *accountSet) {
	set.accounts = l.rules.accounts(nil, set.labels, &l.scratch)
	for _, quota := range set.accounts {
		quota.sets++
	}
	set.share = l.shareOf(set, set.labels)
	set.uses = make([]*shareUse, len(set.accounts))
	for i, quota := range set.accounts {
		set.uses[i] = set.share.use(quota)
	}
	for _, parts := range set.partSets {
		parts.charge(set)
	}
}

// tells reports whether the allocations of the set agree in all of these keys.
func (set *accountSet) tells(keys *label.Scope) bool {
	if set.keys.Key() == keys.Key() {
		return true
	}
	for _, key := range keys.Keys() {
		if !slices.Contains(set.keys.Keys(), key) {
			return false
		}
	}
	return true
}

// addToSet adds an allocation's resources to the set. It cannot overflow: see mostTogether.
func (set *accountSet) addToSet(s State, v resource.Vector) {
	if err := set.in(s).Add(v); err != nil {
		panic("ledger: the account set of " + set.labels.String() + ": " + err.Error())
	}
}

// takeFromSet reverses addToSet.
func (set *accountSet) takeFromSet(s State, v resource.Vector) {
	if err := set.in(s).Minus(v); err != nil {
		panic("ledger: the account set of " + set.labels.String() + ": " + err.Error())
	}
}

// unlink takes an entry, which counts nowhere any more, out of its account set. Accounts, cluster
// queues and shares that no entry is left in are removed, too.
func (l *Ledger) unlink(e *entry) {
	l.detachExternal(e)
	if set := e.accountSet; len(e.Labels) > 0 && len(set.latest) > 0 && &e.Labels[0] == &set.latest[0] {
		set.latest = nil // nobody may have them any more
	}
	l.leaveSet(e.accountSet)
}

// leaveSet takes one allocation, which holds nothing in it, out of an account set.
func (l *Ledger) leaveSet(set *accountSet) {
	if set.live--; set.live > 0 {
		return
	}
	delete(l.accountSets, set.text)
	for i, quota := range set.accounts {
		set.share.dropUse(set.uses[i])
		quota.sets--
		l.rules.prune(quota)
	}
	l.dropShare(set.share)
}

// recycle keeps the memory of an entry that is in no table any more.
func (l *Ledger) recycle(e *entry) {
	*e = entry{}
	l.spare = append(l.spare, e)
}
