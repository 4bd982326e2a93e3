package ledger

import (
	"cmp"
	"maps"
	"slices"

	"github.com/bursar/bursar/label"
)

// SetQuotas replaces all rules of a source, all or nothing, and files every live allocation anew in the same step.
//
// Errors: *FieldError, which names the rule.
func (l *Ledger) SetQuotas(now Instant, source string, quotas []Quota) error {
	l.begin(now)
	sources := maps.Clone(l.rules.sources)
	if sources == nil {
		sources = make(map[string][]Quota)
	}
	if len(quotas) > 0 {
		sources[source] = slices.Clone(quotas)
	} else {
		delete(sources, source)
	}
	rules, err := newRuleset(sources)
	if err != nil {
		return err
	}
	if source == SourceAPI {
		l.recordQuotas(l.rules.sources[SourceAPI], sources[SourceAPI])
	}
	l.refile(rules)
	l.settle()
	return nil
}

// PutQuota adds a rule of source "api", or replaces the one with its selector. The error is a *FieldError.
func (l *Ledger) PutQuota(now Instant, q Quota) error {
	rest := l.otherQuotas(q.Selector)
	return l.SetQuotas(now, SourceAPI, append(rest, q))
}

// DeleteQuota removes the rule of source "api" with this selector.
//
// Errors: *NotFoundError, *StateError (the rule comes from elsewhere).
func (l *Ledger) DeleteQuota(now Instant, s label.Selector) error {
	for _, q := range l.Quotas() {
		if !q.Selector.Equal(s) {
			continue
		}
		if q.Source != SourceAPI {
			return &StateError{"quota", s.String(), "from " + q.Source, "one that was set over the API; change it where it comes from"}
		}
		return l.SetQuotas(now, SourceAPI, l.otherQuotas(s))
	}
	return &NotFoundError{What: "quota", ID: s.String()}
}

// otherQuotas is the rules of source "api" but for one selector's.
func (l *Ledger) otherQuotas(s label.Selector) []Quota {
	return slices.DeleteFunc(slices.Clone(l.rules.sources[SourceAPI]), func(q Quota) bool { return q.Selector.Equal(s) })
}

// recordQuotas hands the difference to the store.
func (l *Ledger) recordQuotas(before, after []Quota) {
	old := make(map[string]Quota, len(before))
	for _, q := range before {
		old[q.Selector.String()] = q
	}
	for _, q := range after {
		q.Source = SourceAPI
		if was, known := old[q.Selector.String()]; !known || !was.equal(q) {
			l.changes.Quotas = append(l.changes.Quotas, q)
			l.revision++
		}
		delete(old, q.Selector.String())
	}
	for _, text := range slices.Sorted(maps.Keys(old)) {
		l.changes.QuotasRemoved = append(l.changes.QuotasRemoved, text)
		l.revision++
	}
}

func (q Quota) equal(r Quota) bool {
	sameNormalization := (q.Normalization == nil) == (r.Normalization == nil)
	if sameNormalization && q.Normalization != nil {
		sameNormalization = q.Normalization.Minimum.Equal(r.Normalization.Minimum) &&
			q.Normalization.Increment.Equal(r.Normalization.Increment) &&
			q.Normalization.Maximum.Equal(r.Normalization.Maximum)
	}
	return sameNormalization && q.Selector.Equal(r.Selector) && q.Limit.Equal(r.Limit) &&
		q.Guaranteed.Equal(r.Guaranteed) && q.Weight == r.Weight && q.Source == r.Source
}

// refile puts new rules in force: every live allocation touches the accounts that a restart would give it.
func (l *Ledger) refile(rules ruleset) {
	classes := l.unqueue()
	l.rules = rules
	l.shares = make(map[string]*share)
	for _, p := range l.order {
		e := p.entry
		if e == nil {
			continue
		}
		l.open(e)
		if !e.State.Holds() {
			continue
		}
		for _, quota := range e.accounts {
			l.count(quota, e)
			quota.exceeded = quota.overLimit()
		}
		e.share.count(e.request(), 1, l.fleet)
	}
	for _, c := range classes {
		l.requeue(c)
	}
}

// unqueue takes every waiting class out of its queue, first come first, and ends all that is kept for somebody.
func (l *Ledger) unqueue() []*class {
	for _, p := range l.order {
		if p.entry != nil {
			l.letGo(p.entry)
		}
	}
	classes := slices.SortedFunc(maps.Values(l.classes), func(a, b *class) int {
		return cmp.Or(-cmp.Compare(a.priority, b.priority), cmp.Compare(a.first().ID, b.first().ID))
	})
	for _, c := range classes {
		c.remove()
	}
	for _, q := range l.dirty {
		q.dirty = false
	}
	l.dirty = l.dirty[:0]
	return classes
}

// requeue files a class behind what blocks it now, and marks that to be looked at: the first of them may fit.
func (l *Ledger) requeue(c *class) {
	e := c.first()
	if _, blocked := l.decide(e); blocked != nil {
		l.file(c, blocked)
		return
	}
	q := &l.anyHost
	if len(e.accounts) > 0 {
		q = &e.accounts[0].queue
	} else if e.HostID != "" {
		q = &l.hosts[e.HostID].account.queue
	}
	l.file(c, q)
	l.mark(q)
}
