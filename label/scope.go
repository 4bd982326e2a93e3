package label

import (
	"encoding/binary"
	"slices"
	"strings"
)

// Scope is the set of label keys of a quota. The zero Scope is empty.
type Scope struct {
	keys []string // sorted, each once
	key  string   // joined by commas, which no key contains
}

// NewScope returns the scope of these keys, in any order.
func NewScope(keys ...string) Scope {
	keys = slices.Clone(keys)
	slices.Sort(keys)
	keys = slices.Compact(keys)
	return Scope{keys: keys, key: strings.Join(keys, ",")}
}

// Key returns the keys joined by commas; two scopes are equal if their Keys are.
func (s Scope) Key() string { return s.key }

// Keys returns the keys in order. The slice is shared and must not be modified.
func (s Scope) Keys() []string { return s.keys }

// AppendKey appends this scope and the set's values for it, in a unique form, and does not allocate
// beyond dst. The result identifies an account.
func (s Scope) AppendKey(dst []byte, set Set) []byte {
	dst = appendString(dst, s.key)
	i := 0
	for _, key := range s.keys {
		for i < len(set) && set[i].Key < key {
			i++
		}
		if i < len(set) && set[i].Key == key {
			dst = appendString(dst, set[i].Value)
		} else {
			dst = appendString(dst, "")
		}
	}
	return dst
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// Project returns the set restricted to the scope's keys; missing keys get the empty value.
func (s Scope) Project(set Set) Set {
	if len(s.keys) == 0 {
		return nil
	}
	projected := make(Set, len(s.keys))
	for i, key := range s.keys {
		projected[i] = Label{key, set.Value(key)}
	}
	return projected
}
