package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/agent/keeper"
	"github.com/bursar/bursar/internal/regularfile"
)

const (
	recordName = "record"
	noteName   = "launched.json"
	keeperName = "keeper.json"
	begunName  = "begun.json"
	// unconfirmedName is in the directory itself, because the next attempt removes an engine's
	// folder.
	unconfirmedName = "unconfirmed.json"
	// maxRecord bounds the part that is read from the end of a record, in bytes. A keeper writes
	// less, but a user may write any amount.
	maxRecord = 64 << 10
	// maxNote bounds a note, in bytes: its paths have at most 4 KiB.
	maxNote = 64 << 10
	// maxUnconfirmed bounds a list of keepers, in bytes.
	maxUnconfirmed = 64 << 20
	// roomForRecord is reserved for a record, in bytes, if the file system supports this: the disk
	// may be full when the engine ends.
	roomForRecord = 16 << 10
)

// Records is a directory with a folder for each engine that was launched, named by the allocation.
// The keeper writes there how the engine ended, also while no agent runs. Only the agent has access
// to the directory.
type Records string

// Note holds the agent's data about a launch.
type Note struct {
	// Caller is the uid that requested the launch, User the account that the engine runs as.
	Caller uint32 `json:"caller"`
	User   string `json:"user"`
	UID    uint32 `json:"uid"`
	// LogDirectory is the folder of the engine's output.
	LogDirectory string `json:"log_directory"`
	// Ready is the part of the engine's readiness that the agent needs to watch it. Nil if the
	// agent does not watch it.
	Ready *Check `json:"ready,omitempty"`
}

// Check is the part of a readiness that the agent stores. Package ready makes it. It has no
// secrets.
type Check struct {
	// Port is set if the check is of a port. Otherwise What is "file", "line" or "command".
	Port     int32         `json:"port,omitempty"`
	What     string        `json:"what,omitempty"`
	Within   time.Duration `json:"within"`
	Interval time.Duration `json:"interval"`
}

// Begun is the time at which an engine may first have run.
type Begun struct {
	// Ticks are clock ticks after boot, from host.TicksSinceBoot.
	Ticks uint64 `json:"ticks"`
	// BootID is the machine's boot at that time.
	BootID string `json:"boot_id"`
}

// Kept identifies an engine and its keeper by their pids and start times: see process.Ref.
type Kept struct {
	PID             int32  `json:"pid"`
	StartTime       uint64 `json:"start_time"`
	KeeperPID       int32  `json:"keeper_pid"`
	KeeperStartTime uint64 `json:"keeper_start_time"`
	// BootID is the machine's boot at that time.
	BootID string `json:"boot_id"`
}

// Unconfirmed is the keeper of a launch that is under way or has failed. It must end, with its
// engine, unless the launch succeeds.
type Unconfirmed struct {
	ID              string `json:"id"`
	UID             uint32 `json:"uid"`
	KeeperPID       int32  `json:"keeper_pid"`
	KeeperStartTime uint64 `json:"keeper_start_time"`
	// Cgroup is the engine's own cgroup; empty if it has none.
	Cgroup string `json:"cgroup,omitempty"`
	// BootID is the machine's boot at that time.
	BootID string `json:"boot_id"`
}

// ErrNone says that no engine was launched for an allocation, or that the engine has left no
// record.
var ErrNone = errors.New("none")

