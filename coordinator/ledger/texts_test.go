package ledger

import (
	"errors"
	"slices"
	"testing"
)

// A text that is only shown is made valid; a text that is a key is refused.
func TestTextsAreMadeValidOrRefused(t *testing.T) {
	for text, want := range map[string]string{"": "", "ü": "ü", "a\xffb": "a\uFFFDb", "\xff": "\uFFFD"} {
		if got := validText(text); got != want {
			t.Errorf("%q is shown as %q; want %q", text, got, want)
		}
		wrong, refused := errors.AsType[*FieldError](checkName("field", text))
		if refused != (text != want) || refused && *wrong != (FieldError{"field", want, "valid UTF-8"}) {
			t.Errorf("%q: refused with %v", text, wrong)
		}
	}
	shared := []string{"a", "b\xff", "\xffc"}
	if got := validTexts(shared); !slices.Equal(got, []string{"a", "b\uFFFD", "\uFFFDc"}) || shared[1] != "b\xff" {
		t.Errorf("a list is shown as %q, and is %q", got, shared)
	}
	valid := []string{"a", "ü"}
	if got := validTexts(valid); &got[0] != &valid[0] {
		t.Error("a list that is valid is copied")
	}
}

func TestARefusalIsNamedByTheBeginningOfItsHashAndItsVersion(t *testing.T) {
	r := Refusal{Hash: [32]byte{0xfe, 1, 2, 3, 4, 5, 6, 7, 8}}
	for version, want := range map[string]string{
		"": "fe01020304050607-e3b0c442", "1.2": "fe01020304050607-77ac319b", "\xff": "fe01020304050607-83d544cc", "\uFFFD": "fe01020304050607-83d544cc",
	} {
		if r.Version = version; r.ID() != want {
			t.Errorf("version %q: it is named %s", version, r.ID())
		}
	}
	r.Unversioned = true
	if got := r.ID(); got != "fe01020304050607" {
		t.Errorf("with the key of an earlier bursar: it is named %s", got)
	}
}
