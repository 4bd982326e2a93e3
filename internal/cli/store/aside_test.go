package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bursar/bursar/internal/regularfile"
)

// A key is accepted as the log writes it, after the shell has removed the quotes.
func TestAKeyIsTakenAsTheLogWritesIt(t *testing.T) {
	for key, want := range map[string]string{`a\x00b`: "a\x00b", `a"b\xff`: "a\"b\xff", `\u200b`: "\u200b", `a\\b`: `a\b`} {
		if got, quoted := unquoted(key); !quoted || got != want {
			t.Errorf("%s is %q, %t; want %q", key, got, quoted, want)
		}
	}
	for _, key := range []string{"vm-17", "user=alice", `a\`, `a\q`} {
		if got, quoted := unquoted(key); quoted {
			t.Errorf("%s is %q", key, got)
		}
	}
}

func TestRowsAreNotAppendedWhereALinkLeads(t *testing.T) {
	target := filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(target, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "aside.json")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, os.DevNull} {
		if err := appendAside(path, "id", "host vm", nil); !errors.Is(err, regularfile.ErrNotRegular) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
