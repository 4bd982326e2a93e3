package label

import (
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for _, test := range []struct {
		text string
		want Set
	}{
		{"", nil},
		{"  ", nil},
		{"user=alice", Of("user", "alice")},
		{"user=alice,creator=IDE", Of("user", "alice", "creator", "IDE")},
		{" user = alice , creator=IDE ", Of("user", "alice", "creator", "IDE")},
		{"user=", Of("user", "")},
		{"user= ", Of("user", "")},
		{"user=*", Of("user", "*")},
		{"expression=a=b", Of("expression", "a=b")},
		{`list="a,b"`, Of("list", "a,b")},
		{`list="a,b" , user=alice`, Of("list", "a,b", "user", "alice")},
		{`path=C:\tmp`, Of("path", `C:\tmp`)},
		{`user=CORP\alice`, Of("user", `CORP\alice`)},
		{`user=CORP\alice,creator=IDE`, Of("user", `CORP\alice`, "creator", "IDE")},
		{`user="CORP\\alice"`, Of("user", `CORP\alice`)},
		{`k=a\nb`, Of("k", `a\nb`)},
		{`k=a\x41`, Of("k", `a\x41`)},
		{`k="\\\\server\\share"`, Of("k", `\\server\share`)},
		{`k="\""`, Of("k", `"`)},
		{`k=a"b`, Of("k", `a"b`)},
		{`k="\u3164"`, Of("k", "\u3164")},
		{`k="\U000e0041"`, Of("k", "\U000e0041")},
		{`k=alice\`, Of("k", `alice\`)},
		{`k=""`, Of("k", "")},
		{`pad=" x "`, Of("pad", " x ")},
		{"pad=x y", Of("pad", "x y")},
		{`plain=\a\=`, Of("plain", `\a\=`)},
	} {
		if got, err := Parse(test.text); err != nil || !got.Equal(test.want) {
			t.Errorf("Parse(%q) = %v, %v; want %v", test.text, got, err, test.want)
		}
	}
	for text, field := range map[string]string{
		"user":                  "labels",
		",":                     "labels",
		"user=alice,":           "labels",
		"user=alice,creator":    "labels",
		"=alice":                "labels[]",
		"u ser=alice":           "labels[u ser]",
		"user=alice,user=alice": "labels[user]",
		`list=a\,b`:             "labels[list]",
		`list=a\,b=c`:           "labels[list]",
		`user=CORP\\alice`:      "labels[user]",
		`k="a`:                  "labels[k]",
		`k="a"b`:                "labels[k]",
		`k="\x"`:                "labels[k]",
		`k="\n"`:                "labels[k]",
		`k="\u000a"`:            "labels[k]",
		`k="\xff"`:              "labels[k]",
		"user=a\tb":             "labels[user]",
		"user=\xff":             "labels[user]",
	} {
		_, err := Parse(text)
		checkField(t, err, field)
	}
}

func TestTextQuotesWhatParseWouldTakeAway(t *testing.T) {
	for value, want := range map[string]string{
		"x y": "k=x y", " x": `k=" x"`, "x ": `k="x "`, " ": `k=" "`, "a,b": `k="a,b"`, `a\b`: `k=a\b`, `a\\b`: `k="a\\\\b"`, `a\`: `k="a\\"`,
		`"a"`: `k="\"a\""`, `a"b`: `k=a"b`, "a\u3164": `k="a\u3164"`, "a\u202eb": `k="a\u202eb"`, "größe": "k=größe", "a=b@:": "k=a=b@:", "a*": `k="a*"`, "*": "k=*",
	} {
		set := Of("k", value)
		if got := set.Text(); got != want {
			t.Errorf("%q is written %s; want %s", value, got, want)
		}
		if back := must(t, Parse, set.Text()); !back.Equal(set) {
			t.Errorf("%s became %v", set.Text(), back)
		}
	}
}

// The store finds rules by it.
func TestStringIsTheKeyOfRulesForEver(t *testing.T) {
	for value, want := range map[string]string{
		"x y": "k=x y", " x": `k=\ x`, "x ": `k=x\ `, " ": `k=\ `, "a,b": `k=a\,b`, `a\b`: `k=a\\b`, `"`: `k="`,
	} {
		if got := newSelector(Of("k", value)).String(); got != want {
			t.Errorf("%q is written %q; want %q", value, got, want)
		}
	}
}

func TestTextReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Set
		for _, key := range []string{"a", "b/c", "d"} {
			if rapid.Bool().Draw(t, key+" set") {
				s = s.With(key, awkward().Draw(t, key))
			}
		}
		if back := must(t, Parse, s.Text()); !back.Equal(s) {
			t.Fatalf("%q became %v", s.Text(), back)
		}
		selector := newSelector(s)
		if back := must(t, ParseSelector, selector.Text()); !back.Equal(selector) {
			t.Fatalf("%q became %v", selector.Text(), back)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"user=alice,creator=IDE", `list="a,b", pad=" "`, "user=*", "user", "=", ",", `a=\`, `a=\\`, `a="\u3164"`, "größe=1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		set, err := Parse(text)
		if err != nil {
			checkRefusal(t, set, err)
			return
		}
		if again, err := Parse(set.Text()); err != nil || !again.Equal(set) {
			t.Fatalf("%q is %v, which became %v, %v", text, set, again, err)
		}
		if same, err := FromMap(set.Map()); err != nil || !same.Equal(set) {
			t.Fatalf("%q is %v, of which FromMap makes %v, %v", text, set, same, err)
		}
	})
}

func FuzzParseSelector(f *testing.F) {
	for _, seed := range []string{"user=alice,creator=*", "*", "", " * ", "user=", "**"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		selector, err := ParseSelector(text)
		if err != nil {
			checkRefusal(t, selector.Labels(), err)
			return
		}
		if again, err := ParseSelector(selector.Text()); err != nil || !again.Equal(selector) {
			t.Fatalf("%q is %v, which became %v, %v", text, selector, again, err)
		}
		if !selector.Matches(selector.Labels()) || !selector.Overlaps(selector) {
			t.Fatalf("%v does not match itself", selector)
		}
	})
}

func FuzzFromMap(f *testing.F) {
	f.Add("user", "alice", "creator", "IDE")
	f.Add("user", "a\x00", "", "\xff")
	f.Fuzz(func(t *testing.T, key1, value1, key2, value2 string) {
		labels := map[string]string{key1: value1, key2: value2}
		set, err := FromMap(labels)
		if err != nil {
			checkRefusal(t, set, err)
			return
		}
		if again, err := Parse(set.Text()); err != nil || !again.Equal(set) || len(set) != len(labels) {
			t.Fatalf("%v is %v, which became %v, %v", labels, set, again, err)
		}
	})
}

func checkRefusal(t *testing.T, set Set, err error) {
	t.Helper()
	var wrong *FieldError
	if !errors.As(err, &wrong) || wrong.Want == "" || set != nil {
		t.Fatalf("%v with %v", set, err)
	}
}
