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

// maxFile is the size in bytes above which a file is refused unread: 40,000 identities take a half
// of it.
const maxFile = 8 << 20

// File is a file of identities that is read again when it changes.
type File struct {
	path    string
	log     *slog.Logger
	current atomic.Pointer[Identities]

	mu    sync.Mutex
	sum   [sha256.Size]byte // guarded by mu: of the content that was last looked at
	wrong string            // guarded by mu: what is wrong with it; empty if it is in use
}

// Open reads the file for the first time; it must be right. Errors: *yamlfile.Error, and those of
// the file.
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

// ModeError refuses a file of identities that everybody on the machine may write to.
type ModeError struct {
	File string
	Mode fs.FileMode
}

func (e *ModeError) Error() string {
	return fmt.Sprintf("%s: mode %04o: everybody on this machine could make themselves admin: want chmod 0640", e.File, e.Mode)
}

// ReadFile returns the content of a file that only its owner and group can have written. Errors:
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

// Identities returns what the file says, or said when it was last right.
func (f *File) Identities() *Identities { return f.current.Load() }

// Watch takes changes over until ctx ends: all of the file, or nothing of it.
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

// Refresh takes a change over, if there is one. What is wrong with a file is logged once.
func (f *File) Refresh() {
	f.mu.Lock()
	defer f.mu.Unlock()
	data, err := ReadFile(f.path)
	if err != nil {
		f.sum = [sha256.Size]byte{} // whatever comes next is new
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

// Warnings says what is wrong with the file as it is.
func (f *File) Warnings() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wrong == "" {
		return nil
	}
	return []string{"identities: " + f.wrong + " (those it had stay in force)"}
}
