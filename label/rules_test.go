package label

import (
	"errors"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// company is a configuration with one rule of each kind.
const company = `
aliases:
  - key: engineType
    keys: [engine_type, engine]
    values: {spark3: spark-3.3, spark: spark-2.4}
  - key: user
    keys: [proxyUser]
defaults:
  creator: shell
  engineType: spark
derived:
  - key: tenant
    from: user
    values: {alice: research}
    patterns:
      - prefix: etl_
        value: batch
      - match: '(?P<team>[a-z]+)\.[a-z]+'
        value: team-${team}
      - match: '(x)(y)?z*'
        value: $$${1}${2}
    default: others
  - key: account
    template: ${tenant}/${user}
  - key: batch
    from: tenant
    values: {batch: "yes"}
  - key: site
    default: berlin
required: [user, tenant]
`

func companyRules(tb testing.TB) Rules {
	tb.Helper()
	var r Rules
	if err := yaml.UnmarshalWithOptions([]byte(company), &r, yaml.Strict()); err != nil {
		tb.Fatal(err)
	}
	return r
}

func TestALabelDerivedFromOneThatIsMissingIsItsDefault(t *testing.T) {
	rules := Rules{Derived: []Derivation{{Key: "tenant", From: "team", Values: map[string]string{"x": "y"}, Default: "others"}}}
	p := must(t, Rules.Compile, rules)
	for _, test := range []struct{ team, want string }{{"", "others"}, {"z", "others"}, {"x", "y"}} {
		set := Of("user", "alice")
		if test.team != "" {
			set = set.With("team", test.team)
		}
		if got := must(t, p.Apply, set).Value("tenant"); got != test.want {
			t.Errorf("from team %q comes tenant %q; want %q", test.team, got, test.want)
		}
	}
}

func TestRules(t *testing.T) {
	p := must(t, Rules.Compile, companyRules(t))
	const rest = ",site=berlin"
	for _, test := range []struct{ name, in, out string }{
		{
			"defaults fill in, and go through the aliases too", "user=alice",
			"account=research/alice,creator=shell,engineType=spark-2.4" + rest + ",tenant=research,user=alice",
		},
		{
			"aliases of keys and values", "proxyUser=alice,engine=spark3,creator=IDE",
			"account=research/alice,creator=IDE,engineType=spark-3.3" + rest + ",tenant=research,user=alice",
		},
		{
			"aliases that agree", "user=alice,proxyUser=alice,engine=spark3,engine_type=spark-3.3",
			"account=research/alice,creator=shell,engineType=spark-3.3" + rest + ",tenant=research,user=alice",
		},
		{
			"an empty label is a missing one", "user=alice,creator=,engine_type=,tenant=,note=",
			"account=research/alice,creator=shell,engineType=spark-2.4" + rest + ",tenant=research,user=alice",
		},
		{
			"labels that no rule knows pass", "user=alice,engineType=hive,zone=a",
			"account=research/alice,creator=shell,engineType=hive" + rest + ",tenant=research,user=alice,zone=a",
		},
		{
			"by prefix, and a derivation from a derived label", "user=etl_7,engineType=hive",
			"account=batch/etl_7,batch=yes,creator=shell,engineType=hive" + rest + ",tenant=batch,user=etl_7",
		},
		{
			"by a named group", "user=ops.bob,engineType=hive",
			"account=team-ops/ops.bob,creator=shell,engineType=hive" + rest + ",tenant=team-ops,user=ops.bob",
		},
		{
			"by numbered groups, and a dollar sign", "user=xyz,engineType=hive",
			"account=$xy/xyz,creator=shell,engineType=hive" + rest + ",tenant=$xy,user=xyz",
		},
		{
			"a group that captured nothing gives nothing", "user=xz,engineType=hive",
			"account=others/xz,creator=shell,engineType=hive" + rest + ",tenant=others,user=xz",
		},
		{
			"a pattern is for the whole value", "user=an-ops.bob,engineType=hive",
			"account=others/an-ops.bob,creator=shell,engineType=hive" + rest + ",tenant=others,user=an-ops.bob",
		},
		{
			"a derived label with the same value may be brought", "user=alice,tenant=research,site=berlin,engineType=hive",
			"account=research/alice,creator=shell,engineType=hive" + rest + ",tenant=research,user=alice",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := must(t, Parse, test.in)
			kept := in.Map()
			out := must(t, p.Apply, in)
			if out.String() != test.out {
				t.Errorf("(-want +got):\n%s", cmp.Diff(strings.Split(test.out, ","), strings.Split(out.String(), ",")))
			}
			if again := must(t, p.Apply, out); !again.Equal(out) {
				t.Errorf("applied again: %v", again)
			}
			if diff := cmp.Diff(kept, in.Map()); diff != "" {
				t.Errorf("the request's labels were changed:\n%s", diff)
			}
		})
	}
}

