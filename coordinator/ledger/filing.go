package ledger

import "github.com/bursar/bursar/label"

// accountSet is where in the books an allocation of certain labels belongs. All live allocations whose labels agree in the keys that
// some rule speaks of, and in the user, share one.
type accountSet struct {
	text     string     // of those labels
	accounts []*account // the quotas they touch, in the order of their scopes; the host is apart
	share    *share
	live     int // allocations that are filed so
}

// link files an entry.
func (l *Ledger) link(e *entry) {
	l.scratch = l.rules.keys.AppendKey(l.scratch[:0], e.Labels)
	f := l.accountSets[string(l.scratch)]
	if f == nil {
		f = l.newAccountSet(string(l.scratch), e.Labels)
	}
	f.live++
	e.accountSet = f
}

func (l *Ledger) newAccountSet(text string, labels label.Set) *accountSet {
	f := &accountSet{text: text, accounts: l.rules.accounts(nil, labels, &l.scratch)}
	for _, quota := range f.accounts {
		quota.sets++
	}
	f.share = l.shareOf(f, labels)
	l.accountSets[text] = f
	return f
}

// unlink takes an entry, which counts nowhere any more, out of its filing. Accounts, branches and shares that nobody is left in go too.
func (l *Ledger) unlink(e *entry) {
	l.detachExternal(e)
	f := e.accountSet
	if f.live--; f.live > 0 {
		return
	}
	delete(l.accountSets, f.text)
	for _, quota := range f.accounts {
		quota.sets--
		l.rules.tidy(quota)
	}
	l.dropShare(f.share)
}

// reuse keeps the memory of an entry that is in no table any more.
func (l *Ledger) reuse(e *entry) {
	*e = entry{}
	l.spare = append(l.spare, e)
}
