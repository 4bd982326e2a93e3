package label

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestFromMapChecksKeysAndValues(t *testing.T) {
	long := strings.Repeat("k", 63)
	for _, test := range []struct {
		name, key, value string
		field            string
	}{
		{"a usual label", "user", "alice", ""},
		{"an empty value", "user", "", ""},
		{"all characters of a key", "zaAZ09_./-", "x", ""},
		{"the longest key", long, "x", ""},
		{"the longest value", "user", strings.Repeat("v", 255), ""},
		{"any letters in a value", "user", "Ælfrēd = \\ , *", ""},
		{"an empty key", "", "x", "labels[]"},
		{"a key that begins with a digit", "1user", "x", "labels[1user]"},
		{"a key with a space", "us er", "x", "labels[us er]"},
		{"a key that is not ASCII", "größe", "x", "labels[größe]"},
		{"a key too long", long + "k", "x", "labels[" + long + "k]"},
		{"a value too long", "user", strings.Repeat("v", 256), "labels[user]"},
		{"a value too long in bytes", "user", strings.Repeat("ö", 128), "labels[user]"},
		{"a value that is no UTF-8", "user", "a\xff", "labels[user]"},
		{"a line break", "user", "a\nb", "labels[user]"},
		{"a delete", "user", "a\x7f", "labels[user]"},
		{"a control character above ASCII", "user", "a\u0085", "labels[user]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			set, err := FromMap(map[string]string{test.key: test.value})
			checkField(t, err, test.field)
			if err == nil && (set.Value(test.key) != test.value || len(set) != 1) {
				t.Errorf("set is %v", set)
			}
		})
	}
	if set := must(t, FromMap, map[string]string(nil)); set != nil {
		t.Errorf("no labels are %v", set)
	}
	_, err := FromMap(map[string]string{"b b": "", "a a": "", "c c": ""}) // always the first
	checkField(t, err, "labels[a a]")
}

func TestSetIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Set
		want := map[string]string{}
		for range rapid.IntRange(0, 10).Draw(t, "steps") {
			before, kept := s, maps.Clone(want)
			key := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "key")
			value := rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "value")
			s, want[key] = s.With(key, value), value
			_ = before.With(key, "other") // must not reach s, which may share memory with before
			if !maps.Equal(kept, before.Map()) {
				t.Fatalf("the set it was made from changed to %v", before)
			}
			if !maps.Equal(want, s.Map()) || !slices.IsSortedFunc(s, byKey) || !s.Has(key) || s.Value(key) != value {
				t.Fatalf("%v, want %v", s, want)
			}
			if !s.Equal(must(t, FromMap, want)) {
				t.Fatalf("%v differs from FromMap's %v", s, want)
			}
		}
		if value, found := s.Get("e"); found || value != "" || s.Has("e") || s.Value("e") != "" {
			t.Fatalf("%v has e", s)
		}
	})
}

func TestOfIsForConstants(t *testing.T) {
	if diff := cmp.Diff(Set{{"creator", "IDE"}, {"user", "alice"}}, Of("user", "alice", "creator", "IDE")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, wrong := range [][]string{{"user"}, {"u ser", "x"}, {"user", "a", "user", "b"}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Of(%q) did not panic", wrong)
				}
			}()
			Of(wrong...)
		}()
	}
}

func TestMatchesFilter(t *testing.T) {
	set := Of("user", "alice", "creator", "")
	for text, want := range map[string]bool{
		"": true, "user=alice": true, "user=*": true, "creator=": true, "creator=*": true, "user=alice,creator=*": true,
		"user=bob": false, "tenant=*": false, "tenant=": false, "user=alice,tenant=*": false, "user=": false,
	} {
		if got := set.MatchesFilter(must(t, Parse, text)); got != want {
			t.Errorf("%v matches %q: %t", set, text, got)
		}
	}
}
