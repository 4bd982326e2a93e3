package logs

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/output"
	"github.com/bursar/bursar/internal/osuser"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const (
	// maxReaders is how many readers there may be on a host, maxReadersCaller of one caller. One
	// is a process of the engine's user of some 3 MiB.
	maxReaders, maxReadersCaller = 512, 256
	// sweepEvery is how often folders that are not there any more are looked for.
	sweepEvery = time.Minute
	// noGroup is the group of a helper whose user has no account.
	noGroup = 65534
)

// Users looks accounts up; osuser.Users is one.
type Users interface {
	Named(ctx context.Context, name string) (osuser.User, error)
}

// Options are the parts that a Logs needs. All of them are required.
type Options struct {
	// Spawner starts helpers, whose program is Keeper.
	Spawner launch.Spawner
	Keeper  string
	// LogDir is the folder for the output of engines whose request names none.
	LogDir string
	Users  Users
	// Records have the notes about launches of agents that kept no list of folders.
	Records launch.Records
	// Engine looks up the agent's knowledge of an allocation's engine.
	Engine func(id string) Engine
	Log    *slog.Logger
}

// Engine has the facts about an engine that the agent knows.
type Engine struct {
	// Runs says that it has not ended, as far as the agent knows, and Launched that an agent has
	// started it.
	Runs, Launched bool
}

// Logs has the output of a host's engines. Make it with New. It needs Open before anything else.
type Logs struct {
	Options

	opener output.Opener

	mu      sync.Mutex
	folders *output.Folders                               // guarded by mu; nil: not open
	readers map[string]map[*output.Reader]*sync.WaitGroup // guarded by mu; by allocation; of those that tell the reader something
	gone    map[string]bool                               // of Run alone: engines that did not run at the last look
}

// New returns a Logs that is not open.
func New(o Options) *Logs {
	return &Logs{
		Options: o, readers: make(map[string]map[*output.Reader]*sync.WaitGroup),
		opener: output.Opener{Spawner: o.Spawner, Keeper: o.Keeper, Limits: func() output.Limits { return output.Limits{All: maxReaders, PerCaller: maxReadersCaller} }},
	}
}

// Open reads the list of folders from a file.
func (l *Logs) Open(path string) error {
	folders, err := output.OpenFolders(path, output.Keep{}, time.Now())
	if err != nil {
		return err //nolint:wrapcheck // names the file
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.folders = folders
	return nil
}

// Close closes the list, once all helpers have ended: their readers must be closed.
func (l *Logs) Close() error {
	l.opener.Wait()
	l.mu.Lock()
	folders := l.folders
	l.folders = nil
	l.mu.Unlock()
	if folders == nil {
		return nil
	}
	return folders.Close() //nolint:wrapcheck // names the file
}

// list is the list of folders.
func (l *Logs) list() (*output.Folders, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.folders == nil {
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("the agent ends"))
	}
	return l.folders, nil
}

// Begins notes where the output of an engine goes that is about to begin. The agent's note about
// the launch has it, too, as long as the allocation lives.
func (l *Logs) Begins(id, folder string, user osuser.User) {
	folders, err := l.list()
	if err == nil {
		err = folders.Put(output.Entry{ID: id, Folder: folder, User: user.Name, UID: user.UID, Started: time.Now()})
	}
	if err != nil {
		l.Log.Warn("where the output of an engine is could not be stored: nobody can read it once the engine has ended", "allocation_id", id, "error", err)
	}
}

// Ended notes that an engine has ended, with its keeper.
func (l *Logs) Ended(id string) {
	folders, err := l.list()
	if err == nil {
		err = folders.End(id, time.Now())
	}
	if err != nil {
		l.Log.Warn("the end of an engine could not be stored with its output", "allocation_id", id, "error", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for reader, telling := range l.readers[id] {
		telling.Go(reader.EngineEnded) // its helper may be stopped
	}
}

// Run looks for engines that have ended unnoticed, and for folders that are gone, until ctx ends.
func (l *Logs) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.sweep(time.Now())
		case <-ctx.Done():
			return nil
		}
	}
}

