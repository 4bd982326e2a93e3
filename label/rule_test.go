package label

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestRulesHoldAsKubernetesDoes(t *testing.T) {
	host := Of("zone", "a", "cores", "16", "gpu", "", "disk", "ssd, fast", "note", "x=y", "pad", "y ", "most", "9223372036854775807")
	for text, want := range map[string]bool{
		"zone=a": true, "zone==a": true, "zone = a": true, "zone=b": false, "rack=a": false,
		"zone!=a": false, "zone != b": true, "rack!=a": true,
		"zone in (a, b)": true, "zone in(a)": true, "zone in (b,c)": false, "rack in (a)": false,
		"zone notin (a, b)": false, "zone notin (b)": true, "rack notin (a)": true, "zone not in (b)": true,
		"zone": true, "gpu": true, "rack": false, "!zone": false, "!rack": true, "! rack": true,
		"cores>8": true, "cores > 16": false, "cores<17": true, "cores < 16": false, "zone>1": false, "rack<1": false, "cores>-1": true,
		`disk="ssd, fast"`: true, `disk in ("ssd, fast", hdd)`: true, `note="x=y"`: true, "gpu=": true, `gpu!=""`: false, `zone!=""`: true, `gpu in ("")`: true,
		"zone in (a , b )": true, `pad in ("y ", z)`: true, "pad in (y )": false, "zone<1": false, "gpu<1": false,
		"most>9223372036854775806": true, "most<9223372036854775807": false, "most>-9223372036854775808": true,
		"notin": false, "zone  in  (a)": true,
	} {
		rule, err := ParseRule(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := rule.Holds(host); got != want {
			t.Errorf("%s holds: %v, want %v", text, got, want)
		}
		again, err := ParseRule(rule.String())
		if err != nil || again.String() != rule.String() || again.Holds(host) != want {
			t.Errorf("%s is written as %s: %v, %v", text, rule, again, err)
		}
	}
}

func TestWhatIsNoRuleIsRefusedWithTheRightForm(t *testing.T) {
	for _, text := range []string{
		"", " ", "=a", "!", "!!a", "zone in", "zone in a", "zone in (", "zone in ()", "zone in (a", "zone in (a,)", "zone in (a) b", "zone in (,a)",
		"zone notin", "zone within (a)", "cores>", "cores>=8", "cores > many", "cores>1.5", "zone<>a", "zone!", "zone a", "1zone", "zo ne=a",
		"zone=a=b", "zone=(a)", `zone="a`, "zone\x00=a", "zone=a\nb", "cores>99999999999999999999", "zone != ", "zone in (a),", "zone in ((a))",
	} {
		rules, err := ParseRules(text)
		if wrong, ok := errors.AsType[*FieldError](err); !ok || wrong.Want == "" {
			t.Errorf("%q: %v, %v", text, rules, err)
		}
	}
	most := "zone in (" + strings.Repeat("a,", MaxRuleValues-1) + "a"
	if _, err := ParseRule(most + ")"); err != nil {
		t.Error(err)
	}
	if _, err := ParseRule(most + ",a)"); err == nil || !strings.Contains(err.Error(), "want at most 64 values, not 65") {
		t.Errorf("a rule with too many values: %v", err)
	}
}

func TestRulesAreSplitOutsideOfBracketsAndQuotes(t *testing.T) {
	rules, err := ParseRules(`zone in (a, b),!old, cores > 8,disk="x,(y"`)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, rule := range rules {
		texts = append(texts, rule.String())
	}
	if want := []string{"zone in (a,b)", "!old", "cores>8", `disk="x,(y"`}; !slices.Equal(texts, want) {
		t.Errorf("%q, want %q", texts, want)
	}
}

func TestRulesAreComparedAndCounted(t *testing.T) {
	rule := func(text string) Rule {
		r, err := ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if got := rule("zone in (b, a, b)").String(); got != "zone in (a,b)" {
		t.Errorf("values are written as %s", got)
	}
	if !rule("zone in (b, a)").Equal(rule("zone in (a,b,b)")) || rule("zone=a").Equal(rule("zone!=a")) || rule("zone").Equal(rule("gpu")) {
		t.Error("rules are equal that differ, or the reverse")
	}
	if n := CountValues(rule("zone in (a,b)"), rule("rack!=1"), rule("gpu")); n != 3 {
		t.Errorf("%d values, want 3", n)
	}
	if n := CountValues(); n != 0 {
		t.Errorf("%d values of no rule", n)
	}
	if key, value, ok := rule("zone=a").Single(); key != "zone" || value != "a" || !ok {
		t.Errorf("zone=a wants %q, %q, %v", key, value, ok)
	}
	for _, text := range []string{"zone in (a,b)", "zone!=a", "zone", "cores>1"} {
		if key, value, ok := rule(text).Single(); key != "" || value != "" || ok {
			t.Errorf("%s wants one value: %q, %q", text, key, value)
		}
	}
	if !(Rule{}).Holds(Of("zone", "a")) || !(Rule{}).Holds(nil) {
		t.Error("the zero rule does not hold")
	}
	rules, err := ParseRules(`disk="x,y",zone=b,gpu`)
	if err != nil || len(rules) != 3 || rules[0].String() != `disk="x,y"` || rules[1].String() != "zone=b" || rules[2].String() != "gpu" {
		t.Errorf("%v, %v", rules, err)
	}
}

// Any accepted text is formatted so that it is parsed as equal.
func TestARuleIsReadAsItIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[ -~äöü]{0,12}`)
		rule := Rule{key: rapid.StringMatching(`[a-z][a-z0-9_./-]{0,5}`).Draw(t, "key"), operator: in, values: rapid.SliceOfN(value, 1, 3).Draw(t, "values")}
		if rapid.Bool().Draw(t, "not") {
			rule.operator = notIn
		}
		rule, err := rule.checked("")
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseRule(rule.String())
		if err != nil || again.String() != rule.String() || !slices.Equal(again.values, rule.values) || again.operator != rule.operator {
			t.Fatalf("%q is read as %q: %v", rule.String(), again.String(), err)
		}
	})
}

// A placer keeps what hosts have of a rule's values, and looks at each value of a number.
func TestARuleSaysWhichValuesItNames(t *testing.T) {
	for text, want := range map[string]struct {
		values  []string
		numeric bool
	}{
		"zone in (b,a)":    {values: []string{"a", "b"}},
		"zone notin (c,a)": {values: []string{"a", "c"}},
		"zone":             {},
		"!zone":            {},
		"cores>8":          {numeric: true},
		"cores<16":         {numeric: true},
	} {
		rule, err := ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(rule.Values(), want.values) || rule.Numeric() != want.numeric {
			t.Errorf("%s: values %q, numeric %v; want %q, %v", text, rule.Values(), rule.Numeric(), want.values, want.numeric)
		}
	}
}
