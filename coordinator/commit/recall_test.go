package commit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/coordinator/turns"
)

// recallStore returns pages of remembered request ids when the test lets it.
type recallStore struct {
	store.Store

	pages   chan struct{} // a page is read for each value; closed: at once
	loaded  atomic.Int64  // request ids that Load has returned
	read    atomic.Int64  // and pages
	lookUps atomic.Int64
	sick    atomic.Bool // nothing is looked up or listed
	hangs   atomic.Bool // look-ups are not answered
	// damaged is a row of the last day that may be live; nil: there is none.
	damaged atomic.Pointer[store.RowError]
}

func (s *recallStore) Load(ctx context.Context, epoch uint64, since time.Time, take store.Take) (ledger.Snapshot, error) {
	if row := s.damaged.Load(); row != nil && since.Before(time.Now()) {
		return ledger.Snapshot{}, row
	}
	snapshot, err := s.Store.Load(ctx, epoch, since, take)
	s.loaded.Add(int64(len(snapshot.Remembered)))
	return snapshot, err
}

func (s *recallStore) Remembered(ctx context.Context, before store.Position, since ledger.Instant, limit int) ([]ledger.Remembered, store.Position, error) {
	select {
	case <-s.pages:
	case <-ctx.Done():
		return nil, store.Position{}, ctx.Err()
	}
	if s.sick.Load() {
		return nil, store.Position{}, store.ErrIO
	}
	if row := s.damaged.Load(); row != nil && before != (store.Position{}) {
		return nil, store.Position{}, row
	}
	page, next, err := s.Store.Remembered(ctx, before, since, limit)
	s.read.Add(int64(len(page)))
	return page, next, err
}

func (s *recallStore) RememberedOf(ctx context.Context, caller, requestID string) (ledger.Remembered, error) {
	s.lookUps.Add(1)
	if s.sick.Load() {
		return ledger.Remembered{}, store.ErrIO
	}
	if s.hangs.Load() {
		<-ctx.Done()
		return ledger.Remembered{}, ctx.Err()
	}
	return s.Store.RememberedOf(ctx, caller, requestID)
}

const pastHash = 7

