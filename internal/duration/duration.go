// Package duration reads durations as people type them, for flags, variables, configuration files
// and settings alike. It computes only.
package duration

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Day is 24 hours, whatever clocks do.
const Day = 24 * time.Hour

// Want says what a duration looks like, to be read after "want ".
const Want = "a duration with its unit, such as 500ms, 30s, 10m, 2h or 1d"

// Error says what could not be read, and what would be right.
type Error struct {
	Text string
	// Want is to be read after "want ".
	Want string
}

// Error returns "text": want ….
func (e *Error) Error() string { return fmt.Sprintf("%q: want %s", e.Text, e.Want) }

// Parse reads what time.ParseDuration reads, and days before it: "1d", "1d12h", "1.5d". A number
// without a unit is refused, except 0: whether 10 is seconds or minutes would be a guess. The
// error is an *Error.
func Parse(text string) (time.Duration, error) {
	rest, negative := strings.CutPrefix(text, "-")
	if !negative {
		rest = strings.TrimPrefix(text, "+")
	}
	if before, after, found := strings.Cut(rest, "d"); found {
		return withDays(text, before, after, negative)
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, wrong(text)
	}
	return d, nil
}

// withDays reads a number of days, and what is behind its unit.
func withDays(text, days, rest string, negative bool) (time.Duration, error) {
	if !isNumber(days) || rest != "" && !isNumber(rest[:1]) {
		return 0, wrong(text)
	}
	hours, err := time.ParseDuration(days + "h")
	if err != nil || hours > math.MaxInt64/24 {
		return 0, wrong(text)
	}
	d := hours * 24
	if rest != "" {
		more, err := time.ParseDuration(rest)
		if err != nil || d > math.MaxInt64-more {
			return 0, wrong(text)
		}
		d += more
	}
	if negative {
		d = -d
	}
	return d, nil
}

func wrong(text string) *Error {
	if isNumber(text) {
		return &Error{text, fmt.Sprintf("a duration with its unit, such as %ss, %sm or %sh", text, text, text)}
	}
	return &Error{text, Want}
}

// isNumber reports whether a text has digits and at most one point, as a number without a sign.
func isNumber(text string) bool {
	whole, fraction, _ := strings.Cut(text, ".")
	digits := whole + fraction
	return digits != "" && strings.Trim(digits, "0123456789") == ""
}
