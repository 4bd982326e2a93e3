package regularfile

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Patience is the time limit for reading a file at the start. A local disk takes milliseconds, a
// working network file system a second.
const Patience = 5 * time.Second

// HangError reports that a file could not be read in time because its file system hangs, for
// example a network file system whose server is gone.
type HangError struct {
	Path  string
	After time.Duration
}

func (e *HangError) Error() string {
	return fmt.Sprintf("%s: it could not be read within %s: its file system hangs", e.Path, e.After)
}

// Within calls read with a time limit, and returns a *HangError if it exceeds it. The error names
// the last file that read has passed to reads. A thread that hangs in the kernel cannot be ended,
// so there is at most one per key. A call waits for an unfinished earlier one with the same key,
// within the same time limit.
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

// reading is the state of one key.
type reading struct {
	turn  chan struct{} // capacity 1
	path  atomic.Pointer[string]
	users int // waiting calls, and the reading goroutine
}

// readingsByKey holds the readings that are in progress or awaited.
type readingsByKey struct {
	mu    sync.Mutex
	byKey map[string]*reading // guarded by mu
}

// readings is per process, because a hanging thread belongs to the process.
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
