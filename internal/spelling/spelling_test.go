package spelling_test

import (
	"testing"

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
