package coordinator

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/bursar/bursar/coordinator/election"
)

const (
	// unreachedAfter is how long a leader may hear of nobody until it gives the lead to others that
	// are there. Each of them asks it every 5 s, so several calls in a row did not arrive.
	unreachedAfter = 20 * time.Second
	// unreachedMost bounds that time, which doubles each time that it has passed without any call
	// in between: others that cannot call this one must not make the lead change for ever.
	unreachedMost = 10 * time.Minute
)

// reached knows when somebody last called this coordinator. Many goroutines may use it.
type reached struct {
	peers func() int // other coordinators of the cluster that are there; nil: there are none

	mu    sync.Mutex
	last  time.Time     // guarded by mu
	after time.Duration // guarded by mu: see unreachedAfter
}

// count notes every call of a procedure, also one that is refused: its caller has come here.
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

// watch takes the election, if it knows of other coordinators.
func (r *reached) watch(e election.Election) {
	if others, knows := e.(interface{ Peers() int }); knows {
		r.peers = others.Peers
	}
}

// unreached reports whether nobody has called for long, since the leadership began, although others
// are there.
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
