package resource

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The limits of external input, as in the API.
const (
	// MaxCustom is the largest number of custom dimensions in one vector, without those of
	// applications.
	MaxCustom = 16
	// MaxExternal is the largest number of external parts in one resource.
	MaxExternal = 8

	maxName    = 63
	maxKind    = 32
	maxCluster = 128
	maxPath    = 512
	// maxDepth is the largest number of names in a path. The deepest known paths have a dozen. Each
	// name is an account while a request uses it.
	maxDepth = 32
)

// Validate returns the first fault in v as external input, as a *FieldError: a quantity below zero
// or above MaxQuantity, a malformed custom name, or too many of them.
func (v Vector) Validate() error {
	if err := v.check(); err != nil {
		return err
	}
	return nil
}

// Validate returns the first fault in r as external input, as a *FieldError: the faults of
// Vector.Validate in any part, a malformed or duplicate address, or too many parts.
func (r Resource) Validate() error {
	if err := r.check(); err != nil {
		return err
	}
	if len(r.External) > MaxExternal {
		return tooMany("external", len(r.External), MaxExternal)
	}
	for i, e := range r.External {
		at := func() string { return "external[" + e.Address.String() + "]" }
		if err := e.Address.check(); err != nil {
			return err.within(at())
		}
		if i > 0 {
			switch c := r.External[i-1].Compare(e.Address); {
			case c == 0:
				return &FieldError{at(), "listed twice", "each address once"}
			case c > 0:
				return &FieldError{at(), "out of order", "parts sorted by address"}
			}
		}
		if err := e.Vector.check(); err != nil {
			return err.within(at())
		}
	}
	return nil
}

func (v Vector) check() *FieldError {
	for dimension, quantity := range v.All() {
		if quantity < 0 || quantity > MaxQuantity {
			return &FieldError{dimension, strconv.FormatInt(quantity, 10), fmt.Sprintf("0 to %d", int64(MaxQuantity))}
		}
	}
	n := 0
	for _, q := range v.Custom() {
		if !OfApplications(q.Name) {
			n++
		}
	}
	if n > MaxCustom {
		return tooMany("custom", n, MaxCustom)
	}
	for _, q := range v.Custom() {
		if err := checkCustomName(q.Name); err != nil {
			return err
		}
	}
	return nil
}

func tooMany(field string, n, most int) *FieldError {
	return &FieldError{field, strconv.Itoa(n), fmt.Sprintf("at most %d of them", most)}
}

// checkCustomName returns nil for a valid name of a custom countable: a letter, then up to 62
// letters, digits and "_./-", and not a fixed dimension.
func checkCustomName(name string) *FieldError {
	const want = `a letter, then up to 62 letters, digits, "_", ".", "/" or "-"`
	switch name {
	case Memory, CPU, Instances:
		return &FieldError{"custom", name, "a name that is not a fixed dimension's"}
	case "":
		return &FieldError{"custom", name, want}
	}
	if len(name) > maxName || !isLetter(name[0]) {
		return &FieldError{"custom", name, want}
	}
	for i := 1; i < len(name); i++ {
		if c := name[i]; !isLetter(c) && !isDigit(c) && !strings.ContainsRune("_./-", rune(c)) {
			return &FieldError{"custom", name, want}
		}
	}
	return nil
}

func (a Address) check() *FieldError {
	if !validKind(a.Kind) {
		return &FieldError{"kind", a.Kind, `a lower case letter, then up to 31 lower case letters, digits or "-", such as "yarn"`}
	}
	if a.Path == "" {
		return &FieldError{"path", a.Path, "the place in the cluster, such as a queue's full path"}
	}
	for _, f := range []struct {
		name, value string
		most        int
	}{{"cluster", a.Cluster, maxCluster}, {"path", a.Path, maxPath}, {"partition", a.Partition, maxCluster}} {
		if len([]rune(f.value)) > f.most {
			return &FieldError{f.name, f.value, fmt.Sprintf("at most %d characters", f.most)}
		}
		if !utf8.ValidString(f.value) {
			return &FieldError{f.name, strings.ToValidUTF8(f.value, string(utf8.RuneError)), "valid UTF-8"}
		}
	}
	if !ValidPath(a.Path) {
		return &FieldError{"path", a.Path, fmt.Sprintf("at most %d names, with a dot between two", maxDepth)}
	}
	return nil
}

// WantPath describes the paths that ValidPath accepts, as the text after "want ".
const WantPath = "at most 32 names with a dot between two, and 512 characters"

// ValidPath reports whether a path is valid: names separated by dots, within the limits.
func ValidPath(path string) bool {
	depth := 0
	for name := range strings.SplitSeq(path, ".") {
		if depth++; name == "" || depth > maxDepth {
			return false
		}
	}
	return len([]rune(path)) <= maxPath
}

func validKind(kind string) bool {
	if kind == "" || len(kind) > maxKind || kind[0] < 'a' || kind[0] > 'z' {
		return false
	}
	for i := 1; i < len(kind); i++ {
		if c := kind[i]; (c < 'a' || c > 'z') && !isDigit(c) && c != '-' {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
