package output

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/internal/regularfile"
)

const (
	// FoldersFile is the name of the file in the agent's state directory.
	FoldersFile = "outputs.jsonl"
	// The defaults of Keep.
	defaultEntries = 10_000
	defaultAge     = 30 * 24 * time.Hour
	// maxFolders bounds the file, in bytes; an entry has at most some KiB.
	maxFolders = 256 << 20
	// slackLines is how many lines the file may have beyond twice the entries.
	slackLines = 1000
)

// Entry is where the output of an engine is.
type Entry struct {
	// ID is the allocation.
	ID string `json:"id"`
	// Folder has the log files.
	Folder string `json:"folder"`
	// User is the account that the engine ran as, and UID the owner of the files.
	User string `json:"user"`
	UID  uint32 `json:"uid"`
	// Started and Ended are the engine's; Ended is zero while it runs.
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"`
}

// line is an entry, or says that one is gone.
type line struct {
	Entry

	Gone bool `json:"gone,omitempty"`
}

// Keep bounds the entries. The zero value has the defaults.
type Keep struct {
	// Entries is how many at most; the ones that ended first go first. Default 10,000.
	Entries int
	// Age is how long after the end of its engine an entry goes. Default 30 days.
	Age time.Duration
}

// Folders remembers where the output of engines is, in a file of the agent's state directory. Each
// change is on the disk when its call returns, or there is an error and nothing has changed.
type Folders struct {
	path string

	writing sync.Mutex // held while the file changes; taken before mu
	file    *os.File   // guarded by writing; nil: it has to be written anew
	size    int64      // guarded by writing
	lines   int        // guarded by writing

	mu      sync.Mutex
	keep    Keep             // guarded by mu
	entries map[string]Entry // guarded by mu; changed by those who hold writing, too
}

// passing are the errors of a file system that takes nothing for now.
var passing = []unix.Errno{unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EIO}

// OpenFolders reads the file, and makes it if it is missing. Lines that no agent has written whole
// are left out.
func OpenFolders(path string, keep Keep, now time.Time) (*Folders, error) {
	f := &Folders{path: path, entries: make(map[string]Entry)}
	f.SetKeep(keep)
	content, err := regularfile.Read(path, maxFolders)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("folders of output: %w", err)
	}
	for text := range bytes.Lines(content) {
		var l line
		if json.Unmarshal(text, &l) != nil || cgroup.CheckID(l.ID) != nil {
			continue // it was being written when the machine failed
		}
		if l.Gone {
			delete(f.entries, l.ID)
		} else {
			f.entries[l.ID] = l.Entry
		}
	}
	for _, id := range f.dueLocked(now, "") {
		delete(f.entries, id)
	}
	// A disk that takes nothing now is no reason not to start: the first change writes all.
	if err := f.rewrite(); err != nil && !slices.ContainsFunc(passing, func(e unix.Errno) bool { return errors.Is(err, e) }) {
		return nil, err
	}
	return f, nil
}

// Close closes the file.
func (f *Folders) Close() error {
	f.writing.Lock()
	defer f.writing.Unlock()
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err //nolint:wrapcheck // names the file
}

// SetKeep changes the bounds from the next change on.
func (f *Folders) SetKeep(keep Keep) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keep = Keep{cmp.Or(keep.Entries, defaultEntries), cmp.Or(keep.Age, defaultAge)}
}

// Find returns the entry of an allocation. The error is a *NotHereError.
func (f *Folders) Find(id string) (Entry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	entry, known := f.entries[id]
	if !known {
		return Entry{}, &NotHereError{ID: id}
	}
	return entry, nil
}

// Running are the allocations whose engines have not ended as far as it was told.
func (f *Folders) Running() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ids []string
	for id, entry := range f.entries {
		if entry.Ended.IsZero() {
			ids = append(ids, id)
		}
	}
	return ids
}

// Put remembers an entry, in place of one of the same allocation.
func (f *Folders) Put(entry Entry) error {
	if err := cgroup.CheckID(entry.ID); err != nil {
		return fmt.Errorf("folders of output: %w", err)
	}
	f.writing.Lock()
	defer f.writing.Unlock()
	return f.change(append(f.goneLines(f.due(entry.Started, entry.ID)), line{Entry: entry}))
}

// End says that an engine has ended. One that is not known is no error.
func (f *Folders) End(id string, at time.Time) error {
	f.writing.Lock()
	defer f.writing.Unlock()
	entry, err := f.Find(id)
	if err != nil || !entry.Ended.IsZero() {
		return nil
	}
	entry.Ended = at
	return f.change([]line{{Entry: entry}})
}

// Forget forgets an entry, such as one whose folder is gone.
func (f *Folders) Forget(id string) error {
	f.writing.Lock()
	defer f.writing.Unlock()
	if _, err := f.Find(id); err != nil {
		return nil
	}
	return f.change(f.goneLines([]string{id}))
}

