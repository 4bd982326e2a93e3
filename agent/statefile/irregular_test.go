package statefile_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bursar/bursar/agent/statefile"
)

// irregular returns files of other types, and files that no agent wrote.
func irregular() map[string]func(path string) error {
	return map[string]func(path string) error{
		"a pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"a device": func(path string) error { return os.Symlink("/dev/zero", path) },
		"3 GiB":    func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 3<<30)) },
	}
}

// An agent that waits for a pipe, or reads an endless file, would neither start nor report an
// error.
func TestWhatIsNoStateIsDamagedAndReadOfNobody(t *testing.T) {
	for name, put := range irregular() {
		for _, file := range []string{"state.json", "its log"} {
			t.Run(name+" for "+file, func(t *testing.T) {
				path := t.TempDir()
				dir := open(t, path)
				if err := dir.Begin(state()); err != nil {
					t.Fatal(err)
				}
				at := dir.File()
				if file == "its log" {
					logs, _ := filepath.Glob(filepath.Join(path, "state-*.log"))
					at = logs[0]
				}
				if err := errors.Join(os.Remove(at), put(at)); err != nil {
					t.Fatal(err)
				}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, err := dir.Load()
				runtime.ReadMemStats(&after)
				if damaged, is := errors.AsType[*statefile.DamagedError](err); !is || !strings.Contains(err.Error(), at) {
					t.Errorf("%v, %v: want that it is damaged", err, damaged)
				}
				if read := after.TotalAlloc - before.TotalAlloc; read > 16<<20 {
					t.Errorf("%d bytes were read of it", read)
				}
				if _, err := dir.SetAside(time.Now()); err != nil {
					t.Error(err)
				}
				if err := dir.Save(state()); err != nil {
					t.Error(err)
				}
				if _, err := dir.Load(); err != nil {
					t.Errorf("after it was set aside: %v", err)
				}
			})
		}
	}
}

// The next state is written beside the file, and replaces a file that would block the agent.
func TestNextStateTakesThePlaceOfWhatIsNoFile(t *testing.T) {
	for name, put := range irregular() {
		if name == "a folder" { // its content may be somebody's
			continue
		}
		t.Run(name, func(t *testing.T) {
			dir := open(t, t.TempDir())
			if err := put(dir.File() + ".new"); err != nil {
				t.Fatal(err)
			}
			if err := dir.Save(state()); err != nil {
				t.Error(err)
			}
			if info, err := os.Lstat(dir.File()); err != nil || !info.Mode().IsRegular() {
				t.Errorf("%v, %v", info, err)
			}
		})
	}
}
