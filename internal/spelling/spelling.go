// Package spelling compares words, to say what somebody has probably meant, and makes texts of
// others fit to be shown. Its functions keep nothing: any goroutine may call them.
package spelling

import (
	"strconv"
	"strings"
	"unicode"
)

// Distance is how many letters must be put in, left out or changed to make one text of the other.
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

// more stands at the end of what was cut.
const more = " …"

// Cut keeps so many bytes of a text that is read by people.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len(more)], "") + more
}

// Printable puts another character in place of each that would move the cursor, break a line or
// change the order in which a line is shown.
func Printable(text string, instead rune) string {
	return strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return instead
	}, text)
}

// Line makes a text of somebody else fit to be shown: on one line, at most so many bytes, in UTF-8,
// and without what a terminal would act on.
func Line(text string, most int) string {
	rest := ""
	if longest := 16 * most; len(text) > longest { // the rest need not be looked at
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
