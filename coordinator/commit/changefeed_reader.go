package commit

import (
	"slices"
	"sort"
	"time"
)

// Waiting readers are woken in order of arrival, all of them together at most wakesASecond times a
// second. A reader that was served waits again behind the others. So a few readers get each change
// at once, and many readers get several changes at a time: each of a thousand readers of a busy
// feed gets the changes of a tenth of a second. A wake-up and the write to a connection that
// follows cost some 10 µs, so all of them take a tenth of a processor.
const (
	wakesASecond = 10_000
	// wakesAtOnce readers may be woken at once after a quieter time. While they run, all other
	// goroutines wait for a processor.
	wakesAtOnce = 16
	// wakePause is the pause of the waker if more readers are due.
	wakePause = time.Millisecond
)

// reader is one watcher's position in a feed. It belongs to one goroutine, which must close it.
type reader struct {
	feed *ChangeFeed
	next uint64
	cuts uint64 // cuts of the feed when the reader began
	// waits says that the reader is in idle or due; guarded by the lock of the feed.
	waits bool
	// woken gets one element when the reader should poll again.
	woken chan struct{}
}

// newReader returns a reader of the changes after a revision; 0 means from now on. It also returns
// the revision to send to the watcher first.
func (f *ChangeFeed) newReader(after uint64) (*reader, uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed != nil:
		return nil, 0, f.closed
	case after == 0:
		after = f.revision
	case after < f.floor || after > f.revision:
		return nil, 0, &RevisionError{after, f.floor, f.revision}
	}
	held := int(f.next - f.first) //nolint:gosec // at most the ring's size
	size := uint64(len(f.ring))
	skip := sort.Search(held, func(i int) bool {
		return f.ring[(f.first+uint64(i))%size].revision > after //nolint:gosec // not negative
	})
	return &reader{feed: f, next: f.first + uint64(skip), cuts: f.cuts, woken: make(chan struct{}, 1)}, after, nil //nolint:gosec // not negative
}

// poll appends the next changes to events, up to its capacity. caughtUp is the revision up to which
// the reader has then seen everything, or 0 if there is more.
func (r *reader) poll(events []*Event) (batch []*Event, caughtUp uint64, err error) {
	f := r.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case r.cuts != f.cuts:
		return nil, 0, f.cause
	case r.next < f.first:
		return nil, 0, ErrFellBehind
	}
	for ; r.next < f.next && len(events) < cap(events); r.next++ {
		events = append(events, f.ring[r.next%uint64(len(f.ring))])
	}
	if r.next == f.next {
		caughtUp = f.revision
	}
	if len(events) == 0 && f.closed != nil {
		return nil, 0, f.closed
	}
	return events, caughtUp, nil
}

// wait queues the reader to be woken when there is something to poll and its turn has come. A
// wake-up may find nothing.
func (r *reader) wait() (woken <-chan struct{}) {
	f := r.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case r.waits:
	case r.next < f.next || r.cuts != f.cuts || f.closed != nil:
		f.due = append(f.due, r)
		f.wakeLocked()
	default:
		f.idle = append(f.idle, r)
	}
	r.waits = true
	return r.woken
}

// close removes the reader from the queues.
func (r *reader) close() {
	f := r.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.waits {
		mine := func(other *reader) bool { return other == r }
		f.idle, f.due = slices.DeleteFunc(f.idle, mine), slices.DeleteFunc(f.due, mine)
	}
}

// wakeLocked makes all waiting readers due.
func (f *ChangeFeed) wakeLocked() {
	if len(f.due) == 0 {
		f.idle, f.due = f.due, f.idle
	} else {
		f.due = append(f.due, f.idle...)
		clear(f.idle)
		f.idle = f.idle[:0]
	}
	if len(f.due) > 0 && !f.waking {
		f.waking = true
		f.setWakerLocked(0)
	}
}

func (f *ChangeFeed) setWakerLocked(after time.Duration) {
	if f.waker == nil {
		f.waker = time.AfterFunc(after, f.wakeDue)
	} else {
		f.waker.Reset(after)
	}
}

// wakeDue wakes as many due readers as the pace allows, and sets the timer again if more are due.
func (f *ChangeFeed) wakeDue() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	woken := 0
	for woken < len(f.due) && f.pace.AllowN(now, 1) {
		r := f.due[woken]
		r.waits = false
		select {
		case r.woken <- struct{}{}:
		default: // it was woken before
		}
		woken++
	}
	f.due = slices.Delete(f.due, 0, woken)
	if f.waking = len(f.due) > 0; f.waking {
		f.setWakerLocked(wakePause)
	}
}
