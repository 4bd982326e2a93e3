package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// Where rules come from. The store keeps all but those from files, which stay in their files.
const (
	// SourceAPI is the source of rules that came over the API without naming another.
	SourceAPI = "api"
	// SourceFilePrefix begins the source of rules that come from a file which the server watches.
	SourceFilePrefix = "file:"
)

func stored(source string) bool { return !strings.HasPrefix(source, SourceFilePrefix) }

// rule is a Quota in its scope.
type rule struct {
	Quota
	scope *scope
	fixed bool // every value is exact: its one account is always there
}

// scope is the rules that are written for one set of label keys, and their accounts. Of the rules that match a request
// the most specific one wins, so each scope gives at most one account.
type scope struct {
	label.Scope
	masks    []mask // most exact values first
	accounts map[string]*account
}

// mask is the rules of a scope that are exact in the same keys.
type mask struct {
	exact label.Scope
	rules map[string]*rule // by the values of those keys
}

// ruleset is all rules in force.
type ruleset struct {
	sources     map[string][]Quota
	scopes      []*scope    // fewest keys first, then by key
	keys        label.Scope // all keys of all scopes, and the user
	normalizing bool        // some rule rounds requests
	count       int
}

// newRuleset checks the rules of all sources together and indexes them. A *FieldError names the rule.
func newRuleset(sources map[string][]Quota) (ruleset, error) {
	rs := ruleset{sources: sources}
	byKey := make(map[string]*scope)
	names := make([]string, 0, len(sources))
	for source := range sources {
		names = append(names, source)
	}
	slices.Sort(names)
	taken := make(map[string]string)
	for _, source := range names {
		for i, q := range sources[source] {
			q.Source = source
			sources[source][i] = q
			text := q.Selector.String()
			if before, twice := taken[text]; twice {
				return ruleset{}, &FieldError{"selector", text, "one rule for this selector; there is one from " + before + " and one from " + source}
			}
			taken[text] = source
			if err := q.check(); err != nil {
				return ruleset{}, err
			}
			key := q.Selector.Scope().Key()
			s := byKey[key]
			if s == nil {
				s = &scope{Scope: q.Selector.Scope(), accounts: make(map[string]*account)}
				byKey[key] = s
				rs.scopes = append(rs.scopes, s)
			}
			s.add(&rule{Quota: q, scope: s, fixed: q.Selector.Exact() == len(q.Selector.Labels())})
			rs.normalizing = rs.normalizing || q.Normalization != nil
			rs.count++
		}
	}
	keys := []string{userKey}
	for _, s := range rs.scopes {
		keys = append(keys, s.Keys()...)
	}
	rs.keys = label.NewScope(keys...)
	slices.SortFunc(rs.scopes, func(a, b *scope) int {
		return cmp.Or(cmp.Compare(len(a.Keys()), len(b.Keys())), cmp.Compare(a.Key(), b.Key()))
	})
	for _, s := range rs.scopes {
		slices.SortFunc(s.masks, func(a, b mask) int {
			return cmp.Or(cmp.Compare(len(b.exact.Keys()), len(a.exact.Keys())), cmp.Compare(a.exact.Key(), b.exact.Key()))
		})
		if err := s.ambiguous(); err != nil {
			return ruleset{}, err
		}
		s.open()
	}
	return rs, nil
}

func (q Quota) check() error {
	for _, part := range []struct {
		name string
		v    resource.Vector
	}{{"limit", q.Limit}, {"guaranteed", q.Guaranteed}} {
		if err := part.v.Validate(); err != nil {
			return outOfRange(q.Selector.String()+": "+part.name, err)
		}
	}
	for dimension, guaranteed := range q.Guaranteed.All() {
		if limit, limited := q.Limit.Get(dimension); limited && guaranteed > limit {
			return &FieldError{q.Selector.String() + ": guaranteed." + dimension, fmt.Sprint(guaranteed), fmt.Sprintf("at most the limit, %d", limit)}
		}
	}
	if q.Weight < 0 {
		return &FieldError{q.Selector.String() + ": weight", fmt.Sprint(q.Weight), "0 or more"}
	}
	if q.Normalization != nil {
		if err := q.Normalization.Validate(); err != nil {
			return outOfRange(q.Selector.String()+": normalization", err)
		}
	}
	return nil
}