func TestWhatIsDerivedCannotBeClaimed(t *testing.T) {
	p := must(t, Rules.Compile, companyRules(t))
	for text, want := range map[string]ClaimError{
		"user=alice,tenant=batch":           {"tenant", "batch", "research"},
		"user=alice,account=batch/alice":    {"account", "batch/alice", "research/alice"},
		"user=alice,site=paris":             {"site", "paris", "berlin"},
		"user=alice,batch=yes":              {"batch", "yes", ""}, // the rules give it none
		"user=alice,tenant=research,site=x": {"site", "x", "berlin"},
	} {
		_, err := p.Apply(must(t, Parse, text))
		var claim *ClaimError
		if !errors.As(err, &claim) || *claim != want {
			t.Errorf("%s: %v, want %v", text, err, &want)
		}
		if err != nil && (!strings.Contains(err.Error(), want.Key) || !strings.Contains(err.Error(), want.Claimed) || !strings.Contains(err.Error(), want.Derived)) {
			t.Errorf("%s: %q does not say what was claimed and what it is", text, err)
		}
	}
}

func TestApplyRefuses(t *testing.T) {
	p := must(t, Rules.Compile, companyRules(t))
	wild := must(t, Rules.Compile, Rules{Derived: []Derivation{
		{Key: "tenant", From: "user", Patterns: []Pattern{{Match: `a(.*)`, Value: "${1}"}}},
		{Key: "both", Template: "${user}${zone}"},
	}})
	required := must(t, Rules.Compile, Rules{Required: []string{"who"}, Defaults: map[string]string{"user": "nobody"}})
	for _, test := range []struct {
		name, in string
		*Preprocessor
		field string
	}{
		{"a required label that is missing", "creator=IDE", p, "labels[user]"},
		{"a required label that is empty", "creator=IDE,user=alice,who=", required, "labels[who]"},
		{"an empty user", "user=", nil, "labels[user]"},
		{"an empty user, even with a default", "user=", required, "labels[user]"},
		{"an empty user under another name", "proxyUser=", p, "labels[proxyUser]"},
		{"a key and its alias that differ", "user=alice,proxyUser=bob", p, "labels[user]"},
		{"two aliases that differ", "engine=hive,engine_type=spark,user=alice", p, "labels[engine_type]"},
		{"the value that stands for all", "user=*", p, "labels[user]"},
		{"the value that stands for all, without rules", "user=*", nil, "labels[user]"},
		{"the value that stands for all, captured", "user=a*", wild, "labels[tenant]"},
		{"a derived value that is too long", "user=" + strings.Repeat("b", 200) + ",zone=" + strings.Repeat("c", 200), wild, "labels[both]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			set, err := test.Apply(must(t, Parse, test.in))
			checkField(t, err, test.field)
			if set != nil {
				t.Errorf("set is %v", set)
			}
		})
	}
}

