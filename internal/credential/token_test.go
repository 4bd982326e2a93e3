package credential_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/internal/credential"
)

func TestTokenIsReadAgain(t *testing.T) {
	now, path := newClock(), filepath.Join(t.TempDir(), "token")
	replace(t, path, []byte("first\n"))
	source, err := credential.Token{File: path, Text: "ignored"}.Open(credential.Options{Now: now.now})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ content, want string }{{"first", "Bearer first"}, {"second\n", "Bearer second"}, {"two words", "Bearer second"}, {"", "Bearer second"}, {"third", "Bearer third"}} {
		replace(t, path, []byte(step.content))
		now.advance(2 * time.Second)
		if got := source.Authorization(); got != step.want {
			t.Errorf("%q: %q, want %q", step.content, got, step.want)
		}
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = credential.Token{File: path}.Open(credential.Options{})
	if err == nil || !strings.Contains(err.Error(), "chmod 0600") || strings.Contains(err.Error(), "third") {
		t.Errorf("a file that everybody can read: %v", err)
	}
	text, err := credential.Token{Text: "abc"}.Open(credential.Options{})
	if err != nil || text.Token() != "abc" {
		t.Errorf("%v", err)
	}
	none, err := credential.Token{}.Open(credential.Options{})
	if err != nil || none.Authorization() != "" {
		t.Errorf("%v", err)
	}
}
