package ledger

import "github.com/bursar/bursar/label"

// accountSet is the quota accounts and the fair share of an allocation with certain labels. All
// live allocations whose labels agree in the keys that the rules name, and in the user, share one.
type accountSet struct {
	text string // of those labels
	// accounts are the quotas that the labels select, in the order of their scopes. The host's
	// account is not among them.
	accounts []*account
	share    *share
	uses     []*shareUse // of the share, in these accounts
	live     int         // allocations that share it
}

// link gives an entry its account set.
func (l *Ledger) link(e *entry) {
	l.scratch = l.rules.keys.AppendKey(l.scratch[:0], e.Labels)
	set := l.accountSets[string(l.scratch)]
	if set == nil {
		set = l.newAccountSet(string(l.scratch), e.Labels)
	}
	set.live++
	e.accountSet = set
}

func (l *Ledger) newAccountSet(text string, labels label.Set) *accountSet {
	set := &accountSet{text: text, accounts: l.rules.accounts(nil, labels, &l.scratch)}
	for _, quota := range set.accounts {
		quota.sets++
	}
	set.share = l.shareOf(set, labels)
	set.uses = make([]*shareUse, len(set.accounts))
	for i, quota := range set.accounts {
		set.uses[i] = set.share.use(quota)
	}
	l.accountSets[text] = set
	return set
}

// unlink takes an entry, which counts nowhere any more, out of its account set. Accounts, cluster
// queues and shares that no entry is left in are removed, too.
func (l *Ledger) unlink(e *entry) {
	l.detachExternal(e)
	set := e.accountSet
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
