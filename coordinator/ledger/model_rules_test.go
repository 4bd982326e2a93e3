package ledger_test

import (
	"cmp"
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
		dimension := rapid.SampledFrom([]string{resource.Memory, "gpu"}).Draw(t, "guaranteed")
		q.Guaranteed = quantity(t, resource.Vector{}, dimension, 6, 0)
	case 2, 3:
		q.GuaranteedExternal = resource.NewLimits(externalLimit(t))
	case 4:
		q.Normalization = &resource.Normalization{
			Minimum: resource.Vector{}.WithMemory(1), Increment: resource.Vector{}.WithMemory(2), Maximum: resource.Vector{}.WithMemory(5),
		}
	default:
	}
	for range max(0, rapid.IntRange(-3, 2).Draw(t, "limits of external parts")) {
		q.External = resource.NewLimits(append(q.External, externalLimit(t))...)
	}
	q.External = slices.CompactFunc(q.External, func(a, b resource.External) bool { return a.Address == b.Address })
	return q
}

// externalLimit draws a limit of the parts in some queues.
func externalLimit(t *rapid.T) resource.External {
	at := resource.Address{
		Kind:    "yarn",
		Cluster: rapid.SampledFrom([]string{"*", "*", "p", "q"}).Draw(t, "limit of cluster"),
		Path:    rapid.SampledFrom(append([]string{"*", "*"}, queuePaths...)).Draw(t, "limit of path"),
	}
	return resource.External{Address: at, Vector: limit(t).WithMemory(rapid.Int64Range(0, 10).Draw(t, "limit in queues"))}
}

func (m *machine) putQuota(t *rapid.T) {
	q := someQuota(t)
	q.Source = ledger.SourceAPI
	rules := slices.DeleteFunc(slices.Clone(m.model.all), func(r ledger.Quota) bool {
		return r.Selector.Equal(q.Selector) && r.Source == ledger.SourceAPI
	})
	force := rapid.IntRange(0, 3).Draw(t, "force") == 0
	refused := m.hidesMore(append(rules, q), q.Selector.String()) || !force && m.undeclared(q)
	m.changeRules(t, append(rules, q), refused, func(l *ledger.Ledger) error {
		_, err := l.ApplyQuotas(m.model.now, ledger.QuotaSet{Quotas: []ledger.Quota{q}, Force: force})
		return err
	})
}

// undeclared reports whether a rule is for gpus, and the stored one with its selector is not, and
// no host and no queue has any.
func (m *machine) undeclared(q ledger.Quota) bool {
	abroad := func(r ledger.Quota) []resource.External { return slices.Concat(r.External, r.GuaranteedExternal) }
	if slices.ContainsFunc(abroad(q), func(e resource.External) bool { return m.undeclaredPlace(q.Selector, e.Address) }) {
		return true
	}
	isForGPUs := func(r ledger.Quota) bool {
		return r.Limit.Has("gpu") || r.Guaranteed.Has("gpu") || slices.ContainsFunc(abroad(r), func(e resource.External) bool { return e.Has("gpu") })
	}
	if !isForGPUs(q) || slices.ContainsFunc(m.model.all, func(r ledger.Quota) bool {
		return r.Source == ledger.SourceAPI && r.Selector.Equal(q.Selector) && isForGPUs(r)
	}) {
		return false
	}
	for _, h := range m.model.hosts {
		if h.capacity.Has("gpu") {
			return false
		}
	}
	for _, c := range m.model.clusters {
		for _, queue := range c.queues {
			if queue.Limit.Has("gpu") {
				return false
			}
		}
	}
	return true
}

// undeclaredPlace reports whether no cluster has queues at the address of a limit, and the stored
// rule with the selector has no such limit.
func (m *machine) undeclaredPlace(selector label.Selector, at resource.Address) bool {
	for _, c := range m.model.clusters {
		if !c.configured || c.name.Kind != at.Kind || at.Cluster != "*" && at.Cluster != c.name.Cluster {
			continue
		}
		if at.Path == "*" || !m.model.knows(c) {
			return false
		}
		for queue := range c.queues {
			if queue.Path == at.Path {
				return false
			}
		}
		queue := resource.Address{Kind: at.Kind, Cluster: c.name.Cluster, Path: at.Path}
		queue.Partition = c.defaultPartition(queue)
		if c.makes(queue) {
			return false
		}
	}
	return !slices.ContainsFunc(m.model.all, func(r ledger.Quota) bool {
		return r.Source == ledger.SourceAPI && r.Selector.Equal(selector) &&
			slices.ContainsFunc(slices.Concat(r.External, r.GuaranteedExternal), func(e resource.External) bool { return e.Address == at })
	})
}