// sweep ends the entries of engines that have not run at two looks in a row, such as those whose
// launch has failed.
func (l *Logs) sweep(now time.Time) {
	folders, err := l.list()
	if err != nil {
		return
	}
	gone := make(map[string]bool)
	for _, id := range folders.Running() {
		switch {
		case l.Engine(id).Runs:
		case l.gone[id]:
			l.Ended(id)
		default:
			gone[id] = true
		}
	}
	l.gone = gone
	if err := folders.Sweep(now, l.LogDir); err != nil {
		l.Log.Warn("folders of output that are gone could not be looked for", "error", err)
	}
}

// Find is where the output of an engine is. The error has its code.
func (l *Logs) Find(id string) (output.Entry, error) {
	folders, err := l.list()
	if err != nil {
		return output.Entry{}, err
	}
	entry, err := folders.Find(id)
	if err == nil {
		return entry, nil
	}
	if note, noted := l.Records.Note(id); noted == nil && note.LogDirectory != "" {
		return output.Entry{ID: id, Folder: note.LogDirectory, User: note.User, UID: note.UID}, nil
	}
	if missing, ok := errors.AsType[*output.NotHereError](err); ok {
		if known := l.Engine(id); known.Runs && !known.Launched {
			missing.Starter = output.CallerStarter
		}
	}
	return output.Entry{}, withCode(err)
}

// account is the user of an entry, as the machine knows it now.
func (l *Logs) account(ctx context.Context, entry *output.Entry) (osuser.User, error) {
	user, err := l.Users.Named(ctx, entry.User)
	switch {
	case err == nil:
		return user, nil
	case !errors.Is(err, osuser.ErrNoUser):
		return osuser.User{}, connect.NewError(connect.CodeUnavailable, err)
	case entry.UID == uint32(os.Geteuid()): //nolint:gosec // a uid
		return osuser.Self(), nil
	default:
		return osuser.Nameless(entry.User, entry.UID, noGroup), nil
	}
}

// open opens the output that a request asks for. closed must be called at the end.
func (l *Logs) open(ctx context.Context, caller string, request *bursarv1.LogsRequest) (reader *output.Reader, closed func(), err error) {
	id := request.GetId()
	entry, err := l.Find(id)
	if err != nil {
		return nil, nil, err
	}
	user, err := l.account(ctx, &entry)
	if err != nil {
		return nil, nil, err
	}
	ask, err := requestOf(request)
	if err != nil {
		return nil, nil, err
	}
	ask.Caller, ask.Entry, ask.User = caller, entry, user
	reader, err = l.opener.Open(ctx, ask)
	if err != nil {
		l.forgetGone(&entry, err)
		return nil, nil, withCode(err)
	}
	telling := l.register(id, reader)
	// The engine may have ended before Ended knew of the reader.
	if now, err := l.Find(id); !entry.Ended.IsZero() || err == nil && !now.Ended.IsZero() {
		telling.Go(reader.EngineEnded)
	}
	return reader, func() {
		l.mu.Lock()
		delete(l.readers[id], reader)
		if len(l.readers[id]) == 0 {
			delete(l.readers, id)
		}
		l.mu.Unlock()
		_ = reader.Close() // it was only read from
		telling.Wait()
	}, nil
}

// register has Ended tell a reader about the end of its engine.
func (l *Logs) register(id string, reader *output.Reader) (telling *sync.WaitGroup) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.readers[id] == nil {
		l.readers[id] = make(map[*output.Reader]*sync.WaitGroup)
	}
	telling = &sync.WaitGroup{}
	l.readers[id][reader] = telling
	return telling
}

// forgetGone forgets the folder of an engine that has ended, if the folder is gone.
func (l *Logs) forgetGone(entry *output.Entry, err error) {
	wrong, ofHelper := errors.AsType[*output.Error](err)
	if !ofHelper || wrong.Code != output.Gone || entry.Ended.IsZero() {
		return
	}
	if folders, open := l.list(); open == nil {
		if err := folders.Forget(entry.ID); err != nil {
			l.Log.Warn("a folder of output that is gone could not be forgotten", "allocation_id", entry.ID, "error", err)
		}
	}
}
