package ledger

import (
	"strings"
	"unicode/utf8"
)

// Rows hold texts as UTF-8 and nothing else. Callers' texts are that by the wire's own rules; names that come from a machine's tables, or from
// whoever uses the ledger as a library, need not be.

// words is a text that is only shown, as a row can hold it.
func words(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return strings.ToValidUTF8(text, string(utf8.RuneError))
}

// everyWord does the same for a list, which may be shared.
func everyWord(list []string) []string {
	for i := range list {
		if utf8.ValidString(list[i]) {
			continue
		}
		clean := make([]string, len(list))
		for i := range list {
			clean[i] = words(list[i])
		}
		return clean
	}
	return list
}

// checkName refuses a text by which something is found again, and which another must not stand in for. The error is a *FieldError.
func checkName(field, text string) error {
	if utf8.ValidString(text) {
		return nil
	}
	return &FieldError{field, words(text), "valid UTF-8"}
}
