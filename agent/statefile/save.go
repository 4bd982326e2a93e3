package statefile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/regularfile"
)

const (
	// A log below leastLog bytes, or below logShare times the size of the state file, does not
	// cause a write of the whole state. So a change costs its own bytes and a share of the file,
	// and that share shrinks as engines are added.
	leastLog = 16 * blockSize
	logShare = 8

	logPrefix, logSuffix = "state-", ".log"

	// leavesFile says that the host has left its cluster. The purge of a package makes it, if it
	// keeps the state because engines still run.
	leavesFile = "state.leaves-cluster"
)

// ErrFull is the error of Append if the log takes no more: before the first Begin, and if the whole
// state must be written.
var ErrFull = errors.New("the log of the state takes no more")

// openLog is the log that is being written; without a name there is none.
type openLog struct {
	name   string
	number uint32 // of the next record
	size   int64  // of all stored records
	most   int64
}

// Load reads the state. If its host has left its cluster, the state names no cluster. The errors
// are ErrNone, *VersionError, *DamagedError, and those of the files.
func (d *Dir) Load() (State, error) {
	s, err := d.load()
	if _, missing := os.Lstat(d.leavesFile()); err == nil && missing == nil {
		s.Cluster, s.StoreID, s.Epoch, s.Leadership = "", "", 0, 0
	}
	return s, err
}

// HostOf returns the host id in the state file of a directory, without opening the directory; empty
// if there is none, or if it cannot be read.
func HostOf(path string) string {
	d := &Dir{path: path}
	content, err := d.read(d.File())
	if err != nil {
		return ""
	}
	s, err := Decode(content)
	if err != nil {
		return ""
	}
	return s.HostID
}

func (d *Dir) load() (State, error) {
	content, err := d.read(d.File())
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, ErrNone
	}
	if err != nil {
		return State{}, err
	}
	s, err := Decode(content)
	if err != nil {
		return State{}, fmt.Errorf("state file %s: %w", d.File(), err)
	}
	if s.Log == "" {
		return s, nil
	}
	log, err := d.read(d.logFile(s.Log))
	if errors.Is(err, fs.ErrNotExist) {
		err = &DamagedError{err}
	}
	if err != nil {
		return State{}, err
	}
	if s, err = replay(s, log); err != nil {
		return State{}, fmt.Errorf("state file %s: %w", d.File(), &DamagedError{err})
	}
	s.Log = ""
	return s, nil
}

// read never waits for a pipe or a device in a file's place, and does not read a file that is too
// large.
func (d *Dir) read(path string) ([]byte, error) {
	file, info, err := regularfile.Open(path)
	if errors.Is(err, regularfile.ErrNotRegular) {
		return nil, fmt.Errorf("read state: %w", &DamagedError{err})
	}
	if err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	defer file.Close()
	if info.Size() > maxSize {
		return nil, fmt.Errorf("state file %s: %w", path, &DamagedError{fmt.Errorf("%d bytes: want at most %d", info.Size(), maxSize)})
	}
	content, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	if len(content) > maxSize {
		return nil, fmt.Errorf("state file %s: %w", path, &DamagedError{fmt.Errorf("more than %d bytes", maxSize)})
	}
	return content, nil
}

// Save makes the directory again if it was removed, and replaces the state by one that an agent
// without logs can read, too. When it returns nil, the state survives a crash of the machine;
// otherwise the old state stays.
func (d *Dir) Save(s State) error {
	s.Log = ""
	_, err := d.replace(s)
	return err
}

// Begin replaces the state as Save does, and begins a log for later changes.
func (d *Dir) Begin(s State) error {
	s.Log = rand.Text()
	size, err := d.replace(s)
	if err != nil {
		return err
	}
	d.log = openLog{name: s.Log, most: min(max(leastLog, logShare*size), maxSize/2)}
	return nil
}

// Append adds the changes since the last Begin or Append to the log. When it returns nil, they
// survive a crash of the machine; otherwise the earlier state does. It returns ErrFull if Begin
// must write the whole state.
func (d *Dir) Append(c tracker.Change) error {
	if d.log.name == "" || d.log.size >= d.log.most {
		return ErrFull
	}
	record, err := encodeRecord(d.log.name, d.log.number, c)
	if err != nil {
		return err
	}
	if err := d.add(record); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	d.log.size += int64(len(record))
	d.log.number++
	return nil
}

// add opens the log for each record: it must not write to a log that was removed, or that another
// mount hides.
func (d *Dir) add(record []byte) (err error) {
	path := d.logFile(d.log.name)
	file, err := os.OpenFile(path, os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0) //nolint:gosec // a path of this package
	if err != nil {
		return err //nolint:wrapcheck // names operation and path
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err == nil && info.Size() != d.log.size {
		err = fmt.Errorf("%s has %d bytes, not the %d that were written", path, info.Size(), d.log.size)
	}
	if err != nil {
		d.log = openLog{}
		return err
	}
	if _, err := file.WriteAt(record, d.log.size); err != nil {
		// The written part takes room, and must not stand before the next record.
		cut := file.Truncate(d.log.size)
		if cut != nil {
			d.log = openLog{}
		}
		return errors.Join(err, cut)
	}
	if err := file.Sync(); err != nil {
		d.log = openLog{} // it is not known which part the disk has
		return err        //nolint:wrapcheck // names operation and path
	}
	return nil
}

// replace replaces the state file, makes an empty log if it names one, and returns the file's size.
func (d *Dir) replace(s State) (size int64, err error) {
	if err := d.restore(); err != nil {
		return 0, fmt.Errorf("write state: %w", err)
	}
	if err := d.keepToken(); err != nil {
		return 0, fmt.Errorf("write state: %w", err)
	}
	content, err := Encode(s)
	if err != nil {
		return 0, err
	}
	next := d.File() + ".new"
	err = write(next, content)
	if err == nil && s.Log != "" {
		// A file must not name a missing log.
		err = errors.Join(write(d.logFile(s.Log), nil), d.sync())
	}
	if err == nil {
		err = os.Rename(next, d.File())
	}
	if err != nil {
		// The written part takes room that the next attempt may need.
		return 0, errors.Join(fmt.Errorf("write state: %w", err), removeIfThere(next), removeIfThere(d.logFile(s.Log)))
	}
	d.log = openLog{} // the open log belongs to the replaced state
	if err := d.sync(); err != nil {
		return 0, err
	}
	d.removeLogs(s.Log)
	return int64(len(content)), removeIfThere(d.leavesFile())
}

// write replaces a file. It first removes a pipe or a device in its place: to open a pipe would
// wait.
func write(path string, content []byte) (err error) {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		if err := os.Remove(path); err != nil {
			return err //nolint:wrapcheck // names operation and path
		}
	}
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

// sync makes new files and renames in the directory durable.
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

func (d *Dir) leavesFile() string { return filepath.Join(d.path, leavesFile) }

func (d *Dir) logFile(name string) string { return filepath.Join(d.path, logPrefix+name+logSuffix) }

// logs returns all logs: the one that the state file names, and leftovers.
func (d *Dir) logs() (paths []string) {
	entries, _ := os.ReadDir(d.path) // logs that cannot be listed stay
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), logPrefix) && strings.HasSuffix(e.Name(), logSuffix) {
			paths = append(paths, filepath.Join(d.path, e.Name()))
		}
	}
	return paths
}

// removeLogs removes the logs that the state file no longer names. A remaining one does no harm.
func (d *Dir) removeLogs(but string) {
	for _, log := range d.logs() {
		if log != d.logFile(but) {
			_ = os.Remove(log)
		}
	}
}
