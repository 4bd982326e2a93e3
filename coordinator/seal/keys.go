// Package seal proves which grants a store's coordinators have made. A coordinator puts a seal on
// each active grant that it sends to the agent of its host, and the agent sends the seal back with
// its record of the grant. If the ledger does not know the engine, because the store was put back
// or the host was given up, the seal tells a grant from an invention. The package computes only;
// all its values may be used by several goroutines.
package seal

import (
	"crypto/rand"
	"crypto/sha256"
	"log/slog"
)

// keySize is the length of one key, in bytes.
const keySize = 32

// Keys are the keys of a store, the newest first, keySize bytes each. The newest one seals, and all
// of them verify. Formatting and logging do not show them.
type Keys string

// NewKeys returns one new key.
func NewKeys() Keys {
	var key [keySize]byte
	_, _ = rand.Read(key[:]) // never fails: see its documentation
	return Keys(key[:])
}

// Valid reports whether there is at least one key, and all are whole.
func (k Keys) Valid() bool { return len(k) > 0 && len(k)%keySize == 0 }

const hidden = "(hidden)"

// String hides the keys.
func (Keys) String() string { return hidden }

// GoString hides the keys.
func (Keys) GoString() string { return hidden }

// MarshalText hides the keys.
func (Keys) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// LogValue hides the keys.
func (Keys) LogValue() slog.Value { return slog.StringValue(hidden) }

// keyID tells the keys of a store apart. It says nothing of the key.
type keyID [4]byte

func idOf(key string) (id keyID) {
	sum := sha256.Sum256([]byte("bursar seal key\n" + key))
	copy(id[:], sum[:])
	return id
}

// find returns the key with an id; empty: there is none.
func (k Keys) find(id keyID) string {
	for rest := string(k); len(rest) >= keySize; rest = rest[keySize:] {
		if idOf(rest[:keySize]) == id {
			return rest[:keySize]
		}
	}
	return ""
}
