package clusterid

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// mostSeen bounds how many other clusters are remembered: more than anybody runs by mistake.
	mostSeen = 16
	// seenFor is how long another cluster is remembered after it was seen last. Consul's entries
	// are read every minute.
	seenFor = 10 * time.Minute
)

// Pin is the cluster that a process belongs to. It begins with the name that is
// configured, which may be empty.
type Pin struct {
	// configured is the name that an operator has given, empty if none. Another name is refused
	// even if its store is the right one.
	configured string

	mu   sync.Mutex // guards the fields below
	held Identity
	seen map[Identity]time.Time // other clusters, and when each was seen last
}

// NewPin returns a pin to a cluster with this name. If it is empty, the pin holds nothing yet.
func NewPin(cluster string) *Pin {
	return &Pin{configured: cluster, held: Identity{Cluster: cluster}, seen: make(map[Identity]time.Time)}
}

// Configured is the name that was given to NewPin.
func (p *Pin) Configured() string { return p.configured }

// Held is the cluster that the process belongs to. A nil pin holds nothing.
func (p *Pin) Held() Identity {
	if p == nil {
		return Identity{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// Check reports whether a coordinator may be called: it is of the same cluster, or nobody can tell.
// It remembers one of another cluster. The error is an *Error. A nil pin allows every coordinator.
func (p *Pin) Check(url string, got Identity) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.otherLocked(got) {
		return nil
	}
	p.seeLocked(got)
	return &Error{URL: url, Got: got, Want: p.held}
}

func (p *Pin) otherLocked(got Identity) bool {
	return got.Other(p.held) || p.configured != "" && got.Cluster != "" && got.Cluster != p.configured
}

// Hold pins to a cluster, if it is not another one than that held. It adds an unknown part, and
// reports whether that has changed anything.
func (p *Pin) Hold(got Identity) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.otherLocked(got) {
		return false
	}
	before := p.held
	p.held = Identity{cmp.Or(got.Cluster, before.Cluster), cmp.Or(got.Store, before.Store)}
	return p.held != before
}

// Replace moves the pin to another store of the same cluster, because a coordinator says that its
// store has taken the place of the one held.
func (p *Pin) Replace(by Identity, replaced string) (moved bool) {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if replaced == "" || replaced != p.held.Store || by.Store == "" || (Identity{Cluster: by.Cluster}).Other(Identity{Cluster: p.held.Cluster}) {
		return false
	}
	p.held.Store, p.held.Cluster = by.Store, cmp.Or(by.Cluster, p.held.Cluster)
	return true
}

// Forget lets go of all but the configured name.
func (p *Pin) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = Identity{Cluster: p.configured}
	clear(p.seen)
}

// See remembers another cluster.
func (p *Pin) See(other Identity) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seeLocked(other)
}

func (p *Pin) seeLocked(other Identity) {
	if _, known := p.seen[other]; known || len(p.seen) < mostSeen {
		p.seen[other] = time.Now()
	}
}

// Seen are other clusters whose coordinators were found in the last 10 minutes, at most 16. A nil
// pin has seen none.
func (p *Pin) Seen() []Identity {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.seen, func(_ Identity, last time.Time) bool { return time.Since(last) > seenFor })
	return slices.SortedFunc(maps.Keys(p.seen), func(a, b Identity) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Store, b.Store))
	})
}
