package admission

import (
	"errors"
	"sync"
	"time"
)

const (
	// pauseShare is the ratio of the pause after a reading to the reading's time. So readings take
	// at most a fifth of a core, however many callers there are.
	pauseShare = 4
	// mostPause bounds the pause, in case a reading only lacked a processor.
	mostPause = time.Second
)

// errFailed is the error of callers that shared a reading that panicked.
var errFailed = errors.New("the reading failed")

// Share lets many goroutines call a function that takes long. It runs once at a time, with pauses
// between. All callers that arrive before a run begins share that run.
func Share[T any](read func() (T, error)) func() (T, error) {
	type reading struct {
		done  chan struct{} // closed when it has ended
		value T
		err   error
	}
	var (
		running = make(chan struct{}, 1)
		readyAt time.Time // owned by the current run; no run before it
		mu      sync.Mutex
		next    *reading // guarded by mu; a run that has not begun
	)
	run := func(mine *reading) {
		running <- struct{}{}
		defer func() { <-running; close(mine.done) }()
		<-time.After(time.Until(readyAt))
		mu.Lock()
		next = nil
		mu.Unlock()
		mine.err = errFailed // unless it returns
		began := time.Now()
		mine.value, mine.err = read()
		ended := time.Now()
		readyAt = ended.Add(min(pauseShare*ended.Sub(began), mostPause))
	}
	return func() (T, error) {
		mu.Lock()
		mine, first := next, next == nil
		if first {
			mine = &reading{done: make(chan struct{})}
			next = mine
		}
		mu.Unlock()
		if first {
			run(mine)
		}
		<-mine.done
		return mine.value, mine.err
	}
}
