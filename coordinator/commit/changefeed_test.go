package commit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/identity"
)

// TestAFeedIsWhatWasPublished compares resumed reading with a plain list: every reader sees all
// changes after its beginning and misses none, or gets an error.
func TestAFeedIsWhatWasPublished(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 8).Draw(t, "size")
		f := NewChangeFeed(size, 1<<20)
		base := rapid.Uint64Range(0, 3).Draw(t, "base")
		f.reset(base)
		type change struct {
			revision uint64
			name     string
		}
		var all []change
		revision := base
		for range rapid.IntRange(0, 6).Draw(t, "batches") {
			var c ledger.Changes
			for range rapid.IntRange(0, 4).Draw(t, "rows") {
				revision++
				if rapid.Bool().Draw(t, "host") {
					c.Hosts = append(c.Hosts, ledger.HostRecord{Revision: revision})
				} else {
					c.Transitions = append(c.Transitions, ledger.Allocation{Revision: revision})
				}
				all = append(all, change{revision, "row"})
			}
			if rapid.Bool().Draw(t, "rules") {
				// the ledger counts every rule, the feed shows them all with the last
				revision += 2
				c.QuotasRemoved = []string{"a", "b"}
				all = append(all, change{revision, "a"}, change{revision, "b"})
			}
			c.Revision = revision
			if c.Revision > f.revision {
				f.Publish(&c)
			}
		}
		after := rapid.Uint64Range(0, revision+2).Draw(t, "after")
		r, begins, err := f.newReader(after)
		if after == 0 {
			after = revision
		}
		var want []change
		for _, c := range all {
			if c.revision > after {
				want = append(want, c)
			}
		}
		switch {
		case after > revision:
			if !errors.Is(err, ErrAhead) {
				t.Fatalf("after %d of %d: %v", after, revision, err)
			}
			return
		case len(want) > size || after < base:
			if !errors.Is(err, ErrTooOld) {
				t.Fatalf("%d changes after %d, in a ring of %d: %v", len(want), after, size, err)
			}
			return
		case errors.Is(err, ErrTooOld):
			// The ring may hold only a part of the changes with one revision: then none of them is
			// used.
			if len(want) <= size-2 {
				t.Fatalf("%d changes after %d, in a ring of %d: %v", len(want), after, size, err)
			}
			return
		case err != nil || begins != after:
			t.Fatalf("begins at %d, not %d: %v", begins, after, err)
		}
		defer r.close()
		var got []change
		var resume uint64
		for {
			batch, caughtUp, err := r.poll(make([]*Event, 0, 2))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range batch {
				name := "row"
				if e.QuotaRemoved != "" {
					name = e.QuotaRemoved
				}
				got = append(got, change{e.revision, name})
				resume = e.Resume
			}
			if len(batch) == 0 {
				if caughtUp != revision {
					t.Fatalf("caught up with %d of %d", caughtUp, revision)
				}
				break
			}
		}
		if diff := cmp.Diff(fmt.Sprint(want), fmt.Sprint(got)); diff != "" {
			t.Fatal(diff)
		}
		if len(got) > 0 && resume != got[len(got)-1].revision {
			t.Fatalf("resumes after %d, has seen %d", resume, got[len(got)-1].revision)
		}
	})
}

func TestAReaderThatFallsBehindIsCutOff(t *testing.T) {
	f := NewChangeFeed(4, 1<<20)
	publish := func(revision uint64) {
		f.Publish(&ledger.Changes{Revision: revision, Transitions: []ledger.Allocation{{Revision: revision}}})
	}
	publish(1)
	r, _, err := f.newReader(0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	for revision := range uint64(4) {
		publish(2 + revision)
	}
	if _, _, err := r.poll(make([]*Event, 0, 1)); err != nil {
		t.Fatalf("four behind in a ring of four: %v", err)
	}
	publish(10)
	if _, _, err := r.poll(make([]*Event, 0, 1)); err != nil {
		t.Fatalf("still in the ring: %v", err)
	}
	publish(20)
	publish(21)
	if _, _, err := r.poll(make([]*Event, 0, 1)); !errors.Is(err, ErrFellBehind) {
		t.Errorf("got %v", err)
	}
}

func TestAReaderGoesOnOverALeadershipThatMissedNothing(t *testing.T) {
	f := NewChangeFeed(4, 1<<20)
	f.reset(5)
	r, _, err := f.newReader(5)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	f.reset(5)
	if _, _, err := r.poll(nil); err != nil {
		t.Errorf("nothing was missed, and yet: %v", err)
	}
	f.reset(6) // a batch had become durable without having been published
	if _, _, err := r.poll(nil); !errors.Is(err, ErrFellBehind) {
		t.Errorf("something was missed: %v", err)
	}
	if _, _, err := f.newReader(5); !errors.Is(err, ErrTooOld) {
		t.Errorf("got %v", err)
	}
	if again, _, err := f.newReader(6); err != nil {
		t.Error(err)
	} else {
		again.close()
	}
}

// The ledger uses the array of a batch's transitions again.
func TestAFeedKeepsCopiesOfTransitions(t *testing.T) {
	f := NewChangeFeed(4, 1<<20)
	wishes := &ledger.Wishes{Host: "h1"}
	c := ledger.Changes{Revision: 2, Transitions: []ledger.Allocation{{ID: 1, Revision: 1}, {ID: 2, Revision: 2, Wishes: wishes}}}
	r, _, err := f.newReader(0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	f.Publish(&c)
	if c.Transitions[1].Wishes != wishes {
		t.Error("the feed has changed what is not its own")
	}
	clear(c.Transitions)
	events, _, err := r.poll(make([]*Event, 0, 4))
	if err != nil || len(events) != 2 || events[0].Allocation.ID != 1 || events[1].Allocation.ID != 2 {
		t.Errorf("got %+v, %v: want allocations 1 and 2", events, err)
	}
}

// TestAQuietWatchSaysThatItIsThere tests times, and so uses no sockets.
func TestAQuietWatchSaysThatItIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := runLoop(t, NewMemoryStore(), func(c *setup) { c.Ledger.Interval = time.Hour })
		defer d.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var beats []uint64
		ended := make(chan error)
		go func() {
			ended <- d.Follow(ctx, 0, func(revision uint64) error {
				beats = append(beats, revision)
				return nil
			}, func([]*Event) error { return nil })
		}()
		synctest.Wait()
		d.Host(100) // nothing that this watch is about
		v, err := d.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(31 * time.Second)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
		if diff := cmp.Diff([]uint64{0, v.Revision, v.Revision}, beats); diff != "" {
			t.Errorf("revisions of the keep-alives: %s", diff)
		}
	})
}