// add files a rule under its mask.
func (s *scope) add(r *rule) {
	var keys []string
	for _, pair := range r.Selector.Labels() {
		if pair.Value != label.Any {
			keys = append(keys, pair.Key)
		}
	}
	exact := label.NewScope(keys...)
	i := slices.IndexFunc(s.masks, func(m mask) bool { return m.exact.Key() == exact.Key() })
	if i < 0 {
		i = len(s.masks)
		s.masks = append(s.masks, mask{exact: exact, rules: make(map[string]*rule)})
	}
	s.masks[i].rules[string(exact.AppendKey(nil, r.Selector.Labels()))] = r
}

// ambiguous reports two rules that are equally specific and could match the same request, unless a third one that is more
// specific than both takes all such requests.
func (s *scope) ambiguous() error {
	for i, a := range s.masks {
		for _, b := range s.masks[i+1:] {
			if len(a.exact.Keys()) != len(b.exact.Keys()) {
				break
			}
			for _, x := range a.sorted() {
				for _, y := range b.sorted() {
					if x.Selector.Overlaps(y.Selector) && !s.resolved(x, y) {
						return &FieldError{
							"selector", y.Selector.String(),
							"no tie with " + x.Selector.String() + ": a request could match both and neither is more specific; add a rule with the exact values of both, or make one of them more specific",
						}
					}
				}
			}
		}
	}
	return nil
}

// resolved reports whether every request that matches both rules matches one that is more specific.
func (s *scope) resolved(x, y *rule) bool {
	both := slices.Clone(x.Selector.Labels())
	for i, pair := range y.Selector.Labels() {
		if pair.Value != label.Any {
			both[i] = pair
		}
	}
	return s.match(both, nil).Selector.Exact() > x.Selector.Exact() // x itself matches, if nothing else
}

func (m mask) sorted() []*rule {
	list := make([]*rule, 0, len(m.rules))
	for _, r := range m.rules {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b *rule) int { return cmp.Compare(a.Selector.String(), b.Selector.String()) })
	return list
}

// open makes the accounts of the rules without a "*".
func (s *scope) open() {
	for _, m := range s.masks {
		for _, r := range m.rules {
			if r.fixed {
				s.account(r, s.AppendKey(nil, r.Selector.Labels()), r.Selector.Labels())
			}
		}
	}
}

func (s *scope) account(r *rule, key []byte, labels label.Set) *account {
	a := &account{
		name: AccountName{Kind: QuotaAccount, Labels: s.Project(labels)},
		key:  string(key),
		rule: r,
	}
	a.queue.account = a
	a.setLimit(r.Limit, resource.Vector{})
	s.accounts[a.key] = a
	return a
}

// match finds the most specific rule for the labels; nil where none matches.
func (s *scope) match(labels label.Set, buf []byte) *rule {
	for _, m := range s.masks {
		if r := m.rules[string(m.exact.AppendKey(buf[:0], labels))]; r != nil {
			return r
		}
	}
	return nil
}

// accounts appends the accounts that the labels touch, one for each scope that has a rule for them.
func (rs *ruleset) accounts(list []*account, labels label.Set, scratch *[]byte) []*account {
	for _, s := range rs.scopes {
		key := s.AppendKey((*scratch)[:0], labels)
		*scratch = key
		a := s.accounts[string(key)]
		if a == nil {
			r := s.match(labels, key[len(key):])
			if r == nil {
				continue
			}
			a = s.account(r, key, labels)
		}
		list = append(list, a)
	}
	return list
}

// tidy drops an account that no live allocation touches any more, unless its rule names it exactly.
func (rs *ruleset) tidy(a *account) {
	if a.filings == 0 && !a.rule.fixed {
		delete(a.rule.scope.accounts, a.key)
	}
}

// normalize rounds a request by every rule that matches it.
func (rs *ruleset) normalize(labels label.Set, v resource.Vector) (resource.Vector, error) {
	if !rs.normalizing {
		return v, nil
	}
	for _, s := range rs.scopes {
		r := s.match(labels, nil)
		if r == nil || r.Normalization == nil {
			continue
		}
		rounded, err := r.Normalization.Apply(v)
		if err != nil {
			return v, fmt.Errorf("rule %s: %w", r.Selector, outOfRange("resource", err))
		}
		v = rounded
	}
	return v, nil
}
