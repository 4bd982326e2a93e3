package regularfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bursar/bursar/internal/regularfile"
)

func TestReadsRegularFilesOnlyAndWaitsForNone(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, content := range map[string]string{"exact": "12345678", "large": "123456789", "empty": ""} {
		if err := os.WriteFile(path(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(path("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("exact", path("link")); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]struct{ content, wrong string }{
		path("exact"):  {content: "12345678"},
		path("link"):   {content: "12345678"},
		path("empty"):  {},
		path("large"):  {wrong: ": 9 bytes: want at most 8"},
		path("fifo"):   {wrong: ": want a regular file"},
		dir:            {wrong: ": want a regular file"},
		"/dev/zero":    {wrong: ": want a regular file"},
		path("absent"): {wrong: "no such file"},
		// The kernel reports a size of zero.
		"/proc/self/status": {wrong: ": more than 8 bytes: want at most 8"},
	} {
		type result struct {
			content []byte
			err     error
		}
		done := make(chan result, 1)
		go func() {
			content, err := regularfile.Read(file, 8)
			done <- result{content, err}
		}()
		select {
		case got := <-done:
			switch {
			case want.wrong == "" && (got.err != nil || string(got.content) != want.content):
				t.Errorf("%s: %q, %v: want %q", file, got.content, got.err, want.content)
			case want.wrong != "" && (got.err == nil || !strings.Contains(got.err.Error(), file) || !strings.Contains(got.err.Error(), want.wrong)):
				t.Errorf("%s: %v: want it named, and %q", file, got.err, want.wrong)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("%s: still open after 5 s", file)
		}
	}
	if _, err := regularfile.Read(path("absent"), 8); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v: want fs.ErrNotExist", err)
	}
}
