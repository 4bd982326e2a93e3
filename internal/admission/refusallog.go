package admission

import (
	"time"

	"golang.org/x/time/rate"
)

const (
	// logEvery is how often a caller's refusals are logged: a flood of calls must not flood the
	// log.
	logEvery = time.Minute
	// logBurst is of how many callers at once a refusal is logged, and logRate of how many a
	// second in the long run.
	logBurst, logRate = 20, 0.1
)

// refusalLog decides which refusals are logged. One goroutine at a time may use it.
type refusalLog struct {
	limiter *rate.Limiter
	// logged is when a caller's refusal was last logged, by the caller's ID; of the last logEvery.
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
	for other, last := range t.logged { // as few as are logged in so long
		if now.Sub(last) >= logEvery {
			delete(t.logged, other)
		}
	}
	t.logged[id] = now
	return true
}
