package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/btree"

	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// The sources of rules. The store keeps all rules except those from files.
const (
	// SourceAPI is the source of rules that came over the API without naming another.
	SourceAPI = "api"
	// SourceFilePrefix begins the source of rules from a file that the server watches.
	SourceFilePrefix = "file:"
	// SourceImportPrefix begins the source of rules that are kept in step with another system.
	SourceImportPrefix = "import:"
)

// importName is the text after SourceImportPrefix. People look it up and type it.
var importName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func stored(source string) bool { return !strings.HasPrefix(source, SourceFilePrefix) }

func imported(source string) bool { return strings.HasPrefix(source, SourceImportPrefix) }

// apart reports whether rules of one stored source may not take the place of those of the other:
// an import changes only its own rules, and nothing else changes these.
func apart(a, b string) bool {
	return a != b && (imported(a) || imported(b))
}

// filesFirst orders two sources: files come first, because their rules hide stored ones.
func filesFirst(a, b string) int {
	switch {
	case stored(a) == stored(b):
		return 0
	case stored(b):
		return -1
	default:
		return 1
	}
}

// rule is a Quota in its scope.
type rule struct {
	Quota
	scope *scope
	fixed bool // every value is exact: its only account always exists
}

// scope is the rules that are written for one set of label keys, and their accounts. Of the rules
// that match a request the most specific one applies, so each scope gives at most one account, with
// those for external parts that it has.
type scope struct {
	label.Scope
	// masks has the most exact values first. Equals are in any order, because no labels match two.
	masks    []mask
	accounts map[string]*account
	// order has the same accounts, and those for external parts, by key.
	order btree.Map[string, *account]
	// rests says, by the keys of accounts, until when they are not held again: they were held by
	// the rules before these.
	rests map[string]Instant
}

// mask is the rules of a scope that are exact in the same keys.
type mask struct {
	exact label.Scope
	rules map[string]*rule // by the values of those keys
}

// ruleset is all rules: those in force, indexed, and those that are hidden.
type ruleset struct {
	sources     map[string][]Quota // with the hidden ones
	scopes      []*scope           // fewest keys first, then by key
	keys        label.Scope        // all keys of all scopes, and the user
	normalizing bool               // whether any rule rounds requests
	count       int                // in force
	hidden      []HiddenQuota      // by selector
}

// newRuleset checks the rules of all sources together and indexes them. The rules of files come
// first. A rule that conflicts with one in force, or that is wrong by itself, is hidden.
func newRuleset(sources map[string][]Quota) ruleset {
	rs := ruleset{sources: sources}
	keys := []string{userKey}
	for _, rules := range rs.admit() {
		s := &scope{Scope: rules[0].Selector.Scope(), accounts: make(map[string]*account)}
		rs.fill(s, rules)
		rs.scopes = append(rs.scopes, s)
		keys = append(keys, s.Keys()...)
		s.makeFixedAccounts()
	}
	rs.keys = label.NewScope(keys...)
	slices.SortFunc(rs.scopes, func(a, b *scope) int {
		return cmp.Or(cmp.Compare(len(a.Keys()), len(b.Keys())), cmp.Compare(a.Key(), b.Key()))
	})
	slices.SortFunc(rs.hidden, func(a, b HiddenQuota) int {
		return cmp.Or(cmp.Compare(a.Selector.String(), b.Selector.String()), cmp.Compare(a.Source, b.Source))
	})
	return rs
}