// A request without a user is for the only user as whom its caller may act. Labels, defaults and
// derivations go first, and derivations from the user use that one.
func TestTheCallersOnlyUserFillsIn(t *testing.T) {
	p := must(t, Rules.Compile, companyRules(t))
	aliased := must(t, Rules.Compile, Rules{Aliases: []Alias{{Key: "user", Values: map[string]string{"alice": "a.smith"}}}})
	byDefault := must(t, Rules.Compile, Rules{Defaults: map[string]string{"user": "guest"}})
	derived := must(t, Rules.Compile, Rules{Derived: []Derivation{{Key: "user", From: "account", Values: map[string]string{"x": "bob"}}}})
	for _, test := range []struct {
		name string
		*Preprocessor
		in, out string
	}{
		{"without rules", nil, "creator=IDE", "creator=IDE,user=alice"},
		{"before derivations and required keys", p, "engineType=hive", "account=research/alice,creator=shell,engineType=hive,site=berlin,tenant=research,user=alice"},
		{"but for a label", p, "proxyUser=etl_7,engineType=hive", "account=batch/etl_7,batch=yes,creator=shell,engineType=hive,site=berlin,tenant=batch,user=etl_7"},
		{"through its aliases", aliased, "", "user=a.smith"},
		{"but for a default", byDefault, "", "user=guest"},
		{"but for a derivation", derived, "account=x", "account=x,user=bob"},
		{"but for a derivation that gives nothing", derived, "account=y", "account=y"},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, err := test.ApplyFor(must(t, Parse, test.in), "alice")
			if err != nil || out.String() != test.out {
				t.Errorf("%s, %v; want %s", out, err, test.out)
			}
		})
	}
}

// If another user is charged for a caller, labels are derived from the charged user. No rule lets
// the caller avoid that, or use the name of a third user.
func TestTheLabelUserIsTheOneWhoIsCharged(t *testing.T) {
	derive := func(d ...Derivation) *Preprocessor {
		return must(t, Rules.Compile, Rules{Aliases: []Alias{{Key: "user", Keys: []string{"who"}}}, Derived: d})
	}
	tenant := derive(Derivation{Key: "tenant", From: "user", Values: map[string]string{"alice": "research"}, Default: "none"})
	user := derive(Derivation{Key: "user", From: "account", Values: map[string]string{"own": "100007", "bobs": "bob"}})
	byDefault := must(t, Rules.Compile, Rules{Defaults: map[string]string{"user": "guest"}})
	for _, test := range []struct {
		name string
		*Preprocessor
		in, out string
		acts    bool
	}{
		{"without rules", nil, "creator=IDE", "creator=IDE,user=alice", true},
		{"named", nil, "user=100007", "user=alice", true},
		{"under an alias", tenant, "who=100007", "tenant=research,user=alice", true},
		{"derivations see the owner", tenant, "", "tenant=research,user=alice", true},
		{"the owner's name", nil, "user=alice", "user=alice", false},
		{"a third's name", nil, "user=bob", "user=bob", false},
		{"a default", byDefault, "", "user=guest", false},
		{"derived to be itself", user, "account=own", "account=own,user=alice", true},
		{"derived to be itself, and named", user, "account=own,user=100007", "account=own,user=alice", true},
		{"derived to be a third", user, "account=bobs", "account=bobs,user=bob", false},
		{"nothing is derived", user, "", "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, acts, err := test.ApplyCharged(must(t, Parse, test.in), "100007", "alice")
			if err != nil || out.String() != test.out || acts != test.acts {
				t.Errorf("%s, %t, %v; want %s, %t", out, acts, err, test.out, test.acts)
			}
		})
	}
	if out, acts, err := (*Preprocessor)(nil).ApplyCharged(nil, "100007", ""); err != nil || acts || out.String() != "user=100007" {
		t.Errorf("if nobody else is charged: %s, %t, %v", out, acts, err)
	}
}

