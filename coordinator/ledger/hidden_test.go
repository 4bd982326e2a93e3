package ledger_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// A stored rule that is wrong by itself is not in force, and says why.
func TestARuleThatIsWrongByItselfIsHiddenWithWhatIsWrong(t *testing.T) {
	l := ledger.New(ledger.Config{}, newPlainPlacer())
	must(t, l.Restore(start, ledger.Snapshot{Quotas: []ledger.Quota{{Selector: selector(t, "user=alice"), Weight: -1, Source: ledger.SourceAPI}}}))
	want := `[quota user=alice of api is not in force: it is wrong: user=alice: weight: "-1": want 0 or more]`
	var got []string
	for _, h := range l.HiddenQuotas() {
		got = append(got, h.String())
	}
	if fmt.Sprint(got) != want {
		t.Errorf("hidden are %s; want %s", got, want)
	}
}

// Rules of files are checked together, and stored ones do not matter.
func TestRulesOfFilesMustNotBeInTheWayOfOneAnother(t *testing.T) {
	const a, b = "file:a", "file:b"
	rule := func(source, text string) ledger.Quota {
		return ledger.Quota{Source: source, Selector: selector(t, text), Limit: resource.Vector{}.WithMemory(1)}
	}
	wrong := rule(a, "user=alice")
	wrong.Weight = -1
	for name, test := range map[string]struct {
		rules []ledger.Quota
		field string // empty: they are taken
	}{
		"none":                          {nil, ""},
		"of two files":                  {[]ledger.Quota{rule(a, "user=alice"), rule(b, "user=bob")}, ""},
		"one that is wrong":             {[]ledger.Quota{rule(b, "user=bob"), wrong}, "user=alice: weight"},
		"one selector in two files":     {[]ledger.Quota{rule(a, "user=alice"), rule(b, "user=alice")}, "selector"},
		"a tie of two files":            {[]ledger.Quota{rule(a, "creator=IDE,user=*"), rule(b, "creator=*,user=alice")}, "selector"},
		"a selector of a stored one":    {[]ledger.Quota{rule(a, "user=alice"), rule(ledger.SourceAPI, "user=alice")}, ""},
		"a tie with a stored one":       {[]ledger.Quota{rule(a, "creator=IDE,user=*"), rule(ledger.SourceAPI, "creator=*,user=alice")}, ""},
		"a tie that a third one solves": {[]ledger.Quota{rule(a, "creator=IDE,user=*"), rule(b, "creator=*,user=alice"), rule(b, "creator=IDE,user=alice")}, ""},
	} {
		err := ledger.CheckQuotas(test.rules)
		wrong, refused := errors.AsType[*ledger.FieldError](err)
		if (err != nil) != refused || refused != (test.field != "") || refused && wrong.Field != test.field {
			t.Errorf("%s: %v; want the field %q", name, err, test.field)
		}
	}
}
