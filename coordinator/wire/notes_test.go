package wire

import (
	"strings"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Clients read the code; older ones read the text, and know a closed host as "health".
func TestNotesHaveACodeAndAText(t *testing.T) {
	seen := make(map[bursarv1.ShortfallNote]bool)
	for _, note := range []ledger.Note{
		"", ledger.NoteMeasured, ledger.NoteHeld, ledger.NoteUnknown, ledger.NotePressure, ledger.NoteRefused, ledger.NoteHealth, ledger.NoteCordoned,
		ledger.NoteDraining, ledger.NoteNever, ledger.NoteLabels, ledger.NoteStopped, ledger.NoteMissing, ledger.NoteTooSmall,
		ledger.NoteMayGrow, ledger.NoteHeldBack,
	} {
		m := InsufficientMessage(&ledger.InsufficientError{Shortfalls: []ledger.Shortfall{{Note: note}}}).GetShortfalls()[0]
		want := strings.ToUpper(strings.ReplaceAll(string(note), " ", "_"))
		if note == "" {
			want = "UNSPECIFIED"
		}
		if got := m.GetNoteCode().String(); got != "SHORTFALL_NOTE_"+want {
			t.Errorf("%q: code %s", note, got)
		}
		text := string(note)
		if note == ledger.NoteCordoned || note == ledger.NoteDraining {
			text = "health"
		}
		if m.GetNote() != text {
			t.Errorf("%q: text %q", note, m.GetNote())
		}
		seen[m.GetNoteCode()] = true
	}
	if len(seen) != len(bursarv1.ShortfallNote_name) {
		t.Errorf("%d of %d codes are used", len(seen), len(bursarv1.ShortfallNote_name))
	}
}

func TestEveryRefusalHasAVerdict(t *testing.T) {
	for never, want := range map[bool]bursarv1.InsufficientResources_Verdict{
		true: bursarv1.InsufficientResources_VERDICT_NEVER, false: bursarv1.InsufficientResources_VERDICT_NOT_NOW,
	} {
		if got := InsufficientMessage(&ledger.InsufficientError{Never: never}).GetVerdict(); got != want {
			t.Errorf("never %t: %s", never, got)
		}
	}
}
