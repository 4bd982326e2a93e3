package label

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Keys that have a meaning of their own.
const (
	User       = "user"
	Creator    = "creator"
	EngineType = "engineType"
	Tenant     = "tenant"
	Cluster    = "cluster"
	Queue      = "queue"
)

// Any is the value that stands for every value in a selector or a filter.
const Any = "*"

// Limits of a label, in bytes.
const (
	maxKey   = 63
	maxValue = 255
)

// Label is one key=value.
type Label struct{ Key, Value string }

// Set is labels sorted by key, each key once. It is immutable by convention; nil is the empty set.
type Set []Label

// FromMap returns the labels of a map. The error is a *FieldError that names the first wrong label
// by key.
func FromMap(labels map[string]string) (Set, error) {
	if len(labels) == 0 {
		return nil, nil
	}
	set := make(Set, 0, len(labels))
	for key, value := range labels {
		set = append(set, Label{key, value})
	}
	slices.SortFunc(set, byKey)
	for _, l := range set {
		if err := l.check(); err != nil {
			return nil, err
		}
	}
	return set, nil
}

// Of returns a set of alternating keys and values, for tests and constants. It panics if they are
// not valid labels.
func Of(keysAndValues ...string) Set {
	if len(keysAndValues)%2 != 0 {
		panic(fmt.Sprintf("label.Of: %d strings are no pairs", len(keysAndValues)))
	}
	var set Set
	for pair := range slices.Chunk(keysAndValues, 2) {
		l := Label{pair[0], pair[1]}
		if err := l.check(); err != nil {
			panic("label.Of: " + err.Error())
		}
		if set.Has(l.Key) {
			panic("label.Of: " + l.Key + " is there twice")
		}
		set = set.With(l.Key, l.Value)
	}
	return set
}

func byKey(a, b Label) int { return cmp.Compare(a.Key, b.Key) }

// check returns nil for a label that is valid as input.
func (l Label) check() *FieldError {
	if err := checkKey(l.Key); err != nil {
		return err
	}
	return checkValue(l.Key, l.Value)
}

// checkKey returns nil for a valid key: a letter, then up to 62 letters, digits and "_./-".
func checkKey(key string) *FieldError {
	wrong := &FieldError{field(key), key, `as key a letter, then up to 62 letters, digits, "_", ".", "/" or "-"`}
	if key == "" || len(key) > maxKey || !isLetter(key[0]) {
		return wrong
	}
	for i := 1; i < len(key); i++ {
		if c := key[i]; !isLetter(c) && (c < '0' || c > '9') && !strings.ContainsRune("_./-", rune(c)) {
			return wrong
		}
	}
	return nil
}

func checkValue(key, value string) *FieldError {
	switch {
	case len(value) > maxValue:
		return &FieldError{field(key), value, fmt.Sprintf("at most %d bytes", maxValue)}
	case !utf8.ValidString(value):
		return &FieldError{field(key), value, "valid UTF-8"}
	case strings.ContainsFunc(value, unicode.IsControl):
		return &FieldError{field(key), value, "no control characters"}
	}
	return nil
}

func field(key string) string { return "labels[" + key + "]" }

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

// Get returns the value of a key and whether the set has it.
func (s Set) Get(key string) (value string, found bool) {
	for i := range s { // sets are small
		if s[i].Key == key {
			return s[i].Value, true
		}
	}
	return "", false
}

// Value returns the value of a key, "" if the set lacks it.
func (s Set) Value(key string) string {
	value, _ := s.Get(key)
	return value
}

// Has reports whether the set has the key.
func (s Set) Has(key string) bool {
	_, found := s.Get(key)
	return found
}

// Map returns the labels as a new map, nil if there are none.
func (s Set) Map() map[string]string {
	if len(s) == 0 {
		return nil
	}
	labels := make(map[string]string, len(s))
	for _, l := range s {
		labels[l.Key] = l.Value
	}
	return labels
}

// Equal reports whether both sets hold the same labels.
func (s Set) Equal(t Set) bool { return slices.Equal(s, t) }

// With returns the set with the key set to the value. It checks neither.
func (s Set) With(key, value string) Set {
	i, found := slices.BinarySearchFunc(s, key, func(l Label, key string) int { return cmp.Compare(l.Key, key) })
	if found {
		s = slices.Clone(s)
		s[i].Value = value
		return s
	}
	return slices.Insert(slices.Clip(s), i, Label{key, value})
}

// MatchesFilter reports whether the set has every label of the filter with its value, or with any
// value if the filter's is "*".
func (s Set) MatchesFilter(filter Set) bool {
	for _, want := range filter {
		if value, found := s.Get(want.Key); !found || value != want.Value && want.Value != Any {
			return false
		}
	}
	return true
}
