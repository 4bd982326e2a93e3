package statefile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bursar/bursar/internal/regularfile"
)

const (
	fileName = "state.json"
	lockFile = "lock"
	// asideInfix is a part of the names of files that were set aside.
	asideInfix = ".aside-"
)

// ErrNone is the error of Load if no state was saved yet.
var ErrNone = errors.New("no state saved yet")

// InUseError says that another agent uses the directory.
type InUseError struct {
	Dir string
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("state directory %s: another agent uses it: stop that one, or give this one a stateDir of its own", e.Dir)
}

// FolderError says that the directory is missing or unusable until an operator changes something.
type FolderError struct {
	Path string
	Want string
	Err  error // names the part that cannot be made, or that is in the way
}

func (e *FolderError) Error() string { return "state directory: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *FolderError) Unwrap() error { return e.Err }

// wantGuarded describes a correct directory, for one that other users own or may write to, or that
// has such a file.
const wantGuarded = "a folder that nobody else can change or replace"

// Dir is a locked directory with a state file.
type Dir struct {
	path string
	lock *os.File
	name *nameLock
	log  openLog
	// token is the identity token, as last read or set.
	token []byte
}

// Open makes the directory if it is missing, readable by its owner only, and locks it until Close.
// The error is an *InUseError if another agent has it. It is a *FolderError if the directory cannot
// be made, or if other users could change or replace it or its files. A directory that was used
// before may be read-only.
func Open(path string) (*Dir, error) {
	if err := makeFolder(path); err != nil {
		return nil, err
	}
	// first: an agent that holds it may be about to take the other lock again
	name, err := lockName(path)
	if err != nil {
		return nil, err
	}
	lock, err := flock(path)
	if err != nil {
		return nil, errors.Join(err, name.close())
	}
	return &Dir{path: path, lock: lock, name: name}, nil
}

// makeFolder makes the directory if it is missing, and refuses one that other users could change.
func makeFolder(path string) error {
	// Check the existing part before more is made in it.
	if err := checkGuarded(path, path, regularfile.Guarded); err != nil {
		return err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		if regularfile.CannotBeMade(err) {
			return &FolderError{path, regularfile.WantFolder, err}
		}
		return fmt.Errorf("state directory: %w", err)
	}
	if err := checkGuarded(path, path, regularfile.Guarded); err != nil {
		return err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	for _, e := range entries {
		if name := e.Name(); name == lockFile || strings.HasPrefix(name, "state") && !strings.Contains(name, asideInfix) {
			if err := checkGuarded(path, filepath.Join(path, name), regularfile.GuardedFile); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkGuarded checks a part of the directory.
func checkGuarded(dir, part string, check func(path string, uid uint32) error) error {
	err := check(part, uint32(os.Geteuid())) //nolint:gosec // a uid
	if wrong := (*regularfile.GuardError)(nil); errors.As(err, &wrong) {
		return &FolderError{dir, wantGuarded, err}
	}
	if err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	return nil
}

// Close unlocks the directory.
func (d *Dir) Close() error {
	if err := errors.Join(d.name.close(), d.lock.Close()); err != nil {
		return fmt.Errorf("unlock state directory: %w", err)
	}
	return nil
}

// File returns the path of the state file.
func (d *Dir) File() string { return filepath.Join(d.path, fileName) }

// SetAside renames the state file and its logs, so that they can be examined, and returns the new
// path of the file.
func (d *Dir) SetAside(now time.Time) (string, error) {
	suffix := asideInfix + now.UTC().Format("20060102T150405.000")
	for _, log := range d.logs() {
		if err := os.Rename(log, log+suffix); err != nil {
			return "", fmt.Errorf("set the log of the state file aside: %w", err)
		}
	}
	aside := d.File() + suffix
	if err := os.Rename(d.File(), aside); err != nil {
		return "", fmt.Errorf("set state file aside: %w", err)
	}
	return aside, d.sync()
}
