package regularfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bursar/bursar/internal/regularfile"
)

func TestAnInputHasABound(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := regularfile.ReadInput(file, 5); err != nil || string(got) != "12345" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := regularfile.ReadInput(file, 4); !errors.Is(err, regularfile.ErrTooLarge) || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "at most 4") {
		t.Errorf("above the bound: %v", err)
	}
	if _, err := regularfile.ReadInput(dir, 5); !errors.Is(err, syscall.EISDIR) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a directory: %v", err)
	}
	for _, endless := range []string{"/dev/zero", "/dev/full"} {
		if _, err := regularfile.ReadInput(endless, 5); !errors.Is(err, regularfile.ErrDevice) {
			t.Errorf("%s: %v", endless, err)
		}
	}
}

// A shell passes the output of a command in a pipe.
func TestAnInputMayBeAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, most := range []int64{5, 4} {
		written := make(chan error, 1)
		go func() { written <- os.WriteFile(pipe, []byte("12345"), 0o600) }()
		got, err := regularfile.ReadInput(pipe, most)
		if writeErr := <-written; writeErr != nil {
			t.Fatal(writeErr)
		}
		if most == 5 && (err != nil || string(got) != "12345") || most == 4 && err == nil {
			t.Errorf("at most %d: %q, %v", most, got, err)
		}
	}
}
