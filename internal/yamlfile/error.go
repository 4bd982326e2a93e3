package yamlfile

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/token"
)

// Error says what is wrong in a file, and at which place.
type Error struct {
	File string
	// Line and Column count from 1; 0 if there is no place to point to.
	Line, Column int
	// Field is a path such as "quotas[3].limit.memory"; empty if the text is no YAML.
	Field string
	// Reason says what is wrong and what would be right.
	Reason string

	lines []string // the one before Line, if there is one, and Line
	token *token.Token
}

// Error returns one line: "file:line:column: field: reason".
func (e *Error) Error() string {
	text := e.File
	if e.Line > 0 {
		text += fmt.Sprintf(":%d:%d", e.Line, e.Column)
	}
	if e.Field != "" {
		text += ": " + e.Field
	}
	return text + ": " + e.Reason
}

// excerptWidth is how many characters of a line an excerpt shows.
const excerptWidth = 120

// Excerpt returns the place in the file, as lines with their numbers and a caret below; empty if
// there is no place. Every line ends with a newline. Of long lines it is the part around the
// place.
func (e *Error) Excerpt() string {
	var b strings.Builder
	first := max(0, e.Column-excerptWidth)
	for i, line := range e.lines {
		fmt.Fprintf(&b, "%5d | %s\n", e.Line-len(e.lines)+1+i, printable(part(line, first)))
	}
	if len(e.lines) > 0 {
		fmt.Fprintf(&b, "%5s | %s^\n", "", strings.Repeat(" ", e.Column-1-first))
	}
	return b.String()
}

// part is what an excerpt shows of a line, from the first character of it on.
func part(line string, first int) string {
	begin, n := len(line), 0
	for at := range line {
		if n == first {
			begin = at
		}
		if n == first+excerptWidth {
			return line[begin:at]
		}
		n++
	}
	return line[begin:]
}

// HideExcerpt makes the excerpt empty: what stands there may be a secret.
func (e *Error) HideExcerpt() { e.lines = nil }

// Tabs and control characters of a terminal become one blank each, so that the caret is at its
// place.
func printable(line string) string {
	return strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return ' '
	}, line)
}

// line returns the line that is wrong.
func (e *Error) line() string {
	if len(e.lines) == 0 {
		return ""
	}
	return e.lines[len(e.lines)-1]
}

// at returns an error that points to a token.
func (d *Document) errorAt(t *token.Token, field, reason string) *Error {
	e := &Error{File: d.name, Field: field, Reason: reason}
	if t == nil || t.Position == nil {
		return e
	}
	all := strings.Split(string(d.data), "\n")
	if t.Position.Line < 1 || t.Position.Line > len(all) {
		return e
	}
	e.Line, e.Column = t.Position.Line, max(1, t.Position.Column)
	e.lines = all[max(0, e.Line-2):e.Line]
	for i, line := range e.lines {
		e.lines[i] = strings.TrimSuffix(line, "\r")
	}
	return e
}
