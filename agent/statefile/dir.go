package statefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/regularfile"
)

const (
	fileName = "state.json"
	lockName = "lock"
)

// ErrNone is returned by Load where nothing was saved yet.
var ErrNone = errors.New("no state saved yet")

// InUseError says that another agent has the directory.
type InUseError struct {
	Dir string
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("state directory %s: another agent uses it: stop that one, or give this one a stateDir of its own", e.Dir)
}

// FolderError says that the directory is not there, and that making it again will fail as long as nobody changes something.
type FolderError struct {
	Path string
	Err  error // names what could not be made
}

func (e *FolderError) Error() string { return "state directory: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *FolderError) Unwrap() error { return e.Err }

// Dir is a directory with a state file, locked.
type Dir struct {
	path string
	lock *os.File
}

// Open makes the directory where it is missing, readable by its owner only, and locks it until Close. The error is an
// *InUseError where another agent has it, and a *FolderError where it cannot be made. A directory that was used before may be one that can only be read.
func Open(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		if regularfile.CannotBeMade(err) {
			return nil, &FolderError{path, err}
		}
		return nil, fmt.Errorf("state directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the configured directory
	if errors.Is(err, unix.EROFS) {
		// What was saved can be read, and the engines in it be looked after.
		lock, err = os.Open(filepath.Join(path, lockName)) //nolint:gosec // the configured directory
	}
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		err = errors.Join(err, lock.Close())
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &InUseError{Dir: path}
		}
		return nil, fmt.Errorf("lock state directory %s: %w", path, err)
	}
	return &Dir{path: path, lock: lock}, nil
}

// Close unlocks the directory.
func (d *Dir) Close() error {
	if err := d.lock.Close(); err != nil {
		return fmt.Errorf("unlock state directory: %w", err)
	}
	return nil
}

// File is the path of the state file.
func (d *Dir) File() string { return filepath.Join(d.path, fileName) }

// Load reads the state. The errors are ErrNone, *VersionError, *DamagedError, and those of reading the file.
func (d *Dir) Load() (State, error) {
	file, err := os.Open(d.File())
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, ErrNone
	}
	if err != nil {
		return State{}, fmt.Errorf("read state: %w", err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if err != nil {
		return State{}, fmt.Errorf("read state: %w", err)
	}
	if len(content) > maxSize {
		return State{}, fmt.Errorf("state file %s: %w", d.File(), &DamagedError{fmt.Errorf("more than %d bytes", maxSize)})
	}
	s, err := Decode(content)
	if err != nil {
		return State{}, fmt.Errorf("state file %s: %w", d.File(), err)
	}
	return s, nil
}

// Save replaces the state. When it returns nil, the state survives a crash of the machine; else the old one is there.
func (d *Dir) Save(s State) error {
	content, err := Encode(s)
	if err != nil {
		return err
	}
	beside := d.File() + ".new"
	if err := write(beside, content); err != nil {
		// What there is of it takes room that the next attempt may need.
		return errors.Join(fmt.Errorf("write state: %w", err), removeIfThere(beside))
	}
	if err := os.Rename(beside, d.File()); err != nil {
		return fmt.Errorf("replace state: %w", err)
	}
	return d.sync()
}

func write(path string, content []byte) (err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) //nolint:gosec // a path of this package
	if err != nil {
		return err //nolint:wrapcheck // names operation and path
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.Write(content); err != nil {
		return err //nolint:wrapcheck // names operation and path
	}
	return file.Sync() //nolint:wrapcheck // names operation and path
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err //nolint:wrapcheck // names operation and path
	}
	return nil
}

// sync makes a rename in the directory durable.
func (d *Dir) sync() (err error) {
	dir, err := os.Open(d.path)
	if err != nil {
		return fmt.Errorf("sync state directory: %w", err)
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("sync state directory: %w", err)
	}
	return nil
}

// SetAside renames the state file, for somebody to look at, and returns its new path.
func (d *Dir) SetAside(now time.Time) (string, error) {
	aside := fmt.Sprintf("%s.aside-%s", d.File(), now.UTC().Format("20060102T150405.000"))
	if err := os.Rename(d.File(), aside); err != nil {
		return "", fmt.Errorf("set state file aside: %w", err)
	}
	return aside, d.sync()
}