// A feed holds fewer changes if they are large: it is bounded in bytes, and readers that are too
// slow are cut off.
func TestAFeedIsBoundedInBytes(t *testing.T) {
	const events, bytes = 1000, 64 << 10
	f := NewChangeFeed(events, bytes)
	f.reset(1)
	publish := func(revision uint64, size int) {
		f.Publish(&ledger.Changes{Revision: revision, Transitions: []ledger.Allocation{
			{Revision: revision, Reason: strings.Repeat("r", size)},
		}})
	}
	slow, _, err := f.newReader(0)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.close()
	revision := uint64(1)
	for range 100 {
		revision++
		publish(revision, 4<<10)
		if _, held := f.Held(); held > bytes {
			t.Fatalf("%d bytes are held, of at most %d", held, bytes)
		}
	}
	n, held := f.Held()
	if n < bytes/(6<<10) || n > bytes/(4<<10) || held < bytes/2 {
		t.Errorf("%d events of 4 KiB in %d bytes are held", n, held)
	}
	if _, _, err := slow.poll(make([]*Event, 0, 1)); !errors.Is(err, ErrFellBehind) {
		t.Errorf("a reader of what was given up: %v", err)
	}
	if _, _, err := f.newReader(revision - uint64(n) - 1); !errors.Is(err, ErrTooOld) {
		t.Errorf("got %v", err)
	}
	if r, _, err := f.newReader(revision - uint64(n)); err != nil {
		t.Errorf("what is held cannot be read: %v", err)
	} else {
		r.close()
	}
	publish(revision+1, 2*bytes) // larger than all: it alone is held
	if n, _ := f.Held(); n != 1 {
		t.Errorf("%d events are held", n)
	}
	publish(revision+2, 100)
	if n, held := f.Held(); n != 1 || held > 2<<10 {
		t.Errorf("%d events in %d bytes are held", n, held)
	}
	f.reset(revision + 10)
	if n, held := f.Held(); n != 0 || held != 0 {
		t.Errorf("%d events in %d bytes are held after a gap", n, held)
	}
}

// If changes follow each other closely, a watch never waits.
func TestABusyWatchEndsAsWell(t *testing.T) {
	f := NewChangeFeed(4, 1<<20)
	revision := uint64(0)
	publish := func() {
		revision++
		f.Publish(&ledger.Changes{Revision: revision, Transitions: []ledger.Allocation{{Revision: revision}}})
	}
	publish()
	w := newLoopRig(t, NewMemoryStore(), nil)
	w.Feed = f
	Lead(t, w.Loop)
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	sent := 0
	err := w.Follow(ctx, 0, func(uint64) error { publish(); return nil }, func(batch []*Event) error {
		publish()
		if sent += len(batch); sent == 3 {
			cancel()
		}
		if sent > 10 {
			return errors.New("it goes on")
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || sent > 4 {
		t.Errorf("%v after %d changes", err, sent)
	}
}

// Watched allocations omit their wishes, which are for their host only and may be large.
func TestAnEventKeepsNoWishes(t *testing.T) {
	f := NewChangeFeed(4, 1<<20)
	f.Publish(&ledger.Changes{Revision: 1, Transitions: []ledger.Allocation{{Revision: 1, Wishes: &ledger.Wishes{}}}})
	for i := range f.ring {
		if e := f.ring[i]; e != nil && e.Allocation.Wishes != nil {
			t.Errorf("it keeps %+v", e.Allocation.Wishes)
		}
	}
}

func TestASnapshotForAReplicaLeavesOutWhatHasEnded(t *testing.T) {
	s := NewMemoryStore()
	d := runLoop(t, s, nil)
	defer d.Close()
	d.Host(100)
	for _, id := range []string{"live", "ended"} {
		if _, err := d.allocate(t.Context(), id, 1, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Decide(t.Context(), d.Loop, func(l *ledger.Ledger, now ledger.Instant) (ledger.Allocation, error) {
		return l.Cancel(now, ledger.CancelCommand{Actor: identity.Local(), RequestID: "ended"})
	}); err != nil {
		t.Fatal(err)
	}
	snapshot, err := currentSnapshot(t.Context(), s)
	if err != nil || len(snapshot.Remembered) != 0 || len(snapshot.Allocations) != 1 {
		t.Errorf("%d live, %d remembered, %v: want 1 and none", len(snapshot.Allocations), len(snapshot.Remembered), err)
	}
}
