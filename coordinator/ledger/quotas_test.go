package ledger_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// A reader of changes sees those of rules: each has a revision of its own, so that a copy of the
// rules is known to be old.
func TestEachChangeOfARuleHasARevision(t *testing.T) {
	l := ready(t)
	alice := selector(t, "user=alice")
	revision, turn := l.Revision(), l.RulesGeneration()
	step := func(what string, revisions, rules int, err error) {
		t.Helper()
		must(t, err)
		if got := l.Revision() - revision; got != uint64(revisions) {
			t.Errorf("%s: %d revisions; want %d", what, got, revisions)
		}
		if l.RulesGeneration() == turn {
			t.Errorf("%s: the rules pass for the same", what)
		}
		if got := l.Counts().QuotaRules; got != rules {
			t.Errorf("%s: %d rules; want %d", what, got, rules)
		}
		revision, turn = l.Revision(), l.RulesGeneration()
	}
	rule := func(memory int64) ledger.Quota {
		return ledger.Quota{Selector: alice, Limit: resource.Vector{}.WithMemory(memory)}
	}
	step("put", 1, 1, l.PutQuota(start, rule(1)))
	step("changed", 1, 1, l.PutQuota(start, rule(2)))
	_, err := l.ApplyQuotas(start, ledger.QuotaSet{Quotas: []ledger.Quota{rule(3), {Selector: selector(t, "user=*"), Limit: resource.Vector{}.WithMemory(9)}}})
	step("two together", 2, 2, err)
	step("deleted", 1, 1, l.DeleteQuota(start, alice))
}

// A rule has changed if any part of it has.
func TestARuleWithAnotherPartHasChanged(t *testing.T) {
	memory := func(n int64) resource.Vector { return resource.Vector{}.WithMemory(n) }
	rule := func(change func(*ledger.Quota)) ledger.Quota {
		q := ledger.Quota{
			Selector: selector(t, "user=alice"), Limit: memory(100), Guaranteed: memory(10), Weight: 2,
			Normalization: &resource.Normalization{Minimum: memory(1), Increment: memory(2), Maximum: memory(64)},
		}
		change(&q)
		return q
	}
	for name, test := range map[string]struct {
		change  func(*ledger.Quota)
		changed int
	}{
		"nothing":          {func(*ledger.Quota) {}, 0},
		"limit":            {func(q *ledger.Quota) { q.Limit = memory(101) }, 1},
		"guaranteed":       {func(q *ledger.Quota) { q.Guaranteed = memory(11) }, 1},
		"weight":           {func(q *ledger.Quota) { q.Weight = 3 }, 1},
		"no normalization": {func(q *ledger.Quota) { q.Normalization = nil }, 1},
		"minimum":          {func(q *ledger.Quota) { q.Normalization.Minimum = memory(4) }, 1},
		"increment":        {func(q *ledger.Quota) { q.Normalization.Increment = memory(4) }, 1},
		"maximum":          {func(q *ledger.Quota) { q.Normalization.Maximum = memory(32) }, 1},
	} {
		l := ready(t)
		must(t, l.PutQuota(start, rule(func(*ledger.Quota) {})))
		changes, err := l.ApplyQuotas(start, ledger.QuotaSet{Quotas: []ledger.Quota{rule(test.change)}})
		must(t, err)
		if len(changes.Changed) != test.changed || changes.Unchanged != 1-test.changed {
			t.Errorf("%s: %d changed, %d not; want %d changed", name, len(changes.Changed), changes.Unchanged, test.changed)
		}
	}
}

// A rule that ties with several is reported as hidden by the first of them, in any order of a map.
func TestARuleThatTiesWithSeveralIsHiddenByTheFirst(t *testing.T) {
	limit := resource.Vector{}.WithMemory(1)
	for range 20 {
		l := ledger.New(ledger.Config{}, newPlainPlacer())
		var rules []ledger.Quota
		for _, text := range []string{"creator=c,user=*", "creator=a,user=*", "creator=b,user=*", "creator=*,user=alice"} {
			rules = append(rules, ledger.Quota{Selector: selector(t, text), Limit: limit, Source: ledger.SourceAPI})
		}
		must(t, l.Restore(start, ledger.Snapshot{Quotas: rules}))
		hidden := l.HiddenQuotas()
		if len(hidden) != 1 || !hidden[0].Selector.Equal(rules[3].Selector) || !hidden[0].Holder.Equal(rules[1].Selector) {
			t.Fatalf("hidden: %+v; want %s by %s", hidden, rules[3].Selector, rules[1].Selector)
		}
		if n := l.Counts().QuotaRules; n != 3 {
			t.Fatalf("%d rules are in force; want 3", n)
		}
	}
}

// A rule may guarantee everything that it allows, and no more; and its normalization must be
// valid.
func TestARuleThatCannotHoldIsRefused(t *testing.T) {
	memory := func(n int64) resource.Vector { return resource.Vector{}.WithMemory(n) }
	for name, test := range map[string]struct {
		rule  ledger.Quota
		field string // empty: it is taken
	}{
		"all is guaranteed":         {ledger.Quota{Limit: memory(8), Guaranteed: memory(8)}, ""},
		"more than all":             {ledger.Quota{Limit: memory(8), Guaranteed: memory(9)}, "guaranteed.memory"},
		"what is not limited":       {ledger.Quota{Limit: memory(8), Guaranteed: resource.Vector{}.WithCPU(9)}, ""},
		"a minimum and a maximum":   {ledger.Quota{Normalization: &resource.Normalization{Minimum: memory(2), Maximum: memory(2)}}, ""},
		"a minimum above a maximum": {ledger.Quota{Normalization: &resource.Normalization{Minimum: memory(3), Maximum: memory(2)}}, "normalization"},
		"a negative weight":         {ledger.Quota{Weight: -1}, "weight"},
	} {
		err := ready(t).PutQuota(start, test.rule)
		wrong, refused := errors.AsType[*ledger.FieldError](err)
		if (err != nil) != refused || refused != (test.field != "") || refused && !strings.Contains(wrong.Field, ": "+test.field) {
			t.Errorf("%s: %v; want the field %q", name, err, test.field)
		}
	}
}