// pastStore is a store with n allocations that ended in the last hours: r1 is the latest.
func pastStore(t *testing.T, n int) *recallStore {
	t.Helper()
	s := NewMemoryStore()
	meta, err := s.Lead(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	now := ledger.At(time.Now())
	c := ledger.Changes{Revision: uint64(n), LastID: ledger.ID(n), Time: now}
	for i := range n {
		a := storetest.Typical(ledger.ID(n-i), ledger.Released, uint64(n-i))
		a.Caller, a.RequestID, a.RequestHash, a.Ended = requestOf("alice", 1).Actor.Name, fmt.Sprintf("r%d", i+1), pastHash, now.Add(-time.Duration(i)*time.Second)
		c.Transitions = append(c.Transitions, a)
	}
	if err := s.Commit(t.Context(), store.Batch{Epoch: meta.Epoch, Changes: c}); err != nil {
		t.Fatal(err)
	}
	return &recallStore{Store: s, pages: make(chan struct{})}
}

// again requests an allocation with a request id that may have been used before.
func (d *loopRig) again(id string, hash uint64) (ledger.AllocateResult, error) {
	command := requestOf("alice", 1)
	command.RequestID, command.RequestHash = id, hash
	return d.Allocate(d.t.Context(), command)
}

// A start reads no request ids of ended allocations. They are loaded page by page. At any time
// during that, a repeat is answered with its allocation, another request with its id is refused,
// and a new one is granted.
func TestARepeatIsAnsweredAtAnyPointOfRecalling(t *testing.T) {
	const n = 2*recallPage + 10
	synctest.Test(t, func(t *testing.T) {
		s := pastStore(t, n)
		d := runLoop(t, s, func(c *setup) { c.Ledger.Interval, c.Ledger.ReservationTTL = time.Hour, 10*time.Hour })
		defer d.Close()
		d.Host(1000)
		if loaded := s.loaded.Load(); loaded != 0 {
			t.Errorf("the start has loaded %d request ids", loaded)
		}
		for released, want := range []int{0, recallPage, 2 * recallPage, n} {
			if released > 0 {
				s.pages <- struct{}{}
			}
			synctest.Wait()
			if got := d.counts().Remembered; got != want {
				t.Errorf("after %d pages %d are remembered; want %d", released, got, want)
			}
			before := s.lookUps.Load()
			for _, i := range []int{1, 2, recallPage, recallPage + 1, 2*recallPage + 1, n} {
				id := fmt.Sprintf("r%d", i)
				if r, err := d.again(id, pastHash); err != nil || !r.Ended || r.Allocation.ID != ledger.ID(n-i+1) {
					t.Errorf("after %d pages %s again: %s, ended %t, %v", released, id, r.Allocation.ID, r.Ended, err)
				}
				if r, err := d.again(id, pastHash+1); !isConflict(err) {
					t.Errorf("after %d pages another request under %s: %s, %v; want a conflict", released, id, r.Allocation.ID, err)
				}
				if got, err := d.IDOf(t.Context(), requestOf("alice", 1).Actor.Name, id); err != nil || got != ledger.ID(n-i+1) {
					t.Errorf("after %d pages the id of %s: %s, %v", released, id, got, err)
				}
			}
			fresh, err := d.again(fmt.Sprintf("new%d", released), pastHash)
			if err != nil || fresh.Allocation.State != ledger.Reserved {
				t.Errorf("after %d pages a new one: %s, %v", released, fresh.Allocation.State, err)
			}
			same, err := d.again(fmt.Sprintf("new%d", released), pastHash)
			if err != nil || same.Allocation.ID != fresh.Allocation.ID {
				t.Errorf("after %d pages the new one again: %s, %v", released, same.Allocation.ID, err)
			}
			if last := want == n; last != (s.lookUps.Load() == before) {
				t.Errorf("after %d pages %d were looked up", released, s.lookUps.Load()-before)
			}
		}
		if got := d.counts(); got.Reserved != 4 {
			t.Errorf("%d reserved; want the four new ones", got.Reserved)
		}
	})
}

func isConflict(err error) bool {
	_, conflict := errors.AsType[*ledger.ConflictError](err)
	return conflict
}

// Leaderships end during the recall; the next one starts it again.
func TestRecallingBeginsAgainWithEachLeadership(t *testing.T) {
	const n = recallPage + 10
	synctest.Test(t, func(t *testing.T) {
		s := pastStore(t, n)
		d := runLoop(t, s, func(c *setup) { c.Ledger.Interval = time.Hour })
		defer d.Close()
		d.Host(1000)
		for round := range 3 {
			s.pages <- struct{}{}
			synctest.Wait()
			if got := d.counts().Remembered; got != recallPage {
				t.Errorf("round %d: %d are remembered after a page", round, got)
			}
			d.abandonNow()
			for _, i := range []int{1, n} {
				if r, err := d.again(fmt.Sprintf("r%d", i), pastHash); err != nil || !r.Ended || r.Allocation.ID != ledger.ID(n-i+1) {
					t.Errorf("round %d: r%d again: %s, ended %t, %v", round, i, r.Allocation.ID, r.Ended, err)
				}
			}
		}
		close(s.pages)
		synctest.Wait()
		if got := d.counts().Remembered; got != n || d.recalling.Load() != 0 {
			t.Errorf("in the end %d are remembered", got)
		}
	})
}

// abandonNow makes the loop lead again in another epoch, as after an agent's report of a later one.
func (d *loopRig) abandonNow() {
	d.t.Helper()
	before := d.lastEpoch.Load()
	_ = d.ownCall(d.t.Context(), func(*core.Core, ledger.Instant) { panic("the test ends this leadership") }, false)
	for d.lastEpoch.Load() == before || !d.leads.Load() {
		time.Sleep(time.Second)
	}
}

// While the store does not answer, a request whose id may have been used is refused, and a request
// without an id is granted. Later both are handled as usual.
func TestARequestThatCannotBeLookedUpIsNotGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pastStore(t, 10)
		close(s.pages)
		s.sick.Store(true)
		var log strings.Builder
		d := runLoop(t, s, func(c *setup) {
			c.Ledger.Interval = time.Hour
			c.Log = slog.New(slog.NewTextHandler(&log, nil))
		})
		defer d.Close()
		d.Host(1000)
		for _, id := range []string{"r1", "new"} {
			_, err := d.again(id, pastHash)
			if failed, ok := errors.AsType[*LookUpError](err); !ok || failed.RequestID != id || !errors.Is(err, store.ErrIO) {
				t.Errorf("%s: %v; want that it could not be looked up", id, err)
			}
		}
		if r, err := d.again("", 0); err != nil || r.Allocation.State != ledger.Reserved {
			t.Errorf("without an id: %s, %v", r.Allocation.State, err)
		}
		synctest.Wait()
		if !strings.Contains(log.String(), "hosts that report engines which are not known get no grants") {
			t.Errorf("the log does not say who is not granted anything: %s", &log)
		}
		s.sick.Store(false)
		time.Sleep(10 * time.Second)
		if r, err := d.again("r1", pastHash); err != nil || !r.Ended || d.counts().Remembered != 10 || d.recalling.Load() != 0 {
			t.Errorf("later: ended %t, %v, %d are remembered", r.Ended, err, d.counts().Remembered)
		}
	})
}

