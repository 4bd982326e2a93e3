package coordinator

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/bursar/bursar/coordinator/election"
)

const (
	// unreachedAfter is how long a leader without any call keeps the lead if other coordinators are
	// there. Each of them calls it every 5 s, so several calls in a row did not arrive.
	unreachedAfter = 20 * time.Second
	// unreachedMost bounds that time, which doubles whenever it has passed without a call.
	// Coordinators that cannot call the leader must not make the lead change forever.
	unreachedMost = 10 * time.Minute
)

// reached records when another process last called this coordinator. Many goroutines may use it.
type reached struct {
	peers func() int // number of the cluster's other coordinators; nil: there are none

	mu    sync.Mutex
	last  time.Time     // guarded by mu
	after time.Duration // guarded by mu: see unreachedAfter
}

// count records every call of a procedure, refused ones too: its caller has reached this
// coordinator.
func (r *reached) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if strings.HasPrefix(q.URL.Path, "/bursar.v1.") {
			r.mu.Lock()
			r.last, r.after = time.Now(), unreachedAfter
			r.mu.Unlock()
		}
		next.ServeHTTP(w, q)
	})
}

// watch attaches the election if it knows other coordinators.
func (r *reached) watch(e election.Election) {
	if others, knows := e.(interface{ Peers() int }); knows {
		r.peers = others.Peers
	}
}

// unreached reports whether the time has passed without a call, since the leadership began,
// although other coordinators are there.
func (r *reached) unreached(since time.Time) bool {
	if r.peers == nil || r.peers() == 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	after := max(r.after, unreachedAfter)
	if r.last.After(since) {
		since = r.last
	}
	if time.Since(since) < after {
		return false
	}
	r.after = min(2*after, unreachedMost)
	return true
}
