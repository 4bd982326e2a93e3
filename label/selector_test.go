package label

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSelectorMatches(t *testing.T) {
	alice := Of("user", "alice", "creator", "IDE", "engineType", "spark-3.3")
	for _, test := range []struct {
		selector string
		set      Set
		want     bool
	}{
		{"*", alice, true},
		{"*", nil, true},
		{"user=alice", alice, true},
		{"user=bob", alice, false},
		{"user=*,creator=IDE", alice, true},
		{"user=*,creator=cron", alice, false},
		{"creator=IDE,engineType=spark-3.3,user=alice", alice, true},
		{"tenant=*", alice, true}, // a missing label is the empty value
		{"tenant=*", nil, true},
		{"tenant=", alice, true},
		{"tenant=a", alice, false},
		{"user=", alice, false},
		{"user=*,tenant=", Of("tenant", ""), true},
	} {
		if got := must(t, ParseSelector, test.selector).Matches(test.set); got != test.want {
			t.Errorf("%s matches %v: %t", test.selector, test.set, got)
		}
	}
}

func TestSelectorSaysItsParts(t *testing.T) {
	s := must(t, NewSelector, map[string]string{"user": "*", "creator": "IDE"})
	if s.String() != "creator=IDE,user=*" || s.Exact() != 1 || s.Scope().Key() != "creator,user" || !s.Labels().Equal(Of("creator", "IDE", "user", "*")) {
		t.Errorf("%v, %d exact, scope %q, labels %v", s, s.Exact(), s.Scope().Key(), s.Labels())
	}
	for text, exact := range map[string]int{"*": 0, "user=*": 0, "user=": 1, "user=alice,creator=IDE": 2, "user=*,creator=*,queue=a": 1} {
		if got := must(t, ParseSelector, text).Exact(); got != exact {
			t.Errorf("%s has %d exact values, not %d", text, got, exact)
		}
	}
	all := must(t, NewSelector, map[string]string(nil))
	if all.String() != "*" || all.Exact() != 0 || all.Scope().Key() != "" || !all.Equal(Selector{}) {
		t.Errorf("the selector without labels is %v", all)
	}
}

func TestSelectorIsRefused(t *testing.T) {
	_, err := NewSelector(map[string]string{"u ser": "*"})
	checkField(t, err, "labels[u ser]")
	for text, field := range map[string]string{"": "selector", "  ": "selector", "**": "labels", "user": "labels", "user=a,user=*": "labels[user]"} {
		_, err := ParseSelector(text)
		checkField(t, err, field)
	}
}

func TestOverlapsMeansThatSomeSetMatchesBoth(t *testing.T) {
	values := []string{"", "a", "b"}
	keys := []string{"creator", "engineType", "user"}
	var everything []Set // all sets over these keys; a missing label is the empty value
	for _, a := range values {
		for _, b := range values {
			for _, c := range values {
				everything = append(everything, Of(keys[0], a, keys[1], b, keys[2], c))
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s, o := selectors(values...).Draw(t, "s"), selectors(values...).Draw(t, "o")
		want := s.Scope().Key() == o.Scope().Key() &&
			slices.ContainsFunc(everything, func(set Set) bool { return s.Matches(set) && o.Matches(set) })
		if s.Overlaps(o) != want || o.Overlaps(s) != want {
			t.Fatalf("%v overlaps %v: %t", s, o, s.Overlaps(o))
		}
	})
}

func TestSelectorSeesOnlyItsScope(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, set := selectors("", "a", "b").Draw(t, "s"), sets("", "a", "b").Draw(t, "set")
		projected := s.Scope().Project(set)
		if s.Matches(set) != s.Matches(projected) {
			t.Fatalf("%v matches %v: %t, and %v: %t", s, set, s.Matches(set), projected, s.Matches(projected))
		}
		want := true
		for _, l := range s.Labels() {
			want = want && (l.Value == Any || l.Value == set.Value(l.Key))
		}
		if s.Matches(set) != want {
			t.Fatalf("%v matches %v: %t", s, set, !want)
		}
	})
}

