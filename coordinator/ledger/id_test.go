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

// A prefix of a few characters names one allocation, although ids are given out one after the other.
func TestConsecutiveIDsShareNoPrefix(t *testing.T) {
	const ids = 1024
	prefixes := make(map[string]int)
	id := idAfter(0, At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
	for range ids {
		prefixes[id.String()[:6]]++
		id = idAfter(id, 0)
	}
	if len(prefixes) < ids-2 { // 6 characters are 29 bits: that two of 1024 meet has a chance of 1 in 1000
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
