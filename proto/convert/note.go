package convert

import (
	"maps"
	"slices"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// notes maps the notes of a shortfall to the texts that the coordinator's ledger uses.
var notes = map[bursarv1.ShortfallNote]string{ //nolint:gochecknoglobals // a table that nothing changes
	bursarv1.ShortfallNote_SHORTFALL_NOTE_UNSPECIFIED: "",
	bursarv1.ShortfallNote_SHORTFALL_NOTE_MEASURED:    "measured",
	bursarv1.ShortfallNote_SHORTFALL_NOTE_HELD:        "held",
	bursarv1.ShortfallNote_SHORTFALL_NOTE_UNKNOWN:     "unknown",
	bursarv1.ShortfallNote_SHORTFALL_NOTE_PRESSURE:    "pressure",
	bursarv1.ShortfallNote_SHORTFALL_NOTE_REFUSED:     "refused",
	bursarv1.ShortfallNote_SHORTFALL_NOTE_HEALTH:      "health",
	bursarv1.ShortfallNote_SHORTFALL_NOTE_NEVER:       "never",
	bursarv1.ShortfallNote_SHORTFALL_NOTE_LABELS:      "labels",
	bursarv1.ShortfallNote_SHORTFALL_NOTE_STOPPED:     "stopped",
	bursarv1.ShortfallNote_SHORTFALL_NOTE_MISSING:     "missing",
	bursarv1.ShortfallNote_SHORTFALL_NOTE_CORDONED:    "cordoned",
	bursarv1.ShortfallNote_SHORTFALL_NOTE_DRAINING:    "draining",
	bursarv1.ShortfallNote_SHORTFALL_NOTE_TOO_SMALL:   "too small",
	bursarv1.ShortfallNote_SHORTFALL_NOTE_MAY_GROW:    "may grow",
	bursarv1.ShortfallNote_SHORTFALL_NOTE_HELD_BACK:   "held back",
}

var notesByText = func() map[string]bursarv1.ShortfallNote { //nolint:gochecknoglobals // likewise
	by := make(map[string]bursarv1.ShortfallNote, len(notes))
	for _, note := range slices.Sorted(maps.Keys(notes)) {
		by[notes[note]] = note
	}
	return by
}()

// NoteOfText returns the note with a text; unspecified if there is none.
func NoteOfText(text string) bursarv1.ShortfallNote { return notesByText[text] }

// NoteText returns the text of a note for Shortfall.note. It is for clients that are older than the
// notes' codes; for them any host that accepts no engines has the note "health".
func NoteText(note bursarv1.ShortfallNote) string {
	if note == bursarv1.ShortfallNote_SHORTFALL_NOTE_CORDONED || note == bursarv1.ShortfallNote_SHORTFALL_NOTE_DRAINING {
		note = bursarv1.ShortfallNote_SHORTFALL_NOTE_HEALTH
	}
	return notes[note]
}

// NoteOf returns the note of a shortfall. A server that is older than the codes sets only the text.
func NoteOf(s *bursarv1.Shortfall) bursarv1.ShortfallNote {
	if code := s.GetNoteCode(); code != bursarv1.ShortfallNote_SHORTFALL_NOTE_UNSPECIFIED {
		return code
	}
	return NoteOfText(s.GetNote())
}

// HostIsAbsent reports whether a shortfall means that the requested host does not exist. If the
// host exists but lacks a dimension, the note is the same, but without a detail.
func HostIsAbsent(s *bursarv1.Shortfall) bool {
	return NoteOf(s) == bursarv1.ShortfallNote_SHORTFALL_NOTE_MISSING &&
		s.GetAccount().GetKind() == bursarv1.AccountKind_ACCOUNT_KIND_HOST && s.GetDetail() != ""
}
