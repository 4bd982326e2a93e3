package ledger

import (
	"slices"
	"strings"

	"github.com/tidwall/btree"
)

// Quotas returns all rules that are in force, or will be once refile is done, by selector. The
// caller must not change the list.
func (l *Ledger) Quotas() []Quota {
	if l.listed != nil && l.listedAt == l.rulesGeneration {
		return l.listed
	}
	type named struct {
		text string
		Quota
	}
	rules := make([]named, 0, l.latestRules().count)
	for _, s := range l.latestRules().scopes {
		for _, m := range s.masks {
			for _, r := range m.rules {
				rules = append(rules, named{r.Selector.String(), r.Quota})
			}
		}
	}
	slices.SortFunc(rules, func(a, b named) int { return strings.Compare(a.text, b.text) })
	list := make([]Quota, len(rules))
	for i := range rules {
		list[i] = rules[i].Quota
	}
	l.listed, l.listedAt = list, l.rulesGeneration
	return list
}

// CountedKeys are the keys of labels by which rules count.
func (l *Ledger) CountedKeys() []string { return l.latestRules().keys.Keys() }

// QuotaAccounts yields the accounts of all rules with keys above after, ascending. Only the order
// of keys has a meaning. The cost is that of the accounts which it yields.
func (l *Ledger) QuotaAccounts(after string, yield func(key string, a AccountInfo) bool) {
	places := make([]*btree.MapIter[string, *account], 0, len(l.rules.scopes))
	for _, s := range l.rules.scopes {
		place := s.order.Iter()
		for more := place.Seek(after); more; more = place.Next() {
			if place.Key() > after {
				places = append(places, &place)
				break
			}
		}
	}
	for len(places) > 0 {
		first := 0
		for i := range places {
			if places[i].Key() < places[first].Key() {
				first = i
			}
		}
		place := places[first]
		if !yield(place.Key(), place.Value().info()) {
			return
		}
		if !place.Next() {
			places = slices.Delete(places, first, first+1)
		}
	}
}
