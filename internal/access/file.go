package access

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bursar/bursar/internal/regularfile"
)

// maxFile is the largest size in bytes of a file that is read: 40,000 identities take half of it.
const maxFile = 8 << 20

// File is a file of identities that is read again when it changes.
type File struct {
	path    string
	log     *slog.Logger
	current atomic.Pointer[Identities]

	mu    sync.Mutex
	sum   [sha256.Size]byte // guarded by mu: of the content that was last checked
	wrong string            // guarded by mu: the fault of that content; empty if it is in use
}

// Open reads the file for the first time and refuses a wrong one. Errors: *yamlfile.Error, and
// those of the file.
func Open(path string, log *slog.Logger) (*File, error) {
	f := &File{path: path, log: log}
	data, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	all, err := Parse(path, data)
	if err != nil {
		return nil, err
	}
	f.sum = sha256.Sum256(data)
	f.current.Store(all)
	return f, nil
}

// ModeError refuses a file of identities that every user of the machine can write to.
type ModeError struct {
	File string
	Mode fs.FileMode
}

func (e *ModeError) Error() string {
	return fmt.Sprintf("%s: mode %04o: everybody on this machine could make themselves admin: want chmod 0640", e.File, e.Mode)
}

// ReadFile returns the content of a file that only its owner and group can write. Errors:
// *ModeError, and those of the file.
func ReadFile(path string) ([]byte, error) {
	file, info, err := regularfile.Open(path)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the file
	}
	defer file.Close()
	switch {
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%s: %d bytes: want at most %d", path, info.Size(), maxFile)
	case info.Mode().Perm()&0o002 != 0:
		return nil, &ModeError{path, info.Mode().Perm()}
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

// Identities returns the content of the file at the time when it was last right.
func (f *File) Identities() *Identities { return f.current.Load() }

// Watch calls Refresh each interval until ctx ends.
func (f *File) Watch(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f.Refresh()
		case <-ctx.Done():
			return
		}
	}
}

// Refresh reads the file and, if it has changed, replaces all identities or none. It logs each
// fault once.
func (f *File) Refresh() {
	f.mu.Lock()
	defer f.mu.Unlock()
	data, err := ReadFile(f.path)
	if err != nil {
		f.sum = [sha256.Size]byte{} // the next content counts as new
		f.faultLocked(err)
		return
	}
	sum := sha256.Sum256(data)
	if sum == f.sum {
		return
	}
	f.sum = sum
	all, err := Parse(f.path, data)
	if err != nil {
		f.faultLocked(err)
		return
	}
	f.wrong = ""
	f.current.Store(all)
	f.log.Info("the identities of a changed file are in force", "file", f.path, "identities", len(all.entries))
}

func (f *File) faultLocked(err error) {
	if f.wrong != err.Error() {
		f.log.Error("the file of identities is wrong: those it had stay in force", "file", f.path, "error", err)
	}
	f.wrong = err.Error()
}

// Warnings describes the current fault of the file.
func (f *File) Warnings() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wrong == "" {
		return nil
	}
	return []string{"identities: " + f.wrong + " (those it had stay in force)"}
}
