package main

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/bursar/bursar/internal/spelling"
)

// Text from others may hold what a terminal acts on: escape sequences, also in C1 controls, marks
// that change the order in which a line is shown, and line breaks that make one line look like
// two. Everything that this program prints goes through one of these: printable for a text that
// must stay in its line, harmless for all that is written to standard output or standard error.

// printable replaces what would move the cursor, break a line or change the order in which a line
// is shown.
func printable(text string) string { return spelling.Printable(text, '?') }

// printables makes the texts among the arguments printable.
func printables(args []any) []any {
	clean := make([]any, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			clean[i] = printable(arg)
		case error:
			clean[i] = printable(arg.Error())
		default:
			clean[i] = arg
		}
	}
	return clean
}

// harmless writes text so that a terminal only breaks lines and goes to tab stops. Each Write must
// end at a character's end.
type harmless struct {
	to io.Writer
	// json: the text is JSON, and must mean the same afterwards.
	json bool
}

func (h harmless) Write(text []byte) (int, error) {
	if _, err := h.to.Write(h.clean(text)); err != nil {
		return 0, err //nolint:wrapcheck // names the file
	}
	return len(text), nil
}

func (h harmless) clean(text []byte) []byte {
	acts := func(r rune) bool { return !strconv.IsPrint(r) && r != '\n' && r != '\t' }
	if bytes.IndexFunc(text, acts) < 0 && utf8.Valid(text) {
		return text
	}
	clean := make([]byte, 0, len(text)+len(text)/8)
	for _, r := range string(text) {
		switch {
		case !acts(r):
			clean = utf8.AppendRune(clean, r)
		case !h.json:
			clean = append(clean, '?')
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			clean = fmt.Appendf(clean, `\u%04x\u%04x`, high, low)
		default:
			// Outside of its values JSON has only blanks, which are kept.
			clean = fmt.Appendf(clean, `\u%04x`, r)
		}
	}
	return clean
}
