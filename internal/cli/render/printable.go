package render

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/bursar/bursar/internal/spelling"
)

// Text from others may hold bytes that a terminal acts on: escape sequences, also in C1
// controls, marks that change the order in which a line is shown, and line breaks that make one
// line look like two. Everything that this program prints goes through one of these: printable for
// a text that must stay in its line, harmless for all that is written to standard output or
// standard error.

// Printable replaces characters that would move the cursor, break a line or change the order in
// which a line is shown.
func Printable(text string) string { return spelling.Printable(text, '?') }

// Printables makes the texts among the arguments printable.
func Printables(args []any) []any {
	clean := make([]any, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			clean[i] = Printable(arg)
		case error:
			clean[i] = Printable(arg.Error())
		default:
			clean[i] = arg
		}
	}
	return clean
}

// Harmless writes text so that a terminal only breaks lines and goes to tab stops. Each Write must
// end at a character's end.
type Harmless struct {
	To io.Writer
	// json: the text is JSON, and must mean the same afterwards.
	JSON bool
}

func (h Harmless) Write(text []byte) (int, error) {
	if _, err := h.To.Write(h.clean(text)); err != nil {
		return 0, err //nolint:wrapcheck // names the file
	}
	return len(text), nil
}

func (h Harmless) clean(text []byte) []byte {
	acts := func(r rune) bool { return !strconv.IsPrint(r) && r != '\n' && r != '\t' }
	if bytes.IndexFunc(text, acts) < 0 && utf8.Valid(text) {
		return text
	}
	clean := make([]byte, 0, len(text)+len(text)/8)
	for _, r := range string(text) {
		switch {
		case !acts(r):
			clean = utf8.AppendRune(clean, r)
		case !h.JSON:
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

// Shown is a text as it was typed if a terminal can show it, else in quotes with escapes.
func Shown(text string) string {
	if quoted := strconv.Quote(text); quoted != `"`+text+`"` {
		return quoted
	}
	return text
}

// OneLine writes a text with single blanks in place of line breaks.
func OneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
