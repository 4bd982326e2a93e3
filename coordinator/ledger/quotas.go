package ledger

import (
	"cmp"
	"maps"
	"slices"

	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// SetQuotas replaces all rules of a source, all or nothing. If they name labels that no rule has
// named, and many allocations live, they are in force only after some more steps: see refile.go.
//
// Errors: *FieldError, which names the rule.
func (l *Ledger) SetQuotas(now Instant, source string, quotas []Quota) error {
	return l.SetSources(now, map[string][]Quota{source: quotas})
}

// SetSources is SetQuotas for several sources in one step. Rules of files hide stored rules that
// they conflict with.
func (l *Ledger) SetSources(now Instant, sets map[string][]Quota) error {
	l.begin(now)
	sources := make(map[string][]Quota, len(l.latestRules().sources)+len(sets))
	maps.Copy(sources, l.latestRules().sources)
	for source, quotas := range sets {
		sources[source] = slices.Clone(quotas)
	}
	put := func(_ label.Selector, source string) bool { return sets[source] != nil }
	_, err := l.setSources(sources, false, func(rules *ruleset) error {
		if err := checkFiles(sources, put); err != nil {
			return err
		}
		for i := range rules.hidden {
			if h := &rules.hidden[i]; stored(h.Source) && put(h.Selector, h.Source) {
				return h.refusal
			}
		}
		return nil
	})
	return err
}

// PutQuota adds a rule of source "api", or replaces the one with its selector. The error is a
// *FieldError.
func (l *Ledger) PutQuota(now Instant, q Quota) error {
	_, err := l.ApplyQuotas(now, QuotaSet{Quotas: []Quota{q}})
	return err
}

// DeleteQuota removes the stored rule with this selector, even if it is hidden. If several sources
// have one, it removes all of them: the store keeps one row for a selector.
//
// Errors: *NotFoundError, *StateError (the rule comes from a file or an import), *FieldError (two
// others would tie without it).
func (l *Ledger) DeleteQuota(now Instant, s label.Selector) error {
	l.begin(now)
	found, elsewhere := false, ""
	sources := maps.Clone(l.latestRules().sources)
	for _, source := range slices.Sorted(maps.Keys(sources)) {
		quotas := sources[source]
		i := slices.IndexFunc(quotas, func(q Quota) bool { return q.Selector.Equal(s) })
		switch {
		case i < 0:
		case !stored(source), imported(source):
			elsewhere = source
		default:
			found = true
			sources[source] = slices.Delete(slices.Clone(quotas), i, i+1)
		}
	}
	switch {
	case found:
		_, err := l.setSources(sources, false, l.refusing(func(label.Selector, string) bool { return false }))
		return err
	case elsewhere != "":
		return &StateError{"quota", s.String(), "from " + elsewhere, "one that was set over the API; change it where it comes from"}
	}
	return &NotFoundError{What: "quota", ID: s.String()}
}

// refusing returns a check that refuses a command that puts a rule which would be hidden, or hides
// one that is in force.
func (l *Ledger) refusing(put func(selector label.Selector, source string) bool) func(*ruleset) error {
	return func(rules *ruleset) error { return rules.refusal(l.latestRules().hidden, put) }
}

// QuotaSet is a set of rules that are put in one step.
type QuotaSet struct {
	// Source is the source of the rules; empty is SourceAPI. A source with SourceFilePrefix is
	// refused.
	Source string
	// Quotas are added, or replace those with the same selectors from any source except files. A
	// set from an import replaces rules of that import only, and no other set replaces these.
	Quotas []Quota
	// Prune removes the rules of this source that are not in the set.
	Prune bool
	// DryRun changes nothing.
	DryRun bool
	// Force takes rules for dimensions that nothing declares; see UndeclaredDimensions.
	Force bool
}

// QuotaChanges is how the stored rules changed, by selector.
type QuotaChanges struct {
	Added, Changed, Deleted []Quota // as they are now, the deleted as they were
	Unchanged               int     // of the set
}

// ApplyQuotas puts a set of rules in force, all or nothing.
//
// Errors: *FieldError, which names the rule.
func (l *Ledger) ApplyQuotas(now Instant, set QuotaSet) (QuotaChanges, error) {
	l.begin(now)
	source := orElse(set.Source, SourceAPI)
	if !stored(source) {
		return QuotaChanges{}, &FieldError{"source", source, `a name that does not begin with "file:": those rules belong to the files that are watched`}
	}
	if err := checkName("source", source); err != nil {
		return QuotaChanges{}, err
	}
	if imported(source) && !importName.MatchString(source[len(SourceImportPrefix):]) {
		return QuotaChanges{}, &FieldError{"source", source, `"import:" and a name of letters, digits, dots, dashes and underscores, at most 64`}
	}
	taken := make(map[string]bool, len(set.Quotas))
	for _, q := range set.Quotas {
		text := q.Selector.String()
		if taken[text] {
			return QuotaChanges{}, &FieldError{"selector", q.Selector.Text(), "each selector once in a set"}
		}
		taken[text] = true
	}
	if !set.Force {
		if err := l.checkDimensions(set.Quotas); err != nil {
			return QuotaChanges{}, err
		}
	}
	sources := make(map[string][]Quota, len(l.latestRules().sources)+1)
	for _, name := range slices.Sorted(maps.Keys(l.latestRules().sources)) {
		quotas := l.latestRules().sources[name]
		if i := slices.IndexFunc(quotas, func(q Quota) bool { return taken[q.Selector.String()] }); i >= 0 && stored(name) && apart(name, source) {
			return QuotaChanges{}, (&rule{Quota: quotas[i]}).taken(quotas[i].Selector.Text())
		}
		sources[name] = slices.DeleteFunc(slices.Clone(quotas), func(q Quota) bool {
			return stored(name) && (taken[q.Selector.String()] || (set.Prune && name == source))
		})
	}
	sources[source] = append(sources[source], set.Quotas...)
	put := func(selector label.Selector, from string) bool { return from == source && taken[selector.String()] }
	changes, err := l.setSources(sources, set.DryRun, l.refusing(put))
	changes.Unchanged = len(set.Quotas) - len(changes.Added) - len(changes.Changed)
	return changes, err
}

// setSources puts other rules in force, unless refuse returns an error. The ledger keeps the
// lists.
func (l *Ledger) setSources(sources map[string][]Quota, dryRun bool, refuse func(*ruleset) error) (QuotaChanges, error) {
	maps.DeleteFunc(sources, func(_ string, quotas []Quota) bool { return len(quotas) == 0 })
	rules := newRuleset(sources)
	if err := refuse(&rules); err != nil {
		return QuotaChanges{}, err
	}
	changes := difference(l.latestRules().sources, sources)
	if dryRun {
		return changes, nil
	}
	l.recordQuotas(changes)
	l.putRules(rules)
	l.grantWaiting()
	return changes, nil
}

// recordQuotas adds the changes of stored rules to the changes. A rule that a batch removes and
// puts again counts as put.
func (l *Ledger) recordQuotas(changes QuotaChanges) {
	for _, q := range slices.Concat(changes.Added, changes.Changed) {
		text := q.Selector.String()
		l.changes.QuotasRemoved = slices.DeleteFunc(l.changes.QuotasRemoved, func(removed string) bool { return removed == text })
		l.changes.Quotas = append(l.changes.Quotas, q)
		l.revision++
		l.stampNamed(&l.changes.QuotaStamps, text)
	}
	for _, q := range changes.Deleted {
		l.changes.Quotas = slices.DeleteFunc(l.changes.Quotas, func(put Quota) bool { return put.Selector.Equal(q.Selector) })
		l.changes.QuotasRemoved = append(l.changes.QuotasRemoved, q.Selector.String())
		l.revision++
		l.stampNamed(&l.changes.QuotaStamps, q.Selector.String())
	}
}

// difference returns which stored rules were added, changed and deleted.
func difference(before, after map[string][]Quota) QuotaChanges {
	var changes QuotaChanges
	old := storedBySelector(before)
	now := storedBySelector(after)
	for _, text := range slices.Sorted(maps.Keys(now)) {
		was, known := old[text]
		switch q := now[text]; {
		case !known:
			changes.Added = append(changes.Added, q)
		case !was.equal(q):
			changes.Changed = append(changes.Changed, q)
		}
		delete(old, text)
	}
	for _, text := range slices.Sorted(maps.Keys(old)) {
		changes.Deleted = append(changes.Deleted, old[text])
	}
	return changes
}

func storedBySelector(sources map[string][]Quota) map[string]Quota {
	rules := make(map[string]Quota)
	// of rules with equal selectors, that of the first source is in force
	for _, source := range slices.Backward(slices.Sorted(maps.Keys(sources))) {
		if !stored(source) {
			continue
		}
		for _, q := range sources[source] {
			rules[q.Selector.String()] = q
		}
	}
	return rules
}

func (q Quota) equal(r Quota) bool {
	sameNormalization := (q.Normalization == nil) == (r.Normalization == nil)
	if sameNormalization && q.Normalization != nil {
		sameNormalization = q.Normalization.Minimum.Equal(r.Normalization.Minimum) &&
			q.Normalization.Increment.Equal(r.Normalization.Increment) &&
			q.Normalization.Maximum.Equal(r.Normalization.Maximum)
	}
	return sameNormalization && q.Selector.Equal(r.Selector) && q.Limit.Equal(r.Limit) &&
		q.Guaranteed.Equal(r.Guaranteed) && q.Weight == r.Weight && q.Source == r.Source &&
		slices.EqualFunc(q.External, r.External, resource.External.Equal) &&
		slices.EqualFunc(q.GuaranteedExternal, r.GuaranteedExternal, resource.External.Equal)
}

// adjustRules puts new rules in force if they differ from the present ones only in their limits and
// their rounding, as most changes do. Allocations keep their accounts, so that it takes no longer
// with more of them. If the rules differ in anything else, it changes nothing and reports false.
func (l *Ledger) adjustRules(rules ruleset) bool {
	changed, ok := l.rules.adjustments(&rules)
	if !ok {
		return false
	}
	l.rules.sources, l.rules.hidden, l.rules.normalizing = rules.sources, rules.hidden, rules.normalizing
	l.rulesGeneration++
	lowers := make(map[*rule]bool, len(changed))
	for r, to := range changed {
		lowers[r] = allowsLess(r.Limit, to.Limit)
		for i := range to.External { // at the same places
			lowers[r] = lowers[r] || allowsLess(r.External[i].Vector, to.External[i].Vector)
		}
		r.Quota = to
	}
	for _, s := range l.rules.scopes {
		s.order.Scan(func(_ string, a *account) bool {
			if _, is := changed[a.rule]; is {
				a.setLimit(a.ruleLimit(), resource.Vector{})
				l.freed(a)
			}
			return true
		})
	}
	l.requeueBehind(lowers)
	l.visitDue = true // what is held may be of no use any more
	return true
}

// allowsLess reports whether a limit allows less of some dimension than the one before.
func allowsLess(before, now resource.Vector) bool {
	for dimension, limit := range now.All() {
		if most, limited := before.Get(dimension); !limited || limit < most {
			return true
		}
	}
	return false
}

// requeueBehind moves the classes that ask something of accounts of rules that allow less now:
// these may be what blocks them.
func (l *Ledger) requeueBehind(lowers map[*rule]bool) {
	is := func(a *account) bool { return lowers[a.rule] }
	var classes []*class
	for _, c := range l.classes {
		if slices.ContainsFunc(c.first().accounts, is) {
			classes = append(classes, c)
		}
	}
	slices.SortFunc(classes, byUrgency)
	for _, c := range classes {
		c.dequeue()
	}
	for _, c := range classes {
		l.requeue(c)
	}
}

// byUrgency orders classes by priority and arrival.
func byUrgency(a, b *class) int {
	return cmp.Or(-cmp.Compare(a.priority, b.priority), cmp.Compare(a.first().ID, b.first().ID))
}

// adjustments returns how the rules in force must change to be those of other rules. ok is false if
// they differ in more than limits and normalization.
func (rs *ruleset) adjustments(to *ruleset) (changed map[*rule]Quota, ok bool) {
	if rs.count != to.count {
		return nil, false
	}
	now := make(map[string]*rule, rs.count)
	for r := range rs.inForce {
		now[r.Selector.String()] = r
	}
	changed = make(map[*rule]Quota)
	for r := range to.inForce {
		old := now[r.Selector.String()]
		if old == nil || old.Source != r.Source || old.Weight != r.Weight || !old.Guaranteed.Equal(r.Guaranteed) ||
			!slices.EqualFunc(old.GuaranteedExternal, r.GuaranteedExternal, resource.External.Equal) ||
			!slices.EqualFunc(old.External, r.External, func(a, b resource.External) bool { return a.Address == b.Address }) {
			return nil, false
		}
		if !old.equal(r.Quota) {
			changed[old] = r.Quota
		}
	}
	return changed, true
}

// dequeueAll takes every waiting class out of its queue and ends all holds. It returns the classes
// in order of priority and arrival, and the requests that were starved.
func (l *Ledger) dequeueAll() (classes []*class, starved []*entry) {
	l.visiting = nil
	for len(l.starved.items) > 0 {
		e := l.starved.items[0].starved.requests.items[0]
		l.endClaim(e)
		l.removeStarved(e)
		starved = append(starved, e)
	}
	classes = slices.SortedFunc(maps.Values(l.classes), byUrgency)
	for _, c := range classes {
		c.dequeue()
	}
	for _, q := range l.marked {
		q.marked, q.again, q.ended, q.endedAgain = false, false, false, false
	}
	l.marked = l.marked[:0]
	return classes, starved
}

// requeue enqueues a class behind what blocks it now. If nothing does, it enqueues the class
// behind one of its accounts and marks that queue.
func (l *Ledger) requeue(c *class) {
	e := c.first()
	if _, blocked := l.decide(e); blocked != nil {
		l.enqueueClass(c, blocked)
		return
	}
	q := &l.anyHost
	if len(e.accounts) > 0 {
		q = &e.accounts[0].queue
	} else if e.HostID != "" {
		q = &l.hosts[e.HostID].account.queue
	}
	l.enqueueClass(c, q)
	l.mark(q)
}
