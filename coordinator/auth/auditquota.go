package auth

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// refusalRate and refusalBurst bound the records of refused calls from one address. A few
	// mistakes are recorded in full; a flood takes 150 bytes × 2 a second.
	refusalRate  = 2
	refusalBurst = 50
	// maxSources bounds the addresses with a bucket of their own. The others share one bucket.
	maxSources  = 4096
	otherSource = "others"
)

// refusalQuota keeps floods of refused calls out of the audit log, with a token bucket for each
// address.
type refusalQuota struct {
	mu      sync.Mutex
	sources map[string]*refusals // guarded by mu
}

type refusals struct {
	bucket  *rate.Limiter
	leftOut int64
}

func newRefusalQuota() *refusalQuota { return &refusalQuota{sources: make(map[string]*refusals)} }

// allow reports whether to record a refused call from an address. Otherwise it counts the call.
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

// takeLeftOut returns and resets the number of omitted calls of each address. It forgets addresses
// without recent refusals.
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
