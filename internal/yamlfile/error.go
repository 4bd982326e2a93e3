package yamlfile

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/token"
)

// Error describes a fault in a file, and its place.
type Error struct {
	File string
	// Line and Column count from 1; 0 if there is no place.
	Line, Column int
	// Field is a path such as "quotas[3].limit.memory"; empty if the text is not YAML.
	Field string
	// Reason describes the fault and a valid value.
	Reason string

	lines []string // Line, with the line before it if there is one
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

// excerptWidth is how much of a line an excerpt shows, in characters.
const excerptWidth = 120

// Excerpt returns the lines at the fault with line numbers and a caret below; empty if there is no
// place. Every line ends with a newline. A long line is cut to the part around the fault.
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

// part returns the excerpt of a line, starting with the character at index first.
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

// HideExcerpt empties the excerpt, because the lines may contain a secret.
func (e *Error) HideExcerpt() { e.lines = nil }

// printable replaces each tab and control character by one blank, so that the caret has the right
// column.
func printable(line string) string {
	return strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return ' '
	}, line)
}

// line returns the line of the fault.
func (e *Error) line() string {
	if len(e.lines) == 0 {
		return ""
	}
	return e.lines[len(e.lines)-1]
}

// errorAt returns an error that points to a token.
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
