package auth

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// refusalRate and refusalBurst bound how many refused calls from one address are written down:
	// some mistakes in full, and of a flood 150 bytes × 2 a second.
	refusalRate  = 2
	refusalBurst = 50
	// maxSources bounds how many addresses are told apart; the rest share one account.
	maxSources  = 4096
	otherSource = "others"
)

// refusalQuota keeps floods of refused calls out of the audit log: a token bucket for each address
// they come from.
type refusalQuota struct {
	mu      sync.Mutex
	sources map[string]*refusals // guarded by mu
}

type refusals struct {
	bucket  *rate.Limiter
	leftOut int64
}

func newRefusalQuota() *refusalQuota { return &refusalQuota{sources: make(map[string]*refusals)} }

// allow reports whether a refused call from an address is to be written down. If not, the call is
// counted.
func (q *refusalQuota) allow(source string, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.sources[source]
	if r == nil {
		if len(q.sources) >= maxSources {
			source = otherSource
		}
		if r = q.sources[source]; r == nil {
			r = &refusals{bucket: rate.NewLimiter(refusalRate, refusalBurst)}
			q.sources[source] = r
		}
	}
	if !r.bucket.AllowN(now, 1) {
		r.leftOut++
		return false
	}
	return true
}

// takeLeftOut returns, once, how many calls of each address were not written down, and forgets
// those addresses that have been quiet.
func (q *refusalQuota) takeLeftOut(now time.Time) map[string]int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	found := make(map[string]int64)
	for source, r := range q.sources {
		if r.leftOut > 0 {
			found[source], r.leftOut = r.leftOut, 0
		} else if r.bucket.TokensAt(now) >= refusalBurst {
			delete(q.sources, source)
		}
	}
	return found
}