func (m *machine) deleteQuota(t *rapid.T) {
	s := someSelector(t)
	wantError := "not found"
	rules := slices.DeleteFunc(slices.Clone(m.model.all), func(r ledger.Quota) bool {
		stored := r.Source == ledger.SourceAPI
		switch {
		case !r.Selector.Equal(s):
			return false
		case stored:
			wantError = ""
		case wantError == "not found":
			wantError = "state"
		}
		return stored
	})
	if wantError == "" {
		m.changeRules(t, rules, m.hidesMore(rules, ""), func(l *ledger.Ledger) error { return l.DeleteQuota(m.model.now, s) })
		return
	}
	var err error
	m.do(t, nothing, func(l *ledger.Ledger) { err = l.DeleteQuota(m.model.now, s) })
	wantKind(t, wantError, err)
}

// hidesMore reports whether with these rules a stored one is hidden that is in force now, or the
// one that is put.
func (m *machine) hidesMore(rules []ledger.Quota, put string) bool {
	_, before := inForce(m.model.all)
	_, after := inForce(rules)
	return slices.ContainsFunc(after, func(text string) bool { return text == put || !slices.Contains(before, text) })
}

// setQuotas replaces the rules of a file.
func (m *machine) setQuotas(t *rapid.T) {
	source := ledger.SourceFilePrefix + rapid.SampledFrom([]string{"1", "2"}).Draw(t, "file")
	rules := slices.DeleteFunc(slices.Clone(m.model.all), func(r ledger.Quota) bool { return r.Source == source })
	var quotas []ledger.Quota
	for range rapid.IntRange(0, 2).Draw(t, "quotas") {
		q := someQuota(t)
		q.Source = source
		quotas = append(quotas, q)
	}
	if m.changeRules(t, append(rules, quotas...), false, func(l *ledger.Ledger) error { return l.SetQuotas(m.model.now, source, quotas) }) {
		m.mirror.files[source] = quotas
	}
}

// changeRules puts other rules in force: all, or none if those of files contradict each other or
// the change is to be refused.
func (m *machine) changeRules(t *rapid.T, rules []ledger.Quota, refused bool, change func(l *ledger.Ledger) error) bool {
	wantError := ""
	before, beforeAll := m.model.rules, m.model.all
	holding, hidden := inForce(rules)
	files := slices.DeleteFunc(slices.Clone(rules), func(q ledger.Quota) bool { return q.Source == ledger.SourceAPI })
	if refused || contradict(files) {
		wantError = "field"
	} else {
		m.model.rules, m.model.all = holding, rules
	}
	var err error
	m.do(t, nothing, func(l *ledger.Ledger) {
		if err = change(l); err == nil {
			var got []string
			for _, h := range l.HiddenQuotas() {
				got = append(got, h.Selector.String())
			}
			if !slices.Equal(got, hidden) {
				t.Errorf("hidden: %q; want %q", got, hidden)
			}
		}
	})
	wantKind(t, wantError, err)
	if err != nil {
		m.model.rules, m.model.all = before, beforeAll
	}
	return err == nil
}

