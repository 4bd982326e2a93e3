package admission

import (
	"time"

	"golang.org/x/time/rate"
)

const (
	// toldEvery is how often a caller's refusals are logged: who floods a server must not flood its log.
	toldEvery = time.Minute
	// toldBurst is of how many callers at once a refusal is logged, and toldRate of how many a second in the long run.
	toldBurst, toldRate = 20, 0.1
)

// teller decides which refusals are logged. One goroutine at a time may use it.
type teller struct {
	limiter *rate.Limiter
	told    map[string]time.Time // when a caller's refusal was last logged, by the caller's ID; of the last toldEvery
}

func newTeller() teller {
	return teller{limiter: rate.NewLimiter(toldRate, toldBurst), told: make(map[string]time.Time)}
}

// tells reports whether a refusal of this caller is to be logged now.
func (t *teller) tells(id string, now time.Time) bool {
	if last, has := t.told[id]; has && now.Sub(last) < toldEvery || !t.limiter.AllowN(now, 1) {
		return false
	}
	for other, last := range t.told { // as few as are logged in so long
		if now.Sub(last) >= toldEvery {
			delete(t.told, other)
		}
	}
	t.told[id] = now
	return true
}
