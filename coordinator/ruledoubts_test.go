package coordinator

import (
	"strings"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

func rule(t *testing.T, selector string) *ledger.Quota {
	t.Helper()
	s, err := label.ParseSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return &ledger.Quota{Selector: s, Limit: resource.Vector{}.WithMemory(1 << 30)}
}

func compiled(t *testing.T, rules label.Rules, known ...string) *label.Preprocessor {
	t.Helper()
	p, err := rules.Compile()
	if err == nil {
		err = p.Restrict(known)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What a rule hardly means is told when it is set.
func TestRulesThatAreHardlyMeantAreTold(t *testing.T) {
	tenants := compiled(t, label.Rules{Derived: []label.Derivation{{Key: "tenant", From: "user", Values: map[string]string{"a": "b"}, Default: "other"}}})
	for _, test := range []struct {
		selector string
		labels   *label.Preprocessor
		want     string // empty: nothing is told
	}{
		{"user=*", nil, ""},
		{"user=*,engineType=*", nil, ""},
		{"creator=IDE,engineType=*", nil, ""},
		{"*", nil, ""},
		{"project=x", nil, ""},
		{"tenant=*", nil, "all requests without the label tenant share one account"},
		{"engineType=*", nil, "all requests without the label engineType share one account"},
		{"tenant=*", tenants, ""},
		{"tenant=*", compiled(t, label.Rules{Required: []string{"tenant"}}), ""},
		{"tenant=*", compiled(t, label.Rules{Defaults: map[string]string{"tenant": "x"}}), ""},
		{"usr=kim", nil, "no label rule knows the key usr: did you mean user?"},
		{"User=kim", nil, "did you mean user?"},
		{"engine_type=spark,user=*", nil, "the key engine_type: did you mean engineType?"},
		{"usr=kim", compiled(t, label.Rules{Required: []string{"usr"}}), ""},
	} {
		got := strings.Join(ruleDoubts(rule(t, test.selector), test.labels), "\n")
		if test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q; want %q", test.selector, got, test.want)
		}
	}
}

// A rule that nobody can fit in, or that no request can match, is refused over the API, and taken
// with a warning if it is forced, or from a file.
func TestRulesThatCanOnlyBeMistakesAreRefused(t *testing.T) {
	above := rule(t, "user=c3")
	above.Normalization = &resource.Normalization{Minimum: resource.Vector{}.WithMemory(2 << 30)}
	stops := rule(t, "user=c4")
	stops.Limit, stops.Normalization = resource.Vector{}.WithMemory(0), above.Normalization
	known := compiled(t, label.Rules{Aliases: []label.Alias{{Key: "team", Keys: []string{"group"}}}}, "project")
	for name, test := range map[string]struct {
		rule   *ledger.Quota
		labels *label.Preprocessor
		want   string
	}{
		"a minimum above the limit": {above, nil, `quota.normalization.minimum.memory: "2GiB": want at most the limit of the rule, 1GiB`},
		"a limit of nothing":        {stops, nil, ""},
		"a key that is not known":   {rule(t, "usr=kim"), known, `quota.selector: "usr=kim": want a label with one of the known keys (knownLabels of the coordinator): cluster, creator, engineType, project, queue, team, tenant, user; did you mean user?`},
		"a key that is listed":      {rule(t, "project=x"), known, ""},
		"a well-known key":          {rule(t, "engineType=x"), known, ""},
		"any key, if none is known": {rule(t, "usr=kim"), nil, ""},
	} {
		err := checkRule(test.rule, "quota.", test.labels, false)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v; want %s", name, err, test.want)
		}
		if err := checkRule(test.rule, "quota.", test.labels, true); err != nil {
			t.Errorf("%s: it is forced, and refused: %v", name, err)
		}
	}
	if got := strings.Join(ruleDoubts(above, nil), ""); !strings.Contains(got, "no request fits") {
		t.Errorf("told is %q", got)
	}
}
