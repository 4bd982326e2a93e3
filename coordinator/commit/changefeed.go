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

// The reasons why a watch ends, or does not begin. All are OUT_OF_RANGE: the caller must read
// again, then watch from the revision of that read.
var (
	ErrTooOld     = errors.New("after_revision: changes since then are no longer held: List, then Watch from its revision")
	ErrAhead      = errors.New("after_revision: beyond this ledger's revision: List, then Watch from its revision")
	ErrFellBehind = errors.New("this watch fell too far behind and was cut off: List, then Watch from its revision")
)

// RevisionError refuses a watch after a revision that the feed does not hold. It wraps ErrTooOld or
// ErrAhead.
type RevisionError struct {
	// Oldest and Newest are the first and the last revision that a watch may begin after.
	After, Oldest, Newest uint64
}

func (e *RevisionError) Error() string { return e.Unwrap().Error() }

// Unwrap returns ErrAhead or ErrTooOld.
func (e *RevisionError) Unwrap() error {
	if e.After > e.Newest {
		return ErrAhead
	}
	return ErrTooOld
}

// Event is one change for watchers. Exactly one of the pointers and names is set. All watchers
// share it; only its encodings change.
type Event struct {
	revision uint64
	// Resume is the revision to watch after once the caller has this event: its own, or the one
	// before if later events share it.
	Resume       uint64
	Allocation   *ledger.Allocation
	Host         *ledger.HostRecord
	Quota        *ledger.Quota
	QuotaRemoved string
	HostRemoved  string
	// Stamp is the time and the author of the change.
	Stamp ledger.Stamp

	feed   *ChangeFeed
	serial uint64
	bytes  int // its size without its encodings
	// encoding is held while the event is encoded. The list is never changed, only replaced, under
	// feed.mu.
	encoding  sync.Mutex
	encodings atomic.Pointer[[]encoding]
}

// ChangeFeed keeps the latest durable changes for watchers, up to a number and up to a size.
// Writers never wait for readers: every reader has its own position in one ring, and is cut off if
// that position was overwritten. Nor do writers wake readers: a timer does, in order and a few at a
// time.
type ChangeFeed struct {
	mu sync.Mutex
	// All fields below are guarded by mu. Events have serial numbers; ring[n % len] is number n,
	// for first <= n < next.
	ring        []*Event
	first, next uint64
	// bytes is the size of the events in the ring with their encodings, most is its bound. The
	// latest event stays, whatever its size.
	bytes, most int
	// encoded is the size of the encodings. Only events from number bare on have any.
	encoded int
	bare    uint64
	// floor is the revision at which the ring begins: it has every later change.
	floor    uint64
	revision uint64 // of the latest change
	closed   error
	// cuts counts how often all readers were cut off, and cause is the last reason.
	cuts  uint64
	cause error
	// idle are readers that wait for a change, due are readers to wake.
	idle, due []*reader
	// waker wakes the due readers; waking says that it is set. pace bounds its rate.
	waker  *time.Timer
	waking bool
	pace   *rate.Limiter
}

// NewChangeFeed returns a feed that holds so many events and so many bytes at most.
func NewChangeFeed(events, bytes int) *ChangeFeed {
	return &ChangeFeed{ring: make([]*Event, events), most: bytes, pace: rate.NewLimiter(wakesASecond, wakesAtOnce)}
}

// Held returns the number of events that watchers can resume from, and their size.
func (f *ChangeFeed) Held() (events, bytes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return int(f.next - f.first), f.bytes //nolint:gosec // at most the ring's size
}

// reset sets the revision that was loaded from the store. If the feed is at that revision, it has
// missed nothing and readers go on. Otherwise the changes in between are not known here, and
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

// Publish adds the changes of a batch. The feed then owns the rows, except the transitions, which
// it copies because the ledger reuses their array. The cost does not depend on the number of
// readers.
func (f *ChangeFeed) Publish(c *ledger.Changes) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// One allocation of memory for the whole batch, like its rows.
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
		t.Wishes = nil // watchers do not get them
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

// stampsByRevision are the remaining stamps of a batch.
type stampsByRevision []ledger.RevisionStamp

// next returns the stamp of a revision. The revisions of the calls must not go back.
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

// makeRoomLocked drops the oldest events until there is room for so many bytes, or only least
// events are left.
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

// endWatches ends the current watches with err.
func (f *ChangeFeed) endWatches(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cuts++
	f.cause = err
	f.wakeLocked()
}
