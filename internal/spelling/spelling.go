// Package spelling compares words, to suggest the probably intended one, and makes foreign texts
// safe to display. Its functions have no state and are safe for concurrent use.
package spelling

import (
	"strconv"
	"strings"
	"unicode"
)

// Distance returns the number of letters to insert, remove or change to turn one text into the
// other.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// more marks the end of a text that was cut.
const more = " …"

// Cut shortens a text for people; most is the bound in bytes.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len(more)], "") + more
}

// Printable replaces each character that would move the cursor, break a line or change the display
// order of a line.
func Printable(text string, instead rune) string {
	return strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return instead
	}, text)
}

// Line makes a foreign text safe to display: one line of UTF-8, up to most bytes, without
// terminal control characters.
func Line(text string, most int) string {
	rest := ""
	if longest := 16 * most; len(text) > longest { // the rest cannot appear in the result
		text, rest = text[:longest], more
	}
	shown := strings.Map(func(r rune) rune {
		switch {
		case r == unicode.ReplacementChar:
			return '?'
		case unicode.IsSpace(r), unicode.IsControl(r):
			return ' '
		case !strconv.IsPrint(r):
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	return Cut(strings.Join(strings.Fields(shown), " ")+rest, most)
}
