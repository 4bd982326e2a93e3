//go:build linux

package ha

import (
	"slices"
	"sync"
	"time"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// The states, in short.
const (
	waiting  = bursarv1.AllocationState_ALLOCATION_STATE_WAITING
	reserved = bursarv1.AllocationState_ALLOCATION_STATE_RESERVED
	active   = bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE
	released = bursarv1.AllocationState_ALLOCATION_STATE_RELEASED
	canceled = bursarv1.AllocationState_ALLOCATION_STATE_CANCELED
)

// book is what the clients know: every acknowledged allocation, and the states that its later
// operations explain.
type book struct {
	mu      sync.Mutex
	entries map[string]*entry // guarded by mu; by id
	// grants are the times of successful Allocates through agents, in order. Guarded by mu.
	grants []time.Time
	// no are the requests that were refused, by request id. Guarded by mu.
	no map[string]bool
	// doubled are faults; guarded by mu.
	doubled []string
}

// entry is one allocation.
type entry struct {
	requestID string
	may       []bursarv1.AllocationState // any of these
	settled   bool                       // ended, and found so by a check
}

func newBook() *book { return &book{entries: make(map[string]*entry), no: make(map[string]bool)} }

// refused writes down that a request was answered with no.
func (b *book) refused(requestID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.no[requestID] = true
}

// late reports whether an allocation is from an attempt that its client had given up: it reached
// the leader after a later attempt of the same request was refused. Nobody knows of it; it ends
// when its reservation does.
func (b *book) late(a *bursarv1.Allocation) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return a.GetState() == reserved && b.no[a.GetRequestId()]
}

// acknowledged notes that a request got an allocation. It is a fault if two requests got the same
// one, or one request two.
func (b *book) acknowledged(a *bursarv1.Allocation, throughAgent bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if throughAgent {
		b.grants = append(b.grants, time.Now())
	}
	known, found := b.entries[a.GetId()]
	if found && known.requestID != a.GetRequestId() {
		b.doubled = append(b.doubled, "allocation "+a.GetId()+" is that of "+known.requestID+" and of "+a.GetRequestId())
	}
	if !found {
		b.entries[a.GetId()] = &entry{requestID: a.GetRequestId(), may: []bursarv1.AllocationState{reserved}}
	}
}

// now says what an allocation may be from now on.
func (b *book) now(id string, may ...bursarv1.AllocationState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries[id].may = may
}

// pause returns the longest time since then in which nobody was granted anything.
func (b *book) pause(began time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	first, _ := slices.BinarySearchFunc(b.grants, began, time.Time.Compare)
	longest := time.Duration(0)
	for _, granted := range b.grants[first:] {
		longest = max(longest, granted.Sub(began))
		began = granted
	}
	return longest
}

// open returns the entries that no check has settled, by id.
func (b *book) open() map[string]entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make(map[string]entry)
	for id, e := range b.entries {
		if !e.settled {
			list[id] = *e
		}
	}
	return list
}

// live reports whether an entry is one that must be in the ledger.
func (e entry) live() bool {
	return !slices.ContainsFunc(e.may, func(s bursarv1.AllocationState) bool { return s != reserved && s != active })
}

// removeEnded takes out what has ended: nobody will ask for it again.
func (b *book) removeEnded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.entries {
		e.settled = !e.live()
	}
}

// size is how many allocations were acknowledged.
func (b *book) size() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.entries)
}

// faults returns the faults that the book alone shows, and how many allocations there were.
func (b *book) faults() (list []string, allocations int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.doubled), len(b.entries)
}

// knows reports whether an allocation was acknowledged.
func (b *book) knows(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, found := b.entries[id]
	return found
}
