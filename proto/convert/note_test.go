package convert_test

import (
	"testing"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

func TestEveryNoteHasATextAndIsFoundByIt(t *testing.T) {
	for number, name := range bursarv1.ShortfallNote_name {
		note := bursarv1.ShortfallNote(number)
		text := convert.NoteText(note)
		want := note
		switch note { //nolint:exhaustive // the others have texts of their own
		case bursarv1.ShortfallNote_SHORTFALL_NOTE_CORDONED, bursarv1.ShortfallNote_SHORTFALL_NOTE_DRAINING:
			want = bursarv1.ShortfallNote_SHORTFALL_NOTE_HEALTH
		case bursarv1.ShortfallNote_SHORTFALL_NOTE_UNSPECIFIED:
			if text != "" {
				t.Errorf("%s has the text %q", name, text)
			}
		}
		if text == "" && number != 0 {
			t.Errorf("%s has no text", name)
		}
		if got := convert.NoteOf(&bursarv1.Shortfall{Note: text}); got != want {
			t.Errorf("%s: its text %q is that of %s", name, text, got)
		}
		if got := convert.NoteOf(&bursarv1.Shortfall{Note: "measured", NoteCode: note}); number != 0 && got != note {
			t.Errorf("%s: the text counts more than the code: %s", name, got)
		}
	}
	if got := convert.NoteOf(&bursarv1.Shortfall{Note: "a later one"}); got != bursarv1.ShortfallNote_SHORTFALL_NOTE_UNSPECIFIED {
		t.Errorf("an unknown text is that of %s", got)
	}
}
