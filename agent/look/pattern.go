package look

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
)

const (
	// MaxPattern bounds a pattern, in bytes.
	MaxPattern = 1024
	// maxInstructions bounds the program that a pattern becomes. Each byte of output may cost as
	// many steps.
	maxInstructions = 2000
)

// Pattern returns a regular expression that is small enough, and that may match a line. It checks
// the size before it compiles: (a{1000}){1000} has few bytes.
func Pattern(text string) (*regexp.Regexp, error) {
	if text == "" {
		return nil, errors.New("is empty")
	}
	if len(text) > MaxPattern {
		return nil, fmt.Errorf("has %d bytes", len(text))
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err //nolint:wrapcheck // says all
	}
	if size := instructions(parsed); size > maxInstructions {
		return nil, fmt.Errorf("is too large: it repeats its parts to more than %d steps", maxInstructions)
	}
	if hasLineBreak(parsed) {
		return nil, errors.New("has a line break, and no line has one")
	}
	return regexp.Compile(text) //nolint:wrapcheck // says all
}

// inner returns the regular expression of a line whose beginning is not known: ^ does not match
// there.
func inner(text string) (*regexp.Regexp, error) {
	return regexp.Compile(`(?s:.)(?:` + text + `)`) //nolint:wrapcheck // of a pattern that was compiled
}

// instructions is about how many an expression becomes, and at most a little more than the bound.
func instructions(re *syntax.Regexp) int {
	size := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		size = min(size+instructions(sub), maxInstructions+1)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(1, re.Max, re.Min)
	}
	return min(size, maxInstructions+1)
}

// hasLineBreak reports whether an expression has a line break in a place where nothing else can
// match.
func hasLineBreak(re *syntax.Regexp) bool {
	switch re.Op { //nolint:exhaustive // the others match nothing, or more than a line break
	case syntax.OpLiteral:
		return slices.Contains(re.Rune, '\n')
	case syntax.OpConcat, syntax.OpCapture, syntax.OpPlus:
		return slices.ContainsFunc(re.Sub, hasLineBreak)
	case syntax.OpRepeat:
		return re.Min > 0 && hasLineBreak(re.Sub[0])
	}
	return false
}