// Sweep forgets entries that are too old, and engines that have ended whose folder in logDir is
// gone. It looks at the names in logDir alone, which is the agent's: a folder that a user has
// named may be on a file system that hangs. Forget is for those.
func (f *Folders) Sweep(now time.Time, logDir string) error {
	entries, err := os.ReadDir(logDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("folders of output: %w", err)
	}
	there := make(map[string]bool, len(entries))
	for _, entry := range entries {
		there[entry.Name()] = true
	}
	f.writing.Lock()
	defer f.writing.Unlock()
	due := f.due(now, "")
	f.mu.Lock()
	for id, entry := range f.entries {
		if !entry.Ended.IsZero() && filepath.Dir(entry.Folder) == filepath.Clean(logDir) && !there[filepath.Base(entry.Folder)] {
			due = append(due, id)
		}
	}
	f.mu.Unlock()
	if len(due) == 0 {
		return nil
	}
	slices.Sort(due)
	return f.change(f.goneLines(slices.Compact(due)))
}

func (f *Folders) goneLines(ids []string) []line {
	lines := make([]line, 0, len(ids))
	for _, id := range ids {
		lines = append(lines, line{Entry: Entry{ID: id}, Gone: true})
	}
	return lines
}

func (f *Folders) due(now time.Time, added string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dueLocked(now, added)
}

// dueLocked are the entries that have to go before another one is added; empty: none is added.
func (f *Folders) dueLocked(now time.Time, added string) []string {
	var due []string
	var rest []Entry
	for id, entry := range f.entries {
		switch {
		case id == added:
		case !entry.Ended.IsZero() && now.Sub(entry.Ended) > f.keep.Age:
			due = append(due, id)
		default:
			rest = append(rest, entry)
		}
	}
	room := f.keep.Entries
	if added != "" {
		room--
	}
	if len(rest) <= room {
		return due
	}
	slices.SortFunc(rest, func(a, b Entry) int { // those that run are last
		return cmp.Or(-compareZero(a.Ended, b.Ended), a.Ended.Compare(b.Ended), a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID))
	})
	for _, entry := range rest[:len(rest)-max(0, room)] {
		due = append(due, entry.ID)
	}
	return due
}

// compareZero puts a time that is zero before one that is not.
func compareZero(a, b time.Time) int {
	switch {
	case a.IsZero() == b.IsZero():
		return 0
	case a.IsZero():
		return -1
	}
	return 1
}

// change stores lines and then applies them. The caller holds writing.
func (f *Folders) change(lines []line) error {
	if f.file == nil || removed(f.file) || f.lines > 2*len(f.entries)+slackLines {
		if err := f.rewrite(); err != nil {
			return err
		}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	for _, l := range lines {
		if err := encoder.Encode(l); err != nil {
			return fmt.Errorf("folders of output: %w", err)
		}
	}
	_, err := f.file.WriteAt(text.Bytes(), f.size)
	if err == nil {
		err = f.file.Sync()
	}
	if err != nil {
		// The content of the file is not known now. The next change writes it anew.
		err = errors.Join(err, f.file.Truncate(f.size), f.file.Close())
		f.file = nil
		return fmt.Errorf("folders of output: %w", err)
	}
	f.size += int64(text.Len())
	f.lines += len(lines)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range lines {
		if l.Gone {
			delete(f.entries, l.ID)
		} else {
			f.entries[l.ID] = l.Entry
		}
	}
	return nil
}

// removed reports whether somebody has removed the file.
func removed(file *os.File) bool {
	var stat unix.Stat_t
	return unix.Fstat(int(file.Fd()), &stat) == nil && stat.Nlink == 0
}

// rewrite replaces the file. The caller holds writing, or is alone.
func (f *Folders) rewrite() error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	f.mu.Lock()
	for _, entry := range f.entries {
		if err := encoder.Encode(line{Entry: entry}); err != nil {
			f.mu.Unlock()
			return fmt.Errorf("folders of output: %w", err)
		}
	}
	count := len(f.entries)
	f.mu.Unlock()
	file, err := replaceFile(f.path, text.Bytes())
	if err != nil {
		return fmt.Errorf("folders of output: %w", err)
	}
	if f.file != nil {
		_ = f.file.Close() // it was replaced
	}
	f.file, f.size, f.lines = file, int64(text.Len()), count
	return nil
}

// replaceFile replaces a file as a whole, and returns it for writing.
func replaceFile(path string, content []byte) (file *os.File, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err //nolint:wrapcheck // names the path
	}
	next := path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err //nolint:wrapcheck // names the path
	}
	file, err = os.OpenFile(next, os.O_CREATE|os.O_EXCL|os.O_WRONLY|unix.O_NOFOLLOW, 0o600) //nolint:gosec // a path of this package
	if err != nil {
		return nil, err //nolint:wrapcheck // names the path
	}
	_, err = io.Copy(file, bytes.NewReader(content))
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = os.Rename(next, path)
	}
	if err == nil {
		err = syncFolder(filepath.Dir(path))
	}
	if err != nil {
		_ = os.Remove(next) // what was written takes room that the next attempt may need
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func syncFolder(path string) error {
	dir, err := os.Open(path) //nolint:gosec // the state directory
	if err != nil {
		return err //nolint:wrapcheck // names the path
	}
	return errors.Join(dir.Sync(), dir.Close())
}
