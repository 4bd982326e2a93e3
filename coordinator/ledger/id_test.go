package ledger

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestIDsRoundTripInEitherCase(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := ID(rapid.Uint64().Draw(t, "id"))
		text := id.String()
		if len(text) != 13 || strings.Trim(text, "0123456789abcdefghjkmnpqrstvwxyz") != "" {
			t.Fatalf("%d is %q", uint64(id), text)
		}
		for _, form := range []string{text, strings.ToUpper(text)} {
			if back, err := ParseID(form); err != nil || back != id {
				t.Fatalf("%q is %d, %v; want %d", form, back, err, id)
			}
		}
	})
}

func TestParseIDRefusesWhatStringNeverWrites(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":                    "",
		"too short":                  "000000000000",
		"too long":                   "00000000000000",
		"a letter that is left out":  "000000000000i",
		"another":                    "00000000u0000",
		"more than 64 bits":          "g000000000000",
		"a space":                    "000000 000000",
		"a control character":        "00000000000\x100",
		"a letter with its high bit": "000000000000\xe1",
		"punctuation":                "00000000000-0",
	} {
		if id, err := ParseID(text); !errors.Is(err, ErrBadID) {
			t.Errorf("%s: %q is %d, %v; want ErrBadID", name, text, id, err)
		}
	}
}

func FuzzParseID(f *testing.F) {
	for _, id := range []ID{0, 1, 1 << 22, 1<<64 - 1} {
		f.Add(id.String())
	}
	f.Add("\x10000000000000")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := ParseID(text)
		if err != nil {
			if !errors.Is(err, ErrBadID) {
				t.Fatal(err)
			}
			return
		}
		if back := id.String(); back != strings.ToLower(text) {
			t.Fatalf("%q is %d, which is %q", text, uint64(id), back)
		}
	})
}

// A prefix of a few characters names one allocation, although ids are given out one after the
// other.
func TestConsecutiveIDsShareNoPrefix(t *testing.T) {
	const ids = 1024
	prefixes := make(map[string]int)
	id := idAfter(0, At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
	for range ids {
		prefixes[id.String()[:6]]++
		id = idAfter(id, 0)
	}
	// 6 characters are 29 bits: that two of 1024 meet has a chance of 1 in 1000
	if len(prefixes) < ids-2 {
		t.Errorf("%d ids have %d prefixes of 6 characters", ids, len(prefixes))
	}
}

func TestIDsRiseWhateverTheClockDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		last := ID(0)
		for range 50 {
			now := Instant(rapid.Int64Range(1, 1<<61).Draw(t, "now"))
			id := idAfter(last, now)
			if id <= last {
				t.Fatalf("%d after %d", id, last)
			}
			if created := id.Created(); last == 0 && (created > now || now.Sub(created) >= time.Millisecond) {
				t.Fatalf("given out at %d, created at %d", now, created)
			}
			last = id
		}
	})
}

func TestInstantsConvertToTheNanosecond(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(-1<<33, 1<<33).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds"))
		if back := At(at).Time(); !back.Equal(at) && At(at) != 0 {
			t.Fatalf("%v becomes %v", at, back)
		}
	})
	if At(time.Time{}) != 0 || !Instant(0).Time().IsZero() {
		t.Error("the zero time is not the zero Instant")
	}
}

// The first character stands for four bits only.
func TestIDsBeginWithEachOfSixteenCharacters(t *testing.T) {
	for digit := range uint64(16) {
		id := ID(unmix(digit<<60 + 1))
		text := id.String()
		if got, err := ParseID(text); err != nil || got != id || text[0] != idAlphabet[digit] {
			t.Errorf("%s, which begins with %q: %v, %v", text, idAlphabet[digit], got, err)
		}
	}
	if _, err := ParseID("g000000000000"); err == nil {
		t.Error("a number of 65 bits is an id")
	}
}

// An id tells its time for as long as the ledger's goes on, and the last moment is told as such
// afterwards.
func TestAnIDTellsItsTimeToTheLastMoment(t *testing.T) {
	for _, year := range []int{1970, 2026, 2060, 2109} {
		at := At(time.Date(year, 1, 2, 0, 0, 0, 0, time.UTC))
		if got := idAfter(0, at).Created(); got != at {
			t.Errorf("an id of %s says %s", at.Time(), got.Time())
		}
	}
	if got := idAfter(0, MaxInstant+Instant(time.Hour)).Created(); got != MaxInstant {
		t.Errorf("after the last moment an id says %s", got.Time())
	}
}

// Of the ids from the future that have ended those are remembered that come up first, and no more
// than there is room for.
func TestSpentIDsAreRememberedUntilTimeHasPassedThem(t *testing.T) {
	l := New(Config{}, noPlacer{})
	l.lastID = 10
	for _, id := range []ID{10, 9, 13, 11, 12, 12} {
		l.spend(id)
	}
	if l.spent.Len() != 3 {
		t.Fatalf("%d are remembered; want 11, 12 and 13", l.spent.Len())
	}
	if id := l.nextID(); id != 14 || l.spent.Len() != 0 {
		t.Errorf("the next id is %d, and %d are still remembered; want 14 and none", id, l.spent.Len())
	}
	for id := range ID(2 * mostSpent) {
		l.spend(100 + 2*id)
	}
	last, _ := l.spent.Max()
	if n := l.spent.Len(); n != mostSpent || last != 100+2*(mostSpent-1) {
		t.Errorf("%d are remembered, up to %d; want %d", n, last, mostSpent)
	}
	l.lastID = 100
	if id := l.nextID(); id != 101 || l.spent.Len() != mostSpent-1 {
		t.Errorf("the next id is %d, and %d are remembered; want 101 and one less", id, l.spent.Len())
	}
}
