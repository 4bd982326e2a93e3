package providers

import (
	"maps"
	"slices"
	"strings"

	"github.com/bursar/bursar/internal/spelling"
)

// CheckNames rejects unknown settings and settings without a value. It does not repeat the value of
// an unknown setting, because that may be a secret. The error is a *SettingError.
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

// nearest returns the name that the operator probably meant: the same name except for case and
// punctuation, a name that is a prefix of the other, or the closest name with at most two wrong
// letters. Empty: no name is close enough.
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
