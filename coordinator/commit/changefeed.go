package commit

import (
	"errors"
	"slices"
	"sort"
	"sync"

	"github.com/bursar/bursar/coordinator/ledger"
)

// Why a watch ends, or does not begin. All are OUT_OF_RANGE: read again, then watch from what was
// read.
var (
	ErrTooOld     = errors.New("after_revision: changes since then are no longer held: List, then Watch from its revision")
	ErrAhead      = errors.New("after_revision: beyond this ledger's revision: List, then Watch from its revision")
	ErrFellBehind = errors.New("this watch fell too far behind and was cut off: List, then Watch from its revision")
)

// Event is one change, as watchers see it. One of the pointers or names is set.
type Event struct {
	revision uint64
	// Resume is the revision to watch after once this event was seen: its own, or the one before
	// if later events share it.
	Resume       uint64
	Allocation   *ledger.Allocation
	Host         *ledger.HostRecord
	Quota        *ledger.Quota
	QuotaRemoved string
	HostRemoved  string
	// Stamp says when it was made and by whom.
	Stamp ledger.Stamp
	bytes int // its size, as the feed counts it
}

// ChangeFeed keeps the latest durable changes for watchers, up to a number and up to a size.
// Writers never wait for readers: every reader has its own place in one ring, and is cut off if
// that place was overwritten.
type ChangeFeed struct {
	mu sync.Mutex
	// All below are guarded by mu. Events have serial numbers; ring[n % len] is number n, for
	// first <= n < next.
	ring        []Event
	first, next uint64
	// bytes is the size of the events in the ring, most is its bound. The latest event is kept
	// whatever its size.
	bytes, most int
	// floor is the revision that the ring goes back to: it has every change after it.
	floor    uint64
	revision uint64 // of the latest change
	closed   error
	// cuts counts how often all readers were sent away, and cause is why the last time.
	cuts    uint64
	cause   error
	readers int
	wake    chan struct{} // closed by the next change
}

// NewChangeFeed makes a feed that holds so many events, of so many bytes at most.
func NewChangeFeed(events, bytes int) *ChangeFeed {
	return &ChangeFeed{ring: make([]Event, events), most: bytes, wake: make(chan struct{})}
}

// Held is how many events there are for watchers to resume from, and their size.
func (f *ChangeFeed) Held() (events, bytes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return int(f.next - f.first), f.bytes //nolint:gosec // at most the ring's size
}

// reset begins at a revision that was read from the store. If the feed is at that revision,
// nothing was missed and readers go on. If not, what happened in between is not known here, and
// readers are cut off.
func (f *ChangeFeed) reset(revision uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.revision == revision {
		return
	}
	f.next++
	f.first = f.next
	clear(f.ring)
	f.bytes = 0
	f.floor, f.revision = revision, revision
	f.wakeLocked()
}

// Publish adds what a batch has changed. The rows belong to the feed from then on, except the
// transitions, of which it keeps copies: the ledger uses their array again.
func (f *ChangeFeed) Publish(c *ledger.Changes) {
	f.mu.Lock()
	defer f.mu.Unlock()
	hosts, stamps, transitions := c.Hosts, stampsByRevision(c.Stamps), slices.Clone(c.Transitions)
	for i := range transitions {
		t := &transitions[i]
		for len(hosts) > 0 && hosts[0].Revision < t.Revision {
			f.addLocked(Event{revision: hosts[0].Revision, Host: &hosts[0], Stamp: stamps.next(hosts[0].Revision)})
			hosts = hosts[1:]
		}
		t.Wishes = nil // watchers are not shown them
		f.addLocked(Event{revision: t.Revision, Allocation: t, Stamp: stamps.next(t.Revision)})
	}
	for i := range hosts {
		f.addLocked(Event{revision: hosts[i].Revision, Host: &hosts[i], Stamp: stamps.next(hosts[i].Revision)})
	}
	for _, id := range c.HostsRemoved {
		f.addLocked(Event{revision: c.Revision, HostRemoved: id, Stamp: c.HostStamps[id]})
	}
	for i := range c.Quotas {
		f.addLocked(Event{revision: c.Revision, Quota: &c.Quotas[i], Stamp: c.QuotaStamps[c.Quotas[i].Selector.String()]})
	}
	for _, selector := range c.QuotasRemoved {
		f.addLocked(Event{revision: c.Revision, QuotaRemoved: selector, Stamp: c.QuotaStamps[selector]})
	}
	f.revision = c.Revision
	f.wakeLocked()
}