// An unreadable row that may be live keeps every coordinator from leading, like at a start that
// reads all rows: its resources would be granted to others. After its removal, coordinators lead
// again.
func TestARowThatCannotBeRecalledEndsTheLeadership(t *testing.T) {
	const n = recallPage + 10
	synctest.Test(t, func(t *testing.T) {
		s := pastStore(t, n)
		row := &store.RowError{Table: store.AllocationTable, Key: "7", Err: errors.New("request_hash holds NULL")}
		s.damaged.Store(row)
		var log strings.Builder
		d := runLoop(t, s, func(c *setup) {
			c.Ledger.Interval = time.Hour
			c.Log = slog.New(slog.NewTextHandler(&log, nil))
		})
		defer d.Close()
		d.Host(1000)
		waits := make(chan error, 1)
		go func() {
			_, err := d.allocate(t.Context(), "", 2000, time.Hour)
			waits <- err
		}()
		synctest.Wait()
		close(s.pages)
		synctest.Wait()
		if err := <-waits; !errors.Is(err, core.ErrNotLeading) {
			t.Errorf("who waited: %v; want that it does not lead", err)
		}
		for range 3 { // whatever is tried in the meantime
			time.Sleep(time.Minute)
			if d.leads.Load() {
				t.Error("it leads")
			}
			if _, err := d.again("", 0); !errors.Is(err, core.ErrNotLeading) {
				t.Errorf("a request: %v; want that it does not lead", err)
			}
		}
		synctest.Wait() // until nobody logs
		for _, want := range []string{
			"this leadership is over", "does not lead", "request_hash holds NULL", "no coordinator leads while this row is there", "bursar store set-aside allocation",
		} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %q: %s", want, &log)
			}
		}
		s.damaged.Store(nil)
		time.Sleep(10 * time.Second)
		if r, err := d.again("r1", pastHash); err != nil || !r.Ended || d.counts().Remembered != n {
			t.Errorf("later: ended %t, %v, %d are remembered", r.Ended, err, d.counts().Remembered)
		}
	})
}

