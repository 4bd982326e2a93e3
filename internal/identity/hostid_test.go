package identity_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/bursar/bursar/internal/identity"
)

// The pattern is that of the contract.
func TestWhichTextsAreIDsOfHosts(t *testing.T) {
	pattern := regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._:-]{0,252}$`)
	texts := []string{"", strings.Repeat("x", 252), strings.Repeat("x", 253), strings.Repeat("x", 254), "\xff", "h\n", "ä", "h\u202e"}
	for c := range 256 {
		texts = append(texts, string([]byte{byte(c)}), "h"+string([]byte{byte(c)}), "h"+string([]byte{byte(c)})+"h")
	}
	for _, text := range texts {
		if got, want := identity.IsHostID(text), pattern.MatchString(text); got != want {
			t.Errorf("%q: %t; want %t", text, got, want)
		}
	}
}
