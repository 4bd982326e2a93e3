package admission

import (
	"time"

	"golang.org/x/time/rate"
)

const (
	// logEvery is the least time between two log lines about one caller: a flood of calls must not
	// flood the log.
	logEvery = time.Minute
	// logBurst is how many lines about different callers may be logged at once, and logRate how
	// many a second in the long run.
	logBurst, logRate = 20, 0.1
)

// refusalLog decides which refusals are logged. One goroutine at a time may use it.
type refusalLog struct {
	limiter *rate.Limiter
	// logged is when a caller, by ID, was last logged. It has entries of the last logEvery only.
	logged map[string]time.Time
}

func newRefusalLog() refusalLog {
	return refusalLog{limiter: rate.NewLimiter(logRate, logBurst), logged: make(map[string]time.Time)}
}

// shouldLog reports whether a refusal of this caller is to be logged now.
func (t *refusalLog) shouldLog(id string, now time.Time) bool {
	if last, has := t.logged[id]; has && now.Sub(last) < logEvery || !t.limiter.AllowN(now, 1) {
		return false
	}
	for other, last := range t.logged { // logRate keeps this map small
		if now.Sub(last) >= logEvery {
			delete(t.logged, other)
		}
	}
	t.logged[id] = now
	return true
}
