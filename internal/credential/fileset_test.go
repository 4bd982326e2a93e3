package credential_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/internal/credential"
)

func TestFileSetFilesAreReadAgainTogether(t *testing.T) {
	now, dir := newClock(), t.TempDir()
	open, secret := filepath.Join(dir, "open"), filepath.Join(dir, "secret")
	files := []credential.File{{Field: "a", Path: open, Want: "a word"}, {Field: "b", Path: secret, Secret: true, Want: "another word"}}
	replace(t, open, []byte("one"))
	replace(t, secret, []byte("two"))
	join := func(contents [][]byte) (string, error) {
		if len(contents[1]) == 0 {
			return "", files[1].Wrong("is empty", nil)
		}
		return string(contents[0]) + "+" + string(contents[1]), nil
	}
	several, err := credential.OpenFileSet(files, credential.Options{Now: now.now}, join)
	if err != nil {
		t.Fatal(err)
	}
	first := several.Get()
	if now.advance(2 * time.Second); *first != "one+two" || several.Get() != first {
		t.Errorf("%q, then another one; want the same as nothing has changed", *first)
	}
	for _, step := range []struct{ content, want string }{{"", "one+two"}, {"three", "one+three"}} {
		replace(t, secret, []byte(step.content))
		now.advance(2 * time.Second)
		if got := *several.Get(); got != step.want {
			t.Errorf("%q: %q, want %q", step.content, got, step.want)
		}
	}
	if several.Get() == first {
		t.Error("changed files and the same pointer")
	}
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(secret, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = credential.OpenFileSet(files, credential.Options{}, join)
	if err == nil || !strings.HasPrefix(err.Error(), "b: ") || !strings.Contains(err.Error(), "chmod 0600") {
		t.Errorf("a secret that everybody can read: %v", err)
	}
	replace(t, secret, nil)
	if _, err = credential.OpenFileSet(files, credential.Options{}, join); err == nil || err.Error() != `b: "`+secret+`": is empty: want another word` {
		t.Errorf("what cannot be used: %v", err)
	}
}