func TestScope(t *testing.T) {
	s := NewScope("user", "creator", "user")
	if diff := cmp.Diff([]string{"creator", "user"}, s.Keys()); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if got := s.Project(Of("user", "alice", "tenant", "x")); !got.Equal(Of("creator", "", "user", "alice")) {
		t.Errorf("projected: %v", got)
	}
	if got := (Scope{}).Project(Of("user", "alice")); len(got) != 0 {
		t.Errorf("projected to nothing: %v", got)
	}
}

func TestAppendKeyIdentifiesAnAccount(t *testing.T) {
	scopes := rapid.Custom(func(t *rapid.T) Scope {
		return NewScope(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3).Draw(t, "keys")...)
	})
	labels := rapid.Custom(func(t *rapid.T) Set {
		var s Set
		for _, key := range []string{"a", "b", "c", "d"} {
			if rapid.Bool().Draw(t, key+" set") {
				s = s.With(key, rapid.StringOfN(rapid.RuneFrom([]rune("a,=\x01\x02")), 0, 3, -1).Draw(t, key))
			}
		}
		return s
	})
	rapid.Check(t, func(t *rapid.T) {
		s1, s2 := scopes.Draw(t, "scope 1"), scopes.Draw(t, "scope 2")
		l1, l2 := labels.Draw(t, "labels 1"), labels.Draw(t, "labels 2")
		same := s1.Key() == s2.Key() && s1.Project(l1).Equal(s2.Project(l2))
		prefix := []byte("kept")
		k1, k2 := s1.AppendKey(prefix, l1), s2.AppendKey(nil, l2)
		if !bytes.HasPrefix(k1, prefix) || bytes.Equal(k1[len(prefix):], k2) != same {
			t.Fatalf("%v of %v and %v of %v: %q and %q", s1.Keys(), l1, s2.Keys(), l2, k1, k2)
		}
	})
}

// TestHotOperationsDoNotAllocate covers the operations of the ledger for every request.
func TestHotOperationsDoNotAllocate(t *testing.T) {
	set := Of("user", "alice", "creator", "IDE", "engineType", "spark-3.3", "tenant", "a")
	selector := must(t, ParseSelector, "user=*,creator=IDE,queue=*")
	key := make([]byte, 0, 256)
	ok := true
	for operation, run := range map[string]func(){
		"Get":           func() { _, found := set.Get("user"); ok = ok && found },
		"AppendKey":     func() { ok = ok && len(selector.Scope().AppendKey(key, set)) > 0 },
		"Matches":       func() { ok = ok && selector.Matches(set) },
		"Overlaps":      func() { ok = ok && selector.Overlaps(selector) },
		"MatchesFilter": func() { ok = ok && set.MatchesFilter(set) },
		"Apply without rules": func() {
			_, err := (*Preprocessor)(nil).Apply(set)
			ok = ok && err == nil
		},
	} {
		if allocations := testing.AllocsPerRun(100, run); allocations != 0 {
			t.Errorf("%s: %v allocations", operation, allocations)
		}
	}
	if !ok {
		t.Error("an operation failed")
	}
}

// BenchmarkAccountKey measures the account key of a request for one scope.
func BenchmarkAccountKey(b *testing.B) {
	set := Of("user", "alice", "creator", "IDE", "engineType", "spark-3.3", "tenant", "a")
	scope, accounts := NewScope("user", "creator", "engineType"), map[string]int{}
	accounts[string(scope.AppendKey(nil, set))] = 1
	key := make([]byte, 0, 256)
	b.ReportAllocs()
	for b.Loop() {
		key = scope.AppendKey(key[:0], set)
		if accounts[string(key)] != 1 {
			b.Fatal("the account is gone")
		}
	}
}

func TestAPatternIsRefusedAsAValue(t *testing.T) {
	for text, want := range map[string]bool{"*": true, "user=*": true, "user=alice,creator=*": true, "user=al*": false, "user=**": false, "user=*,creator=I*E": false} {
		s, err := ParseSelector(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.CheckValues(); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}
