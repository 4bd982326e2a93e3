package ledger_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

var selectors = []string{
	"*", "user=*", "user=a", "user=b", "creator=*", "creator=x", "tenant=*", "user=*,creator=*", "user=a,creator=*", "user=*,creator=x",
	"user=a,creator=x", "user=b,creator=*", "user=*,creator=y",
}

func someSelector(t *rapid.T) label.Selector {
	s, err := label.ParseSelector(rapid.SampledFrom(selectors).Draw(t, "selector"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func someQuota(t *rapid.T) ledger.Quota {
	q := ledger.Quota{Selector: someSelector(t), Limit: limit(t)}
	switch rapid.IntRange(0, 9).Draw(t, "more") {
	case 0:
		q.Weight = rapid.Int32Range(1, 3).Draw(t, "weight")
	case 1:
		q.Guaranteed = quantity(t, resource.Vector{}, resource.Memory, 6, 0)
	case 2:
		q.Normalization = &resource.Normalization{
			Minimum: resource.Vector{}.WithMemory(1), Increment: resource.Vector{}.WithMemory(2), Maximum: resource.Vector{}.WithMemory(5),
		}
	default:
	}
	return q
}

func (m *machine) putQuota(t *rapid.T) {
	q := someQuota(t)
	q.Source = ledger.SourceAPI
	rules := slices.DeleteFunc(slices.Clone(m.model.rules), func(r ledger.Quota) bool {
		return r.Selector.Equal(q.Selector) && r.Source == ledger.SourceAPI
	})
	m.changeRules(t, append(rules, q), func(l *ledger.Ledger) error { return l.PutQuota(m.model.now, q) })
}

func (m *machine) deleteQuota(t *rapid.T) {
	s := someSelector(t)
	wantError := "not found"
	rules := slices.DeleteFunc(slices.Clone(m.model.rules), func(r ledger.Quota) bool {
		if !r.Selector.Equal(s) {
			return false
		}
		wantError = ""
		if r.Source != ledger.SourceAPI {
			wantError = "state"
		}
		return wantError == ""
	})
	if wantError == "" {
		m.changeRules(t, rules, func(l *ledger.Ledger) error { return l.DeleteQuota(m.model.now, s) })
		return
	}
	var err error
	m.do(t, nothing, func(l *ledger.Ledger) { err = l.DeleteQuota(m.model.now, s) })
	wantKind(t, wantError, err)
}

// setQuotas replaces the rules of a file.
func (m *machine) setQuotas(t *rapid.T) {
	source := ledger.SourceFilePrefix + rapid.SampledFrom([]string{"1", "2"}).Draw(t, "file")
	rules := slices.DeleteFunc(slices.Clone(m.model.rules), func(r ledger.Quota) bool { return r.Source == source })
	var quotas []ledger.Quota
	for range rapid.IntRange(0, 2).Draw(t, "quotas") {
		q := someQuota(t)
		q.Source = source
		quotas = append(quotas, q)
	}
	if m.changeRules(t, append(rules, quotas...), func(l *ledger.Ledger) error { return l.SetQuotas(m.model.now, source, quotas) }) {
		m.mirror.files[source] = quotas
	}
}

// changeRules puts other rules in force: all, or, where they contradict each other, none.
func (m *machine) changeRules(t *rapid.T, rules []ledger.Quota, change func(l *ledger.Ledger) error) bool {
	wantError := ""
	before := m.model.rules
	if contradict(rules) {
		wantError = "field"
	} else {
		m.model.rules = rules
	}
	var err error
	m.do(t, nothing, func(l *ledger.Ledger) { err = change(l) })
	wantKind(t, wantError, err)
	if err != nil {
		m.model.rules = before
	}
	return err == nil
}

// contradict reports whether a selector occurs twice, a guarantee is above its limit, or some labels would match two rules
// of one scope that are equally specific. It tries all labels.
func contradict(rules []ledger.Quota) bool {
	seen := make(map[string]bool)
	for _, q := range rules {
		text := q.Selector.String()
		guaranteed, limited := q.Limit.Get(resource.Memory)
		if least, _ := q.Guaranteed.Get(resource.Memory); seen[text] || limited && least > guaranteed {
			return true
		}
		seen[text] = true
	}
	for _, user := range []string{"a", "b", "somebody else"} {
		for _, creator := range []string{"x", "y", "something else"} {
			labels := label.Of("user", user, "creator", creator)
			for _, q := range rules {
				if _, ties := rule(rules, q.Selector.Scope(), labels); ties > 0 {
					return true
				}
			}
		}
	}
	return false
}

// TestTheModelsRulesAreThoseOfTheDesign keeps the model honest where it would otherwise only agree with the ledger.
func TestTheModelsRulesAreThoseOfTheDesign(t *testing.T) {
	for text, want := range map[string]bool{
		"*":                                  false,
		"user=*; user=a; user=b":             false,
		"user=a; user=a":                     true,
		"user=a,creator=*; user=*,creator=x": true,
		"user=a,creator=*; user=*,creator=x; user=a,creator=x": false,
		"user=a,creator=*; user=b,creator=x":                   false,
		"user=a,creator=*; user=*; creator=x":                  false,
	} {
		var rules []ledger.Quota
		for one := range strings.SplitSeq(text, "; ") {
			rules = append(rules, ledger.Quota{Selector: selector(t, one)})
		}
		if got := contradict(rules); got != want {
			t.Errorf("%s: contradict: %t; want %t", text, got, want)
		}
		l := ledger.New(ledger.Config{}, newPlainPlacer())
		if err := l.SetQuotas(start, ledger.SourceAPI, rules); (err != nil) != want {
			t.Errorf("%s: %v; want an error: %t", text, err, want)
		}
	}
}
