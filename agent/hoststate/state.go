// Package hoststate holds the state of an agent's host: the tracker of its allocations, under the
// one lock that guards it, and the state file in which it survives a restart.
//
// It decides nothing: package tracker does. Its parts of an engine's state are in package engine,
// under the same lock.
//
// All of it may be called from any goroutine, once Open and Begin were called.
package hoststate

import (
	"log/slog"
	"sync"
	"time"

	"github.com/bursar/bursar/agent/loops"
	"github.com/bursar/bursar/agent/statefile"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Dir is where the state is kept; *statefile.Dir is one, and documents its methods.
type Dir interface {
	Load() (statefile.State, error)
	Append(change tracker.Change) error
	Begin(state statefile.State) error
	Save(state statefile.State) error
	SetAside(now time.Time) (string, error)
	Token() ([]byte, error)
	SetToken(token []byte) error
	Intact() bool
	File() string
	Close() error
}

// State is the state of one host. Make it with New, call Open and then Begin.
type State struct {
	log    *slog.Logger
	hostID func() string
	saved  func(took time.Duration, err error)

	// Answered happens when a Sync was answered, and Measured after each measurement; both with the
	// lock held, so that a function under Locked sees them and the tracker in the same moment.
	Answered, Measured loops.Signal

	mu      sync.Mutex
	tracker *tracker.Tracker // guarded by mu; nil: Begin was not called

	bootID      string
	incarnation uint64
	dir         Dir
	saving      sync.Mutex    // held while the state is written
	notStored   notStored     // why it cannot be
	unsaved     chan struct{} // one element: there is something to write
}

// New returns the state of a host. hostID is the host's id, which a state file may change before
// Begin; saved is told of each write.
func New(log *slog.Logger, hostID func() string, saved func(took time.Duration, err error)) *State {
	return &State{log: log, hostID: hostID, saved: saved, unsaved: make(chan struct{}, 1)}
}

// Open says where the state is kept, and in which incarnation of the agent on which boot.
func (s *State) Open(dir Dir, bootID string, incarnation uint64) {
	s.dir, s.bootID, s.incarnation = dir, bootID, incarnation
}

// Begin makes the tracker known. Locked may have been called before.
func (s *State) Begin(known *tracker.Tracker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tracker = known
}

// Close gives the directory back.
func (s *State) Close() error { return s.dir.Close() } //nolint:wrapcheck // says it

// Incarnation is that of the agent; 0 before Open.
func (s *State) Incarnation() uint64 { return s.incarnation }

// BootID is that of the machine's boot.
func (s *State) BootID() string { return s.bootID }

// Locked calls f with the tracker, which is nil before Begin. f must not block.
func (s *State) Locked(f func(t *tracker.Tracker)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.tracker)
}

// Allocations returns the allocations of this host as the agent knows them, by id.
func (s *State) Allocations() (list []*bursarv1.Allocation) {
	s.Locked(func(t *tracker.Tracker) { list = t.All() })
	return list
}
