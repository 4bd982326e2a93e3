package providers

import (
	"maps"
	"slices"
	"strings"

	"github.com/bursar/bursar/internal/spelling"
)

// CheckNames refuses settings that are not among the known names, and settings without a value.
// What an unknown one says may be a secret, so it is not repeated. The error is a *SettingError.
func CheckNames(given map[string]string, known []string) error {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if slices.Contains(known, name) {
			if given[name] == "" {
				return &SettingError{Setting: name, Want: "a value, or no such setting"}
			}
			continue
		}
		want := "a setting that there is: " + strings.Join(known, ", ")
		if near := nearest(name, known); near != "" {
			want = "a setting that there is; did you mean " + near + "?"
		}
		return &SettingError{Setting: name, Value: Hidden, Want: want}
	}
	return nil
}

// nearest returns the one of the names that was probably meant: the same but for case and
// punctuation, one that the other begins with, or the closest of those with at most two letters
// wrong. Empty: none.
func nearest(name string, names []string) string {
	plain := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r == '_' || r == '-' || r == '.' || r == ' ' {
				return -1
			}
			return r
		}, strings.ToLower(s))
	}
	if len(name) > 64 {
		return ""
	}
	best, least := "", 3
	for _, candidate := range names {
		a, b := plain(name), plain(candidate)
		d := spelling.Distance(a, b)
		if len(a) >= 4 && strings.HasPrefix(b, a) || len(b) >= 4 && strings.HasPrefix(a, b) {
			d = min(d, 1)
		}
		if d < least && d < len(b) {
			best, least = candidate, d
		}
	}
	return best
}