// create makes a folder with an empty record and opens the record for appending. It replaces the
// folder of an earlier attempt.
func (r Records) create(id string, note Note) (*os.File, error) {
	if err := r.Remove(id); err != nil {
		return nil, err
	}
	dir := filepath.Join(string(r), id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("record of an engine: %w", err)
	}
	text, err := json.Marshal(note)
	if err != nil {
		return nil, fmt.Errorf("record of an engine: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, noteName), text, 0o600); err != nil {
		return nil, fmt.Errorf("record of an engine: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, recordName), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600) //nolint:gosec // a checked id
	if err != nil {
		return nil, fmt.Errorf("record of an engine: %w", err)
	}
	if err := unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, roomForRecord); errors.Is(err, unix.ENOSPC) {
		return nil, errors.Join(fmt.Errorf("record of an engine: %w", err), file.Close(), r.Remove(id))
	}
	return file, nil
}

// Note returns the note of a launch. ErrNone: there is none.
func (r Records) Note(id string) (Note, error) { return read[Note](r, id, noteName) }

// PutKept stores the processes of a launch. Without them, the agent cannot end a keeper that is
// held.
func (r Records) PutKept(id string, kept Kept) error { return put(r, id, keeperName, kept) }

// PutBegun stores the time at which an engine may first have run. Without it, the engine's time to
// become ready counts from the start of its process, which waits for its confirmation.
func (r Records) PutBegun(id string, begun Begun) error { return put(r, id, begunName, begun) }

// Begun returns the time at which an engine may first have run. ErrNone: it was not stored.
func (r Records) Begun(id string) (Begun, error) { return read[Begun](r, id, begunName) }

func put[T Kept | Begun](r Records, id, name string, value T) error {
	text, err := json.Marshal(value)
	if err == nil {
		err = os.WriteFile(filepath.Join(string(r), id, name), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("record of an engine: %w", err)
	}
	return nil
}

// Kept returns the processes of a launch. ErrNone: they were not stored.
func (r Records) Kept(id string) (Kept, error) { return read[Kept](r, id, keeperName) }

// PutUnconfirmed replaces the list of keepers that must end unless their launch succeeds. The next
// incarnation of the agent reads it. Only one call may run at a time.
func (r Records) PutUnconfirmed(list []Unconfirmed) error {
	path := filepath.Join(string(r), unconfirmedName)
	text, err := json.Marshal(list)
	if err == nil {
		err = os.MkdirAll(string(r), 0o700)
	}
	if err == nil {
		err = os.WriteFile(path+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("keepers of launches: %w", err)
	}
	return nil
}

// Unconfirmed returns the list that PutUnconfirmed stored.
func (r Records) Unconfirmed() ([]Unconfirmed, error) {
	text, err := regularfile.Read(filepath.Join(string(r), unconfirmedName), maxUnconfirmed)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []Unconfirmed
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("keepers of launches: %w", err)
	}
	return list, nil
}

// read returns the content of a file in an engine's folder. ErrNone: there is no such file.
func read[T Note | Kept | Begun](r Records, id, name string) (T, error) {
	var value, none T
	if cgroup.CheckID(id) != nil {
		return none, ErrNone
	}
	text, err := regularfile.Read(filepath.Join(string(r), id, name), maxNote)
	if errors.Is(err, fs.ErrNotExist) {
		return none, ErrNone
	}
	if err != nil {
		return none, fmt.Errorf("record of an engine: %w", err)
	}
	if err := json.Unmarshal(text, &value); err != nil {
		return none, fmt.Errorf("record of an engine: %s: %w", name, err)
	}
	return value, nil
}

// End returns how an engine ended. ErrNone: its keeper has not recorded the end.
func (r Records) End(id string) (keeper.Record, error) {
	record, err := r.Last(id)
	if err == nil && record.Left {
		return keeper.Record{}, ErrNone
	}
	return record, err
}

// Left returns the keeper's record of how the main process ended, if the engine runs on without it.
// ErrNone: the keeper has not recorded this, or the engine has ended too.
func (r Records) Left(id string) (keeper.Record, error) {
	record, err := r.Last(id)
	if err == nil && !record.Left {
		return keeper.Record{}, ErrNone
	}
	return record, err
}

// Last returns the last record of an engine's keeper: how the engine ended, or how its main process
// ended. ErrNone: there is neither.
func (r Records) Last(id string) (keeper.Record, error) {
	if cgroup.CheckID(id) != nil {
		return keeper.Record{}, ErrNone
	}
	content, err := r.content(id)
	if err != nil {
		return keeper.Record{}, err
	}
	record, err := keeper.DecodeRecord(content)
	if err != nil {
		return keeper.Record{}, ErrNone
	}
	return record, nil
}

// Looked returns the last result of an engine's helper: whether the engine is ready. ErrNone: there
// is none yet.
func (r Records) Looked(id string) (keeper.Looked, error) {
	if cgroup.CheckID(id) != nil {
		return keeper.Looked{}, ErrNone
	}
	content, err := r.content(id)
	if err != nil {
		return keeper.Looked{}, err
	}
	looked, found := keeper.DecodeLooked(content)
	if !found {
		return keeper.Looked{}, ErrNone
	}
	return looked, nil
}

// Size returns the size of a record in bytes. It grows with each result. ErrNone: there is no
// record.
func (r Records) Size(id string) (int64, error) {
	if cgroup.CheckID(id) != nil {
		return 0, ErrNone
	}
	info, err := os.Lstat(filepath.Join(string(r), id, recordName))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, ErrNone
	}
	if err != nil {
		return 0, fmt.Errorf("record of an engine: %w", err)
	}
	return info.Size(), nil
}

// content returns the end of a record, at most maxRecord bytes. ErrNone: there is no record.
func (r Records) content(id string) ([]byte, error) {
	file, info, err := regularfile.Open(filepath.Join(string(r), id, recordName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNone
	}
	if err != nil {
		return nil, fmt.Errorf("record of an engine: %w", err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.NewSectionReader(file, max(0, info.Size()-maxRecord), maxRecord))
	if err != nil {
		return nil, fmt.Errorf("record of an engine: %w", err)
	}
	return content, nil
}

// List returns the allocations that have records.
func (r Records) List() ([]string, error) {
	entries, err := os.ReadDir(string(r))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("records of engines: %w", err)
	}
	var ids []string
	for _, entry := range entries {
		if entry.IsDir() && cgroup.CheckID(entry.Name()) == nil {
			ids = append(ids, entry.Name())
		}
	}
	return ids, nil
}

// Remove removes the folder of an allocation. A keeper that still has the record open writes to a
// deleted file.
func (r Records) Remove(id string) error {
	if err := cgroup.CheckID(id); err != nil {
		return fmt.Errorf("record of an engine: %w", err)
	}
	if err := os.RemoveAll(filepath.Join(string(r), id)); err != nil {
		return fmt.Errorf("record of an engine: %w", err)
	}
	return nil
}