func TestCompileNamesTheRuleThatIsWrong(t *testing.T) {
	alias := Alias{Key: "user", Keys: []string{"who"}}
	derive := func(d ...Derivation) Rules { return Rules{Aliases: []Alias{alias}, Derived: d} }
	for _, test := range []struct {
		name, field string
		Rules
	}{
		{"nothing", "", Rules{}},
		{"an alias for a malformed key", "aliases[0].key", Rules{Aliases: []Alias{{Key: "u ser"}}}},
		{"a malformed alias", "aliases[0].keys", Rules{Aliases: []Alias{{Key: "user", Keys: []string{""}}}}},
		{"an alias twice", "aliases[1].keys", Rules{Aliases: []Alias{alias, {Key: "owner", Keys: []string{"who"}}}}},
		{"aliases for a key twice", "aliases[1].key", Rules{Aliases: []Alias{alias, alias}}},
		{"an alias of an alias", "aliases[1].key", Rules{Aliases: []Alias{alias, {Key: "who"}}}},
		{"a key that is its own alias", "aliases[0].key", Rules{Aliases: []Alias{{Key: "user", Keys: []string{"user"}}}}},
		{"a value converted twice", "aliases[0].values[a]", Rules{Aliases: []Alias{{Key: "k", Values: map[string]string{"a": "b", "b": "c"}}}}},
		{"a value converted to nothing", "aliases[0].values[a]", Rules{Aliases: []Alias{{Key: "k", Values: map[string]string{"a": ""}}}}},
		{"a default for a malformed key", "defaults[1]", Rules{Defaults: map[string]string{"1": "x"}}},
		{"a default for an alias", "defaults[who]", Rules{Aliases: []Alias{alias}, Defaults: map[string]string{"who": "x"}}},
		{"an empty default", "defaults[user]", Rules{Defaults: map[string]string{"user": ""}}},
		{"a default for everything", "defaults[user]", Rules{Defaults: map[string]string{"user": "*"}}},
		{"a malformed default", "defaults[user]", Rules{Defaults: map[string]string{"user": "a\n"}}},
		{"a required alias", "required[1]", Rules{Aliases: []Alias{alias}, Required: []string{"user", "who"}}},
		{"a malformed required key", "required[0]", Rules{Required: []string{""}}},
		{"a derived alias", "derived[0].key", derive(Derivation{Key: "who", Default: "x"})},
		{"a key derived twice", "derived[1].key", derive(Derivation{Key: "a", Default: "x"}, Derivation{Key: "a", Default: "x"})},
		{"a derived key with a default elsewhere", "derived[0].key", Rules{Defaults: map[string]string{"a": "x"}, Derived: []Derivation{{Key: "a", Default: "x"}}}},
		{"a derivation from an alias", "derived[0]", derive(Derivation{Key: "a", Template: "${who}"})},
		{"a derivation from itself", "derived[0]", derive(Derivation{Key: "a", Template: "${a}"})},
		{"a derivation from a later one", "derived[0]", derive(Derivation{Key: "a", From: "b", Values: map[string]string{"x": "y"}}, Derivation{Key: "b", Default: "x"})},
		{"a derivation from nothing", "derived[0]", derive(Derivation{Key: "a"})},
		{"a source without a rule", "derived[0]", derive(Derivation{Key: "a", From: "user"})},
		{"a rule without a source", "derived[0]", derive(Derivation{Key: "a", Values: map[string]string{"x": "y"}})},
		{"a template and a source", "derived[0]", derive(Derivation{Key: "a", From: "user", Template: "${user}"})},
		{"an empty result", "derived[0].values[x]", derive(Derivation{Key: "a", From: "user", Values: map[string]string{"x": ""}})},
		{"a default for everything", "derived[0].default", derive(Derivation{Key: "a", Default: "*"})},
		{"an unclosed name", "derived[0].template", derive(Derivation{Key: "a", Template: "${user"})},
		{"a name without braces", "derived[0].template", derive(Derivation{Key: "a", Template: "$user"})},
		{"a name that is empty", "derived[0].template", derive(Derivation{Key: "a", Template: "x${}"})},
		{"a dollar at the end", "derived[0].template", derive(Derivation{Key: "a", Template: "x$"})},
		{"a malformed name", "derived[0]", derive(Derivation{Key: "a", Template: "${u ser}"})},
		{"a pattern of nothing", "derived[0].patterns[0]", derive(Derivation{Key: "a", From: "user", Patterns: []Pattern{{Value: "x"}}})},
		{"a pattern of both kinds", "derived[0].patterns[0]", derive(Derivation{Key: "a", From: "user", Patterns: []Pattern{{Prefix: "x", Match: "x", Value: "x"}}})},
		{"a pattern without a value", "derived[0].patterns[0].value", derive(Derivation{Key: "a", From: "user", Patterns: []Pattern{{Prefix: "x"}}})},
		{"a malformed expression", "derived[0].patterns[1].match", derive(Derivation{Key: "a", From: "user", Patterns: []Pattern{{Prefix: "x", Value: "x"}, {Match: "(", Value: "x"}}})},
		{"an expression that closes ours", "derived[0].patterns[0].match", derive(Derivation{Key: "a", From: "user", Patterns: []Pattern{{Match: "a)(b", Value: "x"}}})},
		{"a group that is not there", "derived[0].patterns[0].value", derive(Derivation{Key: "a", From: "user", Patterns: []Pattern{{Match: "(x)", Value: "${2}"}}})},
		{"a group of a prefix", "derived[0].patterns[0].value", derive(Derivation{Key: "a", From: "user", Patterns: []Pattern{{Prefix: "x", Value: "${0}"}}})},
		{"a malformed template in a pattern", "derived[0].patterns[0].value", derive(Derivation{Key: "a", From: "user", Patterns: []Pattern{{Prefix: "x", Value: "$"}}})},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := test.Compile()
			checkField(t, err, test.field)
		})
	}
}

