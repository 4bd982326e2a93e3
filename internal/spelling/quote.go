package spelling

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Unseen reports whether a character is invisible, or changes the display of others.
func Unseen(r rune) bool {
	return !strconv.IsPrint(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// Quote writes a text in double quotes. Different texts with the same letters look different: it
// escapes invisible characters as \uXXXX, bytes that are no UTF-8 as \xXX, and also double quotes
// and backslashes. Unquote reverses it.
func Quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for piece := range escaped(text) {
		b.WriteString(piece)
	}
	b.WriteByte('"')
	return b.String()
}

// Quoted is Quote, cut if necessary; most is the bound in bytes.
func Quoted(text string, most int) string {
	const cut = `…"`
	var b strings.Builder
	b.WriteByte('"')
	for piece := range escaped(text) {
		if b.Len()+len(piece)+len(cut) > most {
			b.WriteString(cut)
			return b.String()
		}
		b.WriteString(piece)
	}
	b.WriteByte('"')
	return b.String()
}

// escaped yields the characters of a text in the form that Quote writes.
func escaped(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := 0; i < len(text); {
			r, size := utf8.DecodeRuneInString(text[i:])
			piece := text[i : i+size]
			switch {
			case r == utf8.RuneError && size == 1:
				piece = fmt.Sprintf(`\x%02x`, text[i])
			case r == '"' || r == '\\':
				piece = `\` + piece
			case Unseen(r) && r > 0xffff:
				piece = fmt.Sprintf(`\U%08x`, r)
			case Unseen(r):
				piece = fmt.Sprintf(`\u%04x`, r)
			}
			if !yield(piece) {
				return
			}
			i += size
		}
	}
}

// Unquote reads a quoted text, in the form that Quote writes, at the beginning of another text. It
// also returns the rest. It refuses escapes that Quote does not write.
func Unquote(quoted string) (text, rest string, ok bool) {
	if !strings.HasPrefix(quoted, `"`) {
		return "", "", false
	}
	var b strings.Builder
	for s := quoted[1:]; s != ""; {
		switch s[0] {
		case '"':
			return b.String(), s[1:], true
		case '\\':
			size := map[byte]int{'"': 2, '\\': 2, 'x': 4, 'u': 6, 'U': 10}[s[min(1, len(s)-1)]]
			if size == 0 || len(s) < size {
				return "", "", false
			}
			if size == 2 {
				b.WriteByte(s[1])
				s = s[2:]
				continue
			}
			n, err := strconv.ParseUint(s[2:size], 16, 32)
			switch {
			case err != nil:
				return "", "", false
			case size == 4:
				b.WriteByte(byte(n)) //nolint:gosec // of two digits
			case n > unicode.MaxRune || !utf8.ValidRune(rune(n)):
				return "", "", false
			default:
				b.WriteRune(rune(n))
			}
			s = s[size:]
		default:
			b.WriteByte(s[0])
			s = s[1:]
		}
	}
	return "", "", false // the closing quote is missing
}
