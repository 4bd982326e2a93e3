package credential

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fileOf is a file with a mode and an owner.
type fileOf struct {
	mode  fs.FileMode
	owner uint32
}

func (fileOf) Name() string        { return "f" }
func (fileOf) Size() int64         { return 1 }
func (f fileOf) Mode() fs.FileMode { return f.mode }
func (fileOf) ModTime() time.Time  { return time.Time{} }
func (fileOf) IsDir() bool         { return false }
func (f fileOf) Sys() any          { return &syscall.Stat_t{Uid: f.owner} }

// Only the owner of a secret, which is root or our own user, may have written it.
func TestWhoMayChangeOrReadASecret(t *testing.T) {
	for _, test := range []struct {
		of    fileOf
		us    int
		wrong string // begins so; empty: it is taken
	}{
		{fileOf{0o600, 0}, 0, ""},
		{fileOf{0o640, 0}, 0, ""},
		{fileOf{0o400, 0}, 1000, ""},
		{fileOf{0o440, 1000}, 1000, ""},
		{fileOf{0o750, 1000}, 1000, ""},
		{fileOf{0o644, 0}, 0, "everybody on this machine"},
		{fileOf{0o602, 0}, 0, "everybody on this machine"},
		{fileOf{0o660, 0}, 0, "its group can change it (mode 0660)"},
		{fileOf{0o620, 1000}, 1000, "its group can change it"},
		{fileOf{0o600, 65534}, 0, "it belongs to another user (uid 65534)"},
		{fileOf{0o640, 1001}, 1000, "it belongs to another user (uid 1001)"},
	} {
		wrong, want := exposed(test.of, test.us)
		if !strings.HasPrefix(wrong, test.wrong) || (wrong == "") != (test.wrong == "") || (want == "") != (wrong == "") {
			t.Errorf("%+v for %d: %q, want %q", test.of, test.us, wrong, want)
		}
	}
}

func TestASecretThatItsGroupCanChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, taken := range map[fs.FileMode]bool{0o600: true, 0o640: true, 0o660: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := OpenFileSet([]File{{Field: "tokenFile", Path: path, Secret: true, Want: "a token"}}, Options{}, func([][]byte) (int, error) { return 0, nil })
		if (err == nil) != taken {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
}