// inForce leaves out the stored rules that others hide: it takes them one by one, the most
// specific first, behind those of files that are as specific, and keeps each that contradicts
// nothing. What files contradict among themselves stays in.
func inForce(rules []ledger.Quota) (holding []ledger.Quota, hidden []string) {
	file := func(q ledger.Quota) bool { return q.Source != ledger.SourceAPI }
	byFiles := make(map[string]bool)
	for _, q := range rules {
		if file(q) {
			byFiles[q.Selector.String()] = true
		}
	}
	for exact := 2; exact >= 0; exact-- {
		var stored []ledger.Quota
		for _, q := range rules {
			switch {
			case q.Selector.Exact() != exact:
			case file(q):
				holding = append(holding, q)
			default:
				stored = append(stored, q)
			}
		}
		slices.SortFunc(stored, func(a, b ledger.Quota) int {
			return cmp.Or(strings.Compare(exactKeys(a), exactKeys(b)), strings.Compare(a.Selector.String(), b.Selector.String()))
		})
		for _, q := range stored {
			if byFiles[q.Selector.String()] || contradict(append(slices.Clone(holding), q)) {
				hidden = append(hidden, q.Selector.String())
				continue
			}
			holding = append(holding, q)
		}
	}
	slices.Sort(hidden)
	return holding, hidden
}

func exactKeys(q ledger.Quota) (keys string) {
	for _, pair := range q.Selector.Labels() {
		if pair.Value != label.Any {
			keys += pair.Key + " "
		}
	}
	return keys
}

// contradict reports whether a selector occurs twice, a guarantee is above its limit, or some
// labels would match two rules of one scope that are equally specific. It tries all labels.
func contradict(rules []ledger.Quota) bool {
	seen := make(map[string]bool)
	for _, q := range rules {
		text := q.Selector.String()
		if seen[text] {
			return true
		}
		for dimension, least := range q.Guaranteed.All() {
			if most, limited := q.Limit.Get(dimension); limited && least > most {
				return true
			}
		}
		if guaranteesTooMuch(q) {
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

// guaranteesTooMuch reports whether a rule guarantees more in queues than it allows in all of
// these.
func guaranteesTooMuch(q ledger.Quota) bool {
	for _, g := range q.GuaranteedExternal {
		for _, limit := range q.External {
			inside := limit.Cluster == "*" || limit.Cluster == g.Cluster
			for dimension, least := range g.All() {
				most, limited := limit.Get(dimension)
				if limited && least > most && inside && (limit.Path == "*" || strings.HasPrefix(g.Path+".", limit.Path+".")) {
					return true
				}
			}
		}
	}
	return false
}

// TestTheModelHidesStoredRules does the same: here the hidden rules are named one by one.
func TestTheModelHidesStoredRules(t *testing.T) {
	for text, want := range map[string][]string{
		"user=a; file user=a":                                                        {"user=a"},
		"user=b; file user=a":                                                        nil,
		"user=a,creator=*; file user=*,creator=x":                                    {"creator=*,user=a"},
		"user=a,creator=*; user=*,creator=x; file user=a,creator=*":                  {"creator=*,user=a", "creator=x,user=*"},
		"user=a,creator=*; user=*,creator=x":                                         {"creator=*,user=a"},
		"user=a,creator=*; file user=*,creator=x; user=a,creator=x":                  nil,
		"file user=a,creator=*; user=*,creator=x; file user=a,creator=x; user=a":     nil,
		"user=a,creator=*; file user=*,creator=x; user=a,creator=x; file user=*":     nil,
		"user=a; user=b; file user=*; file user=b; creator=x; file user=*,creator=*": {"user=b"},
	} {
		var rules []ledger.Quota
		for one := range strings.SplitSeq(text, "; ") {
			one, file := strings.CutPrefix(one, "file ")
			q := ledger.Quota{Selector: selector(t, one), Source: ledger.SourceAPI}
			if file {
				q.Source = ledger.SourceFilePrefix + "1"
			}
			rules = append(rules, q)
		}
		if _, hidden := inForce(rules); !slices.Equal(hidden, want) {
			t.Errorf("%s: hidden: %q; want %q", text, hidden, want)
		}
		l := ledger.New(ledger.Config{}, newPlainPlacer())
		if err := l.Restore(start, ledger.Snapshot{Quotas: rules}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		var hidden []string
		for _, h := range l.HiddenQuotas() {
			hidden = append(hidden, h.Selector.String())
		}
		if !slices.Equal(hidden, want) {
			t.Errorf("%s: the ledger hides %q; want %q", text, hidden, want)
		}
	}
}

// TestTheModelsRulesAreThoseOfTheDesign tests the model itself, which otherwise would only have to
// agree with the ledger.
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
