package providers

import (
	"fmt"
	"strings"
)

// Kinds are the kinds that a program knows.
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

// FullPaths are the names of those that are FullPaths.
func (k Kinds) FullPaths() []string {
	var names []string
	for _, kind := range k {
		if _, full := kind.(FullPaths); full {
			names = append(names, kind.Name())
		}
	}
	return names
}

// Terms returns what the settings of a cluster say of requests for it. They are zero for a kind
// whose settings say nothing, or that is not known.
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

// KindError says that there is no provider of a kind in this program.
type KindError struct {
	Kind  string
	Known []string
}

func (e *KindError) Error() string { return fmt.Sprintf("kind: %q: want %s", e.Kind, e.Want()) }

// Want says what would be right.
func (e *KindError) Want() string {
	if len(e.Known) == 0 {
		return "another program: this one has no providers"
	}
	return strings.Join(e.Known, " or ")
}

// maxCluster is the contract's bound on the name of a cluster.
const maxCluster = 128

// WantCluster says what a name of a cluster looks like, so that it can stand in an address.
const WantCluster = `1 to 128 letters, digits, "-", "_" and ".", a letter or a digit first`

// ValidCluster reports whether a cluster may be called so.
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
