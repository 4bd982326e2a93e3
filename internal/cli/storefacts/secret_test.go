package storefacts

import (
	"os"
	"path/filepath"
	"testing"
)

// The address in a file is the same whatever an editor puts around it.
func TestAnAddressIsReadFromAFile(t *testing.T) {
	const want = "postgres://db/bursar"
	for _, content := range []string{want, want + "\n", "\ufeff" + want + "\r\n"} {
		path := filepath.Join(t.TempDir(), "store")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadSecret(path); err != nil || got != want {
			t.Errorf("%q is read as %q, %v", content, got, err)
		}
	}
}
