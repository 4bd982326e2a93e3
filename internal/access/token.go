package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"io"
	"strings"
)

const (
	// tokenPrefix lets people, and programs that search code for secrets, recognize a token.
	tokenPrefix = "bursar_"
	tokenBytes  = 32
	hashPrefix  = "sha256:"
)

// NewToken makes a token of 32 random bytes: "bursar_" and 52 letters and digits. Bursar does not
// keep the token; a file of identities has its Hash.
func NewToken() string { return newToken(rand.Reader) }

func newToken(random io.Reader) string {
	secret := make([]byte, tokenBytes)
	if _, err := io.ReadFull(random, secret); err != nil { // crypto/rand never fails
		panic(err)
	}
	return tokenPrefix + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(secret))
}

// Hash returns the hash of a token, in the form of a file of identities.
func Hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hashPrefix + hex.EncodeToString(sum[:])
}
