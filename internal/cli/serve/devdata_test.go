package serve

import (
	"os"
	"path/filepath"
	"testing"
)

// Other users' engines have their logs below the data of root's dev.
func TestDataOfRootsDevCanBeEnteredAndNotListed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test plays several users: it needs root")
	}
	made := func(path string, mode os.FileMode) string {
		t.Helper()
		if err := os.Mkdir(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	dir := t.TempDir()
	for name, test := range map[string]struct {
		path     string
		standard bool
		want     os.FileMode
	}{
		"new":                          {filepath.Join(dir, "a", "new"), false, 0o711},
		"of an older version":          {made(filepath.Join(dir, "old"), 0o700), true, 0o711},
		"of an operator":               {made(filepath.Join(dir, "own"), 0o700), false, 0o700},
		"of an operator, the standard": {made(filepath.Join(dir, "standard"), 0o755), true, 0o755},
	} {
		if err := makeDataDir(test.path, test.standard); err != nil {
			t.Error(err)
		}
		if info, err := os.Stat(test.path); err != nil || info.Mode().Perm() != test.want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}
