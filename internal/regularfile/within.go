package regularfile

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Patience is how long a file may take to be read at a start. A local disk takes milliseconds, a
// network's file system that answers a second.
const Patience = 5 * time.Second

// HangError says that a file could not be read in time: its file system hangs, as a network's does
// when its server is gone.
type HangError struct {
	Path  string
	After time.Duration
}

func (e *HangError) Error() string {
	return fmt.Sprintf("%s: it could not be read within %s: its file system hangs", e.Path, e.After)
}

// Within reads files for at most a time, and returns a *HangError that names the last file that
// read has said it reads. A thread that hangs in the kernel cannot be ended: of each key there is
// one at most. A call waits for an earlier one of the same key that goes on, for the same time.
func Within[T any](key string, most time.Duration, read func(reads func(path string)) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	patient := time.NewTimer(most)
	defer patient.Stop()
	r := readings.join(key)
	defer readings.leave(key, r)
	hangs := func() (none T, err error) { return none, &HangError{*r.path.Load(), most} }
	select {
	case r.turn <- struct{}{}:
	case <-patient.C:
		return hangs()
	}
	done := make(chan result, 1)
	readings.join(key)
	go func() {
		defer readings.leave(key, r)
		defer func() { <-r.turn }()
		value, err := read(func(path string) { r.path.Store(&path) })
		done <- result{value, err}
	}()
	select {
	case got := <-done:
		return got.value, got.err
	case <-patient.C:
		return hangs()
	}
}

// reading is one of a key that may go on.
type reading struct {
	turn  chan struct{} // one element
	path  atomic.Pointer[string]
	users int // calls that wait for it, and the goroutine that reads
}

// readingsByKey are those that somebody waits for or does.
type readingsByKey struct {
	mu    sync.Mutex
	byKey map[string]*reading // guarded by mu
}

// readings are those of this process: it is the process whose threads hang.
var readings = readingsByKey{byKey: make(map[string]*reading)} //nolint:gochecknoglobals // see above

func (s *readingsByKey) join(key string) *reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.byKey[key]
	if r == nil {
		r = &reading{turn: make(chan struct{}, 1)}
		r.path.Store(&key)
		s.byKey[key] = r
	}
	r.users++
	return r
}

func (s *readingsByKey) leave(key string, r *reading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.users--; r.users == 0 {
		delete(s.byKey, key)
	}
}