// stampsByRevision are the stamps of a batch that are not used yet.
type stampsByRevision []ledger.RevisionStamp

// next returns the stamp of a revision. No earlier one may be asked for after it.
func (s *stampsByRevision) next(revision uint64) ledger.Stamp {
	for len(*s) > 1 && (*s)[1].From <= revision {
		*s = (*s)[1:]
	}
	if len(*s) == 0 || (*s)[0].From > revision {
		return ledger.Stamp{}
	}
	return (*s)[0].Stamp
}

func (f *ChangeFeed) addLocked(e Event) {
	size := uint64(len(f.ring))
	e.bytes = e.size()
	for f.next > f.first && (f.next-f.first == size || f.bytes+e.bytes > f.most) {
		oldest := &f.ring[f.first%size]
		f.floor, f.bytes = oldest.revision, f.bytes-oldest.bytes
		*oldest = Event{}
		f.first++
	}
	if f.next > f.first {
		if last := &f.ring[(f.next-1)%size]; last.revision == e.revision {
			last.Resume = e.revision - 1
		}
	}
	e.Resume = e.revision
	f.ring[f.next%size] = e
	f.bytes += e.bytes
	f.next++
}

func (f *ChangeFeed) wakeLocked() {
	if f.readers > 0 {
		close(f.wake)
		f.wake = make(chan struct{})
	}
}

// Close ends every watch with err.
func (f *ChangeFeed) Close(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = err
	f.wakeLocked()
}

// endWatches ends the watches that there are with err.
func (f *ChangeFeed) endWatches(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cuts++
	f.cause = err
	f.wakeLocked()
}

// reader is one watcher's place in a feed. It belongs to one goroutine and must be left.
type reader struct {
	feed *ChangeFeed
	next uint64
	cuts uint64 // of the feed, when it began
}

// newReader begins to read after a revision; 0 is from now on. It returns the revision to send to
// the watcher first.
func (f *ChangeFeed) newReader(after uint64) (*reader, uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed != nil:
		return nil, 0, f.closed
	case after == 0:
		after = f.revision
	case after < f.floor:
		return nil, 0, ErrTooOld
	case after > f.revision:
		return nil, 0, ErrAhead
	}
	held := int(f.next - f.first) //nolint:gosec // at most the ring's size
	size := uint64(len(f.ring))
	skip := sort.Search(held, func(i int) bool {
		return f.ring[(f.first+uint64(i))%size].revision > after //nolint:gosec // not negative
	})
	f.readers++
	return &reader{feed: f, next: f.first + uint64(skip), cuts: f.cuts}, after, nil //nolint:gosec // not negative
}

// poll appends the next changes to events, at most as many as fit without growing it. If there are
// none, it returns a channel that is closed when there are. caughtUp is the revision up to which
// the reader has seen everything, or 0 if it has not.
func (r *reader) poll(events []Event) (batch []Event, wait <-chan struct{}, caughtUp uint64, err error) {
	f := r.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case r.cuts != f.cuts:
		return nil, nil, 0, f.cause
	case r.next < f.first:
		return nil, nil, 0, ErrFellBehind
	}
	for ; r.next < f.next && len(events) < cap(events); r.next++ {
		events = append(events, f.ring[r.next%uint64(len(f.ring))])
	}
	if r.next == f.next {
		caughtUp = f.revision
	}
	if len(events) == 0 && f.closed != nil {
		return nil, nil, 0, f.closed
	}
	return events, f.wake, caughtUp, nil
}

// close gives up the place.
func (r *reader) close() {
	r.feed.mu.Lock()
	defer r.feed.mu.Unlock()
	r.feed.readers--
}
