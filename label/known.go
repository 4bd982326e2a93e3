package label

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bursar/bursar/internal/spelling"
)

// WellKnown returns the keys that have a meaning of their own.
func WellKnown() []string { return []string{User, Creator, EngineType, Tenant, Cluster, Queue} }

// Near returns the known key for which another key is probably a misspelling: the same letters in
// other case or with other separators, or one different letter, in long keys two. It is empty if
// there is none, or if the key is known.
func Near(key string, known []string) string {
	if slices.Contains(known, key) {
		return ""
	}
	const short, long = 4, 8 // letters of a key in which one or two may differ
	folded := fold(key)
	var near string
	var least int // the distance of near
	for _, k := range known {
		other := fold(k)
		distance := spelling.Distance(folded, other)
		allowed := 0
		switch {
		case len(other) >= long:
			allowed = 2
		case len(other) >= short:
			allowed = 1
		}
		if distance <= allowed && (near == "" || distance < least) {
			near, least = k, distance
		}
	}
	return near
}

// fold returns a key without case and separators.
func fold(key string) string {
	return strings.NewReplacer("_", "", "-", "", ".", "", "/", "").Replace(strings.ToLower(key))
}

// Doubt asks whether a key is a misspelling of a known key; empty if it is not.
func Doubt(key string, known []string) string {
	if near := Near(key, known); near != "" {
		return fmt.Sprintf("label %s: did you mean %s? A label of another key is counted by no rule for %s", key, near, near)
	}
	return ""
}

// Restrict refuses labels of other keys from now on: those that are neither among these nor
// well-known, and that no rule here names. An empty list removes the restriction. The error is a
// *FieldError.
func (p *Preprocessor) Restrict(keys []string) error {
	for i, key := range keys {
		if err := checkKey(key); err != nil {
			return &FieldError{fmt.Sprintf("knownLabels[%d]", i), key, err.Want}
		}
		if to := p.keys[key]; to != "" {
			return &FieldError{fmt.Sprintf("knownLabels[%d]", i), key, "the key that it stands for, " + to}
		}
	}
	if len(keys) == 0 {
		p.known = nil
		return nil
	}
	p.known = slices.Compact(slices.Sorted(slices.Values(slices.Concat(keys, p.Known()))))
	return nil
}

// Known returns, in order, the well-known keys, the keys that the rules name, and those that
// Restrict allows.
func (p *Preprocessor) Known() []string {
	list := WellKnown()
	if p == nil {
		slices.Sort(list)
		return list
	}
	for key := range p.values {
		list = append(list, key)
	}
	for _, l := range p.defaults {
		list = append(list, l.Key)
	}
	for _, d := range p.derived {
		list = append(append(list, d.Key), d.sources()...)
	}
	list = slices.Concat(list, p.required, p.known)
	slices.Sort(list)
	return slices.Compact(list)
}

// Gives reports whether requests have a label with this key after the rules: it is required, or a
// default or a derivation sets it. A derivation may set it for some requests only.
func (p *Preprocessor) Gives(key string) bool {
	if key == User {
		return true
	}
	return p != nil && (slices.Contains(p.required, key) || p.defaults.Has(key) || p.derives(key))
}

// convertKnown applies the aliases, and refuses unknown keys.
func (p *Preprocessor) convertKnown(set Set) (Set, error) {
	out, err := p.convertAll(set)
	if err != nil {
		return nil, err
	}
	return out, p.checkKnown(out)
}

// checkKnown refuses a label with an unknown key, if Restrict was called.
func (p *Preprocessor) checkKnown(set Set) error {
	for _, l := range set {
		if p.Restricts(l.Key) {
			return &FieldError{field(l.Key), l.Value, p.WantKnown(l.Key)}
		}
	}
	return nil
}

// Restricts reports whether Restrict made a key unknown, so that it is refused.
func (p *Preprocessor) Restricts(key string) bool {
	if p == nil || p.known == nil || p.keys[key] != "" {
		return false
	}
	_, found := slices.BinarySearch(p.known, key)
	return !found
}

// WantKnown lists the known keys, to be read after "want ".
func (p *Preprocessor) WantKnown(key string) string {
	want := "a label with one of the known keys (knownLabels of the coordinator): " + strings.Join(p.known, ", ")
	if near := Near(key, p.known); near != "" {
		want += "; did you mean " + near + "?"
	}
	return want
}
