package clusterid

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// CallerError refuses a caller who belongs to another cluster.
type CallerError struct {
	Caller, Own Identity
}

func (e *CallerError) Error() string {
	return fmt.Sprintf("the caller belongs to %s, and this coordinator to %s: want a coordinator of the caller's own cluster; "+
		"to move an agent here, start it once with --forget-cluster; if this store took the place of the caller's, set replacesStores", e.Caller, e.Own)
}

// Guard is a coordinator's side of the comparison. It begins without the store's id.
type Guard struct {
	replaces []string
	now      func() time.Time

	mu      sync.Mutex // guards the fields below
	own     Identity
	refused map[string]refusal // callers of other clusters, by their names
}

type refusal struct {
	of   Identity
	last time.Time
}

const (
	// mostRefused bounds how many refused callers are remembered.
	mostRefused = 1000
	// refusedFor is how long a refused caller stays in the warnings after its last call.
	refusedFor = 10 * time.Minute
)

// NewGuard returns the guard of a coordinator of a cluster, whose store has taken the place of
// others.
func NewGuard(cluster string, replaces []string) *Guard {
	return &Guard{own: Identity{Cluster: cluster}, replaces: replaces, now: time.Now, refused: make(map[string]refusal)}
}

// SetStore says which store the coordinator uses.
func (g *Guard) SetStore(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.own.Store = id
}

// Own is the coordinator's identity.
func (g *Guard) Own() Identity {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.own
}

// Announce puts the coordinator's identity into every answer of a handler, also into refusals.
func (g *Guard) Announce(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.Own().Put(w.Header())
		if store := r.Header.Get(StoreHeader); store != "" && slices.Contains(g.replaces, store) {
			w.Header().Set(ReplacesHeader, store)
		}
		next.ServeHTTP(w, r)
	})
}

// Admit returns a *CallerError for a call from another cluster. The name of its caller is who.
func (g *Guard) Admit(header http.Header, who string) error {
	if header.Get(StoreHeader) == "" && header.Get(ClusterHeader) == "" {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.own.In(header) {
		return nil
	}
	caller := Of(header)
	if !caller.Other(g.own) || slices.Contains(g.replaces, caller.Store) && !(Identity{Cluster: caller.Cluster}).Other(Identity{Cluster: g.own.Cluster}) {
		return nil
	}
	if _, known := g.refused[who]; known || len(g.refused) < mostRefused {
		g.refused[who] = refusal{caller, g.now()}
	}
	return &CallerError{Caller: caller, Own: g.own}
}

// Refused is how many callers of other clusters were refused of late, and one of them.
func (g *Guard) Refused() (count int, example string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for who, r := range g.refused {
		if g.now().Sub(r.last) > refusedFor {
			delete(g.refused, who)
			continue
		}
		if text := who + " of " + r.of.String(); example == "" || cmp.Less(text, example) {
			example = text
		}
	}
	return len(g.refused), example
}

// Warnings says that callers of other clusters call here.
func (g *Guard) Warnings() []string {
	count, example := g.Refused()
	if count == 0 {
		return nil
	}
	return []string{fmt.Sprintf("callers that belong to another cluster were refused in the last 10 minutes: %d, such as %s", count, example)}
}
