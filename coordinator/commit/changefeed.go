package commit

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/bursar/bursar/coordinator/ledger"
)

// Why a watch ends, or does not begin. All are OUT_OF_RANGE: read again, then watch from what was
// read.
var (
	ErrTooOld     = errors.New("after_revision: changes since then are no longer held: List, then Watch from its revision")
	ErrAhead      = errors.New("after_revision: beyond this ledger's revision: List, then Watch from its revision")
	ErrFellBehind = errors.New("this watch fell too far behind and was cut off: List, then Watch from its revision")
)

// RevisionError refuses a watch after a revision that is not held. It wraps ErrTooOld or ErrAhead.
type RevisionError struct {
	// Oldest and Newest are the first and the last revision that a watch may begin after.
	After, Oldest, Newest uint64
}

func (e *RevisionError) Error() string { return e.Unwrap().Error() }

// Unwrap says on which side of the held ones the revision is.
func (e *RevisionError) Unwrap() error {
	if e.After > e.Newest {
		return ErrAhead
	}
	return ErrTooOld
}

// Event is one change, as watchers see it. One of the pointers or names is set. All watchers share
// it; nothing of it changes but its encodings.
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

	feed   *ChangeFeed
	serial uint64
	bytes  int // its size without its encodings, as the feed counts it
	// encoding is held while the event is encoded. The list is replaced, never changed; replacing
	// it is guarded by feed.mu.
	encoding  sync.Mutex
	encodings atomic.Pointer[[]encoding]
}

// ChangeFeed keeps the latest durable changes for watchers, up to a number and up to a size.
// Writers never wait for readers: every reader has its own place in one ring, and is cut off if
// that place was overwritten. Nor do they wake readers: a timer does, in order and a few at a time.
type ChangeFeed struct {
	mu sync.Mutex
	// All below are guarded by mu. Events have serial numbers; ring[n % len] is number n, for
	// first <= n < next.
	ring        []*Event
	first, next uint64
	// bytes is the size of the events in the ring with their encodings, most is its bound. The
	// latest event is kept whatever its size.
	bytes, most int
	// encoded is the size of the encodings alone. Only events from number bare on have any.
	encoded int
	bare    uint64
	// floor is the revision that the ring goes back to: it has every change after it.
	floor    uint64
	revision uint64 // of the latest change
	closed   error
	// cuts counts how often all readers were sent away, and cause is why the last time.
	cuts  uint64
	cause error
	// idle are the readers that wait for something new, due are those for which there is.
	idle, due []*reader
	// waker wakes those that are due; it is set while there are any, which waking says. pace says
	// how many it may wake.
	waker  *time.Timer
	waking bool
	pace   *rate.Limiter
}

// NewChangeFeed makes a feed that holds so many events, of so many bytes at most.
func NewChangeFeed(events, bytes int) *ChangeFeed {
	return &ChangeFeed{ring: make([]*Event, events), most: bytes, pace: rate.NewLimiter(wakesASecond, wakesAtOnce)}
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
	f.first, f.bare = f.next, f.next
	clear(f.ring)
	f.bytes, f.encoded = 0, 0
	f.floor, f.revision = revision, revision
	f.wakeLocked()
}

// Publish adds what a batch has changed. The rows belong to the feed from then on, except the
// transitions, of which it keeps copies: the ledger uses their array again. It takes as long with
// many readers as with few.
func (f *ChangeFeed) Publish(c *ledger.Changes) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// One piece of memory for all of the batch, as its rows are.
	events := make([]Event, len(c.Hosts)+len(c.Transitions)+len(c.HostsRemoved)+len(c.Quotas)+len(c.QuotasRemoved))
	add := func(revision uint64, stamp ledger.Stamp) *Event {
		e := &events[0]
		events = events[1:]
		e.revision, e.Stamp = revision, stamp
		return e
	}
	hosts, stamps, transitions := c.Hosts, stampsByRevision(c.Stamps), slices.Clone(c.Transitions)
	for i := range transitions {
		t := &transitions[i]
		for len(hosts) > 0 && hosts[0].Revision < t.Revision {
			e := add(hosts[0].Revision, stamps.next(hosts[0].Revision))
			e.Host = &hosts[0]
			f.addLocked(e)
			hosts = hosts[1:]
		}
		t.Wishes = nil // watchers are not shown them
		e := add(t.Revision, stamps.next(t.Revision))
		e.Allocation = t
		f.addLocked(e)
	}
	for i := range hosts {
		e := add(hosts[i].Revision, stamps.next(hosts[i].Revision))
		e.Host = &hosts[i]
		f.addLocked(e)
	}
	for _, id := range c.HostsRemoved {
		e := add(c.Revision, c.HostStamps[id])
		e.HostRemoved = id
		f.addLocked(e)
	}
	for i := range c.Quotas {
		e := add(c.Revision, c.QuotaStamps[c.Quotas[i].Selector.String()])
		e.Quota = &c.Quotas[i]
		f.addLocked(e)
	}
	for _, selector := range c.QuotasRemoved {
		e := add(c.Revision, c.QuotaStamps[selector])
		e.QuotaRemoved = selector
		f.addLocked(e)
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

func (f *ChangeFeed) addLocked(e *Event) {
	size := uint64(len(f.ring))
	e.feed, e.serial, e.bytes = f, f.next, e.size()
	if f.next-f.first == size {
		f.dropLocked()
	}
	f.makeRoomLocked(e.bytes, 0)
	if f.next > f.first {
		if last := f.ring[(f.next-1)%size]; last.revision == e.revision {
			last.Resume = e.revision - 1
		}
	}
	e.Resume = e.revision
	f.ring[f.next%size] = e
	f.bytes += e.bytes
	f.next++
}

// makeRoomLocked drops the oldest events until there is room for so many bytes, or only the latest
// few are left.
func (f *ChangeFeed) makeRoomLocked(bytes int, least uint64) {
	for f.next-f.first > least && f.bytes+bytes > f.most {
		f.dropLocked()
	}
}

// dropLocked drops the oldest event.
func (f *ChangeFeed) dropLocked() {
	if f.bare == f.first {
		f.stripLocked()
	}
	at := &f.ring[f.first%uint64(len(f.ring))]
	f.floor, f.bytes = (*at).revision, f.bytes-(*at).bytes
	*at = nil
	f.first++
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
