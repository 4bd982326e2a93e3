package spelling

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Unseen reports whether a character cannot be seen, or changes how others are shown.
func Unseen(r rune) bool {
	return !strconv.IsPrint(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// Quote writes a text in double quotes. Two texts that differ look different if they have the same
// letters: characters that cannot be seen are escaped as \uXXXX, or \xXX if they are no UTF-8, and
// so are double quotes and backslashes. Unquote is the way back.
func Quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for piece := range escaped(text) {
		b.WriteString(piece)
	}
	b.WriteByte('"')
	return b.String()
}

// Quoted is Quote, cut to so many bytes.
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

// escaped yields the characters of a text as Quote writes them.
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

// Unquote reads a text in double quotes at the beginning of another text, as Quote writes it, and
// returns what comes behind it. It refuses escapes that Quote does not write.
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
	return "", "", false // it has no end
}