// A store that hangs does not hold a request: its caller tries again, maybe at another coordinator.
func TestALookUpHasATimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pastStore(t, 10)
		d := runLoop(t, s, func(c *setup) { c.Ledger.Interval = time.Hour })
		defer d.Close()
		d.Host(1000)
		s.hangs.Store(true)
		began := time.Now()
		command := requestOf("alice", 1)
		command.RequestID, command.Wait = "r1", time.Hour
		_, err := d.Allocate(t.Context(), command)
		if failed, ok := errors.AsType[*LookUpError](err); !ok || failed.RequestID != "r1" || time.Since(began) > 5*time.Second {
			t.Errorf("after %s: %v; want that it could not be looked up", time.Since(began), err)
		}
		if _, err := d.IDOf(t.Context(), command.Actor.Name, "r1"); err == nil || time.Since(began) > 10*time.Second {
			t.Errorf("the id of r1 after %s: %v", time.Since(began), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := d.Allocate(ctx, command); !errors.Is(err, context.DeadlineExceeded) || isLookUp(err) {
			t.Errorf("with a deadline of its own: %v", err)
		}
	})
}

func isLookUp(err error) bool {
	_, failed := errors.AsType[*LookUpError](err)
	return failed
}

// The loop takes the ids in steps, between which others have their turn.
func TestNoStepOfRecallingIsLong(t *testing.T) {
	d := newLoopRig(t, NewMemoryStore(), nil)
	now := d.Clock.Now()
	if err := d.core.Lead(now, store.Meta{Epoch: 1}, ledger.Snapshot{Time: now, Recalling: true}); err != nil {
		t.Fatal(err)
	}
	page := make([]ledger.Remembered, recallPage+1)
	for i := range page {
		page[i] = ledger.Remembered{Caller: "alice", RequestID: fmt.Sprint(i), ID: ledger.ID(i + 1), Ended: now.Add(-time.Duration(i))}
	}
	done := make(chan bool, 1)
	go func() {
		done <- (&recaller{Loop: d.Loop, leadership: d.core.Leadership()}).bring(t.Context(), page, true)
	}()
	steps := 0
	for before := 0; d.core.Ledger().Recalling(); {
		<-d.queue.signal
		for command := d.queue.take(); command != nil; command = d.queue.take() {
			if err := d.core.Do(now, command); err != nil {
				t.Fatal(err)
			}
			d.queue.charge(turns.Cost{}, turns.Cost{})
			after := d.core.Ledger().Counts().Remembered
			if after-before > recallStep {
				t.Errorf("a step has brought %d; want at most %d", after-before, recallStep)
			}
			before = after
			steps++
		}
	}
	if want := recallPage/recallStep + 1; !<-done || steps != want || d.core.Ledger().Counts().Remembered != len(page) {
		t.Errorf("%d steps brought %d; want %d", steps, d.core.Ledger().Counts().Remembered, want)
	}
}

// If the store's time or last id is missing or wrong, it comes from the rows: then all rows are
// loaded first.
func TestAStoreWithoutATimeIsLoadedInFull(t *testing.T) {
	for name, last := range map[string]ledger.Instant{
		"without a time":                    0,
		"with one from before the last end": 1,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := pastStore(t, 10)
				meta, err := s.Lead(t.Context(), 0)
				if err != nil {
					t.Fatal(err)
				}
				changes := ledger.Changes{Revision: 11, LastID: 10, Time: last, Hosts: []ledger.HostRecord{{ID: "h9"}}}
				if err := s.Commit(t.Context(), store.Batch{Epoch: meta.Epoch, Changes: changes}); err != nil {
					t.Fatal(err)
				}
				d := runLoop(t, s, func(c *setup) { c.Ledger.Interval = time.Hour })
				defer d.Close()
				if got := d.counts().Remembered; got != 10 || s.loaded.Load() != 10 || d.recalling.Load() != 0 {
					t.Errorf("%d are remembered, %d were loaded", got, s.loaded.Load())
				}
			})
		})
	}
}
