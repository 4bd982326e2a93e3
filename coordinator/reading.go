package coordinator

import "sync"

// shareReading lets a function that takes long be called by many: it runs once at a time, and all who
// come while it runs share the next run, which begins after they have come.
func shareReading[T any](read func() (T, error)) func() (T, error) {
	type reading struct {
		once  sync.Once
		value T
		err   error
	}
	var (
		running sync.Mutex
		mu      sync.Mutex
		next    *reading // guarded by mu; it has not begun
	)
	return func() (T, error) {
		mu.Lock()
		if next == nil {
			next = new(reading)
		}
		mine := next
		mu.Unlock()
		mine.once.Do(func() {
			running.Lock()
			defer running.Unlock()
			mu.Lock()
			next = nil
			mu.Unlock()
			mine.value, mine.err = read()
		})
		return mine.value, mine.err
	}
}
