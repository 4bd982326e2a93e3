package spelling_test

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/internal/spelling"
)

func TestDistanceCountsLetters(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"memory", "memory", 0}, {"memroy", "memory", 2}, {"memry", "memory", 1}, {"cpus", "cpu", 1}, {"", "cpu", 3}, {"gpu", "cpu", 1},
	} {
		if got, back := spelling.Distance(c.a, c.b), spelling.Distance(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("%q and %q: %d and %d, want %d", c.a, c.b, got, back, c.want)
		}
	}
}

func TestWhatIsCutIsAValidTextOfThatLength(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"", 8, ""}, {"all of it", 9, "all of it"}, {"more than that", 9, "more  …"}, {"ääääää", 9, "ää …"},
	} {
		if got := spelling.Cut(c.text, c.most); got != c.want {
			t.Errorf("%q to %d: %q, want %q", c.text, c.most, got, c.want)
		}
	}
}

func TestWhatATerminalActsOnIsReplaced(t *testing.T) {
	if got, want := spelling.Printable("a\x1b[31m\n\u202eb ä", '?'), "a?[31m??b ä"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestATextOfOthersBecomesOneLine(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"", 8, ""},
		{" Queue root.a\r\n\tis  full ", 80, "Queue root.a is full"},
		{"\x1b]0;title\x07a\u009b31mb\u202ec\u2066d\ufeffe", 80, "]0;title a 31mb?c?d?e"},
		{"ä\xffö\ufffd", 80, "ä?ö?"},
		{strings.Repeat("long ", 20_000), 12, "long lon …"},
		{"early" + strings.Repeat(" ", 200) + "late", 12, "early …"},
	} {
		if got := spelling.Line(c.text, c.most); got != c.want {
			t.Errorf("%.80q to %d: %q, want %q", c.text, c.most, got, c.want)
		}
	}
}

func TestALineIsPrintableAndBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.Byte()).Draw(t, "text")) + rapid.String().Draw(t, "more")
		most := rapid.IntRange(8, 64).Draw(t, "most")
		got := spelling.Line(text, most)
		if len(got) > most || !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !strconv.IsPrint(r) }) {
			t.Fatalf("%q to %d: %q", text, most, got)
		}
	})
}
