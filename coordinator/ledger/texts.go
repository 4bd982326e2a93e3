package ledger

import (
	"strings"
	"unicode/utf8"
)

// Rows hold texts as UTF-8 only. Callers' texts are valid by the rules of the wire. Names from a
// machine's tables, or from a program that uses the ledger as a library, may be invalid.

// validText is a text that is only shown, as valid UTF-8.
func validText(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return strings.ToValidUTF8(text, string(utf8.RuneError))
}

// validTexts does the same for a list. The list may be shared, so it is copied if it changes.
func validTexts(list []string) []string {
	for i := range list {
		if utf8.ValidString(list[i]) {
			continue
		}
		clean := make([]string, len(list))
		for i := range list {
			clean[i] = validText(list[i])
		}
		return clean
	}
	return list
}

// checkName refuses an invalid text that is a key: it cannot be replaced by another text. The
// error is a *FieldError.
func checkName(field, text string) error {
	if utf8.ValidString(text) {
		return nil
	}
	return &FieldError{field, validText(text), "valid UTF-8"}
}
