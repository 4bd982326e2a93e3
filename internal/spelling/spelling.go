// Package spelling compares words, to say what somebody has probably meant, cuts texts that are too
// long, and makes them printable. Its functions keep nothing: any goroutine may call them.
package spelling

import (
	"strconv"
	"strings"
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

// Cut keeps so many bytes of a text that is read by people.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	const more = " …"
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