// inForce yields the rules in force.
func (rs *ruleset) inForce(yield func(*rule) bool) {
	for _, s := range rs.scopes {
		for _, m := range s.masks {
			for _, r := range m.rules {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// admit returns the rules by the key of their scope: those that are valid by themselves and the
// first ones with their selector.
func (rs *ruleset) admit() map[string][]*rule {
	names := slices.SortedFunc(maps.Keys(rs.sources), func(a, b string) int {
		return cmp.Or(filesFirst(a, b), cmp.Compare(a, b))
	})
	scopes := make(map[string][]*rule)
	taken := make(map[string]*rule)
	for _, source := range names {
		for i, q := range rs.sources[source] {
			q.Source = source
			rs.sources[source][i] = q
			text := q.Selector.String()
			holder := taken[text]
			err := q.check()
			if holder != nil {
				err = holder.taken(q.Selector.Text())
			}
			if err != nil {
				rs.hide(q, holder, err)
				continue
			}
			key := q.Selector.Scope().Key()
			r := &rule{Quota: q, fixed: q.Selector.Exact() == len(q.Selector.Labels())}
			taken[text] = r
			scopes[key] = append(scopes[key], r)
		}
	}
	return scopes
}

// fill adds the rules of a scope, the most specific first, and among equally specific ones those
// of files first. The first one is never hidden.
func (rs *ruleset) fill(s *scope, rules []*rule) {
	ordered := slices.SortedFunc(slices.Values(rules), func(a, b *rule) int {
		return cmp.Or(
			-cmp.Compare(a.Selector.Exact(), b.Selector.Exact()),
			filesFirst(a.Source, b.Source),
			cmp.Compare(exactKeys(a).Key(), exactKeys(b).Key()),
			cmp.Compare(a.Selector.String(), b.Selector.String()),
		)
	})
	for _, r := range ordered {
		if holder := s.tie(r); holder != nil {
			rs.hide(r.Quota, holder, tied(r.Selector, holder.Selector))
			continue
		}
		r.scope = s
		s.add(r)
		rs.normalizing = rs.normalizing || r.Normalization != nil
		rs.count++
	}
}

// ownShare reports whether the rule's accounts have shares of their own.
func (q *Quota) ownShare() bool {
	return q.Weight > 0 || !q.Guaranteed.IsUnset() || len(q.GuaranteedExternal) > 0
}

func (q Quota) check() error {
	for _, part := range []struct {
		name string
		v    resource.Vector
	}{{"limit", q.Limit}, {"guaranteed", q.Guaranteed}} {
		if err := part.v.Validate(); err != nil {
			return outOfRange(q.Selector.Text()+": "+part.name, err)
		}
	}
	if err := q.checkExternal(); err != nil {
		return err
	}
	for dimension, guaranteed := range q.Guaranteed.All() {
		if limit, limited := q.Limit.Get(dimension); limited && guaranteed > limit {
			return &FieldError{q.Selector.Text() + ": guaranteed." + dimension, resource.FormatQuantity(dimension, guaranteed), "at most the limit, " + resource.FormatQuantity(dimension, limit)}
		}
	}
	if q.Weight < 0 {
		return &FieldError{q.Selector.Text() + ": weight", fmt.Sprint(q.Weight), "0 or more"}
	}
	if q.Normalization != nil {
		if err := q.Normalization.Validate(); err != nil {
			return outOfRange(q.Selector.Text()+": normalization", err)
		}
	}
	return nil
}

// exactKeys are the keys in which a rule is exact.
func exactKeys(r *rule) label.Scope {
	var keys []string
	for _, pair := range r.Selector.Labels() {
		if pair.Value != label.Any {
			keys = append(keys, pair.Key)
		}
	}
	return label.NewScope(keys...)
}

// add adds a rule to its mask.
func (s *scope) add(r *rule) {
	exact := exactKeys(r)
	i := slices.IndexFunc(s.masks, func(m mask) bool { return m.exact.Key() == exact.Key() })
	if i < 0 {
		i = len(s.masks)
		s.masks = append(s.masks, mask{exact: exact, rules: make(map[string]*rule)})
	}
	s.masks[i].rules[string(exact.AppendKey(nil, r.Selector.Labels()))] = r
}

// tie returns a rule that is as specific as this one and could match the same request, unless a
// third rule that is more specific than both matches all such requests; nil if there is none. The
// more specific rules were added before.
func (s *scope) tie(r *rule) (first *rule) {
	key := exactKeys(r).Key()
	for _, m := range s.masks {
		if len(m.exact.Keys()) != r.Selector.Exact() || m.exact.Key() == key {
			continue
		}
		for _, other := range m.rules {
			if other.Selector.Overlaps(r.Selector) && !s.resolved(other, r) &&
				(first == nil || other.Selector.String() < first.Selector.String()) {
				first = other
			}
		}
	}
	return first
}

// resolved reports whether every request that matches both rules matches one that is more specific.
func (s *scope) resolved(x, y *rule) bool {
	both := slices.Clone(x.Selector.Labels())
	for i, pair := range y.Selector.Labels() {
		if pair.Value != label.Any {
			both[i] = pair
		}
	}
	// x itself matches, if nothing else
	return s.match(both, nil).Selector.Exact() > x.Selector.Exact()
}

// makeFixedAccounts makes the accounts of the rules whose selectors have no "*".
func (s *scope) makeFixedAccounts() {
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
	a.rests = s.rests[a.key]
	a.setLimit(r.Limit, resource.Vector{})
	s.accounts[a.key] = a
	s.order.Set(a.key, a)
	s.addExternal(a)
	return a
}

// match finds the most specific rule for the labels; nil if none matches.
func (s *scope) match(labels label.Set, buf []byte) *rule {
	for _, m := range s.masks {
		if r := m.rules[string(m.exact.AppendKey(buf[:0], labels))]; r != nil {
			return r
		}
	}
	return nil
}

// accounts appends the accounts that the labels charge, one for each scope that has a rule for
// them.
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

// prune drops an account that no live allocation charges any more, unless its rule names it
// exactly.
func (rs *ruleset) prune(a *account) {
	if a.sets == 0 && !a.rule.fixed {
		delete(a.rule.scope.accounts, a.key)
		a.rule.scope.order.Delete(a.key)
		for _, parts := range a.externals() {
			a.rule.scope.order.Delete(parts.key)
		}
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
			return v, fmt.Errorf("rule %s: %w", r.Selector.Text(), outOfRange("resource", err))
		}
		v = rounded
	}
	return v, nil
}
