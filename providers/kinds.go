package providers

import (
	"fmt"
	"strings"
)

// Kinds is the list of kinds that a program supports.
type Kinds []Kind

// Find returns the kind with this name. The error is a *KindError.
func (k Kinds) Find(name string) (Kind, error) {
	for _, kind := range k {
		if kind.Name() == name {
			return kind, nil
		}
	}
	return nil, &KindError{Kind: name, Known: k.names()}
}

// FullPaths returns the names of the kinds that implement FullPaths.
func (k Kinds) FullPaths() []string {
	var names []string
	for _, kind := range k {
		if _, full := kind.(FullPaths); full {
			names = append(names, kind.Name())
		}
	}
	return names
}

// Terms returns the terms in the settings of a cluster. They are zero if the kind is unknown or
// does not implement Termed.
func (k Kinds) Terms(kind string, settings map[string]string) Terms {
	found, err := k.Find(kind)
	if termed, says := found.(Termed); err == nil && says {
		return termed.Terms(settings)
	}
	return Terms{}
}

func (k Kinds) names() []string {
	names := make([]string, len(k))
	for i, kind := range k {
		names[i] = kind.Name()
	}
	return names
}

// KindError reports that this program has no provider of a kind.
type KindError struct {
	Kind  string
	Known []string
}

func (e *KindError) Error() string { return fmt.Sprintf("kind: %q: want %s", e.Kind, e.Want()) }

// Want lists the kinds that this program has.
func (e *KindError) Want() string {
	if len(e.Known) == 0 {
		return "another program: this one has no providers"
	}
	return strings.Join(e.Known, " or ")
}

// maxCluster is the API's limit on the length of a cluster name.
const maxCluster = 128

// WantCluster describes a valid cluster name. The rule makes sure that the name fits into an
// address.
const WantCluster = `1 to 128 letters, digits, "-", "_" and ".", a letter or a digit first`

// ValidCluster reports whether a name follows the rule in WantCluster.
func ValidCluster(name string) bool {
	if name == "" || len(name) > maxCluster {
		return false
	}
	for i := range len(name) {
		c := name[i]
		alphanumeric := '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
		if !alphanumeric && (i == 0 || c != '-' && c != '_' && c != '.') {
			return false
		}
	}
	return true
}