func TestApplyTwiceIsApplyOnce(t *testing.T) {
	p := must(t, Rules.Compile, companyRules(t))
	keys := []string{"user", "proxyUser", "engine", "engine_type", "engineType", "creator", "tenant", "zone"}
	values := []string{"", "alice", "etl_1", "ops.bob", "spark", "spark3", "spark-3.3", "research", "others"}
	rapid.Check(t, func(t *rapid.T) {
		var in Set
		for _, key := range keys {
			if rapid.Bool().Draw(t, key+" set") {
				in = in.With(key, rapid.SampledFrom(values).Draw(t, key))
			}
		}
		out, err := p.Apply(in)
		if err != nil {
			return
		}
		if again := must(t, p.Apply, out); !again.Equal(out) {
			t.Fatalf("%v became %v, and then %v", in, out, again)
		}
		for _, alias := range []string{"proxyUser", "engine", "engine_type"} {
			if out.Has(alias) {
				t.Fatalf("%v became %v, with an alias in it", in, out)
			}
		}
		if out.Value(User) == "" || out.Value(Tenant) == "" || out.Value(Creator) == "" {
			t.Fatalf("%v became %v", in, out)
		}
		must(t, FromMap, out.Map())
	})
}

func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{"${user}-${creator}", "$$", "$", "${", "${}", "a${user}b$$c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := parseTemplate("template", text)
		if err != nil {
			checkRefusal(t, nil, err)
			return
		}
		// Expanding the escaped text gives the text again.
		back, ok := parsed.escaped().expand(func(name string) string { return "${" + name + "}" })
		if !ok || back != text {
			t.Fatalf("%q became %q", text, back)
		}
	})
}

// escaped returns the template with its dollar signs doubled again.
func (t template) escaped() template {
	var out template
	for _, p := range t {
		out = append(out, piece{strings.ReplaceAll(p.literal, "$", "$$"), p.name})
	}
	return out
}

// BenchmarkApply measures a usual request under rules of every kind.
func BenchmarkApply(b *testing.B) {
	p, err := companyRules(b).Compile()
	if err != nil {
		b.Fatal(err)
	}
	set := Of("user", "ops.bob", "creator", "IDE", "engine", "spark3")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Apply(set); err != nil {
			b.Fatal(err)
		}
	}
}
