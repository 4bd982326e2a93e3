package commit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
)

// historyRig is a history over a store in memory, with rows made by the test.
type historyRig struct {
	t     *testing.T
	store store.Store
	epoch uint64
	last  ledger.ID
	// adopted: the allocations come from an agent's report.
	adopted bool
	// owner is charged for the rows; empty: their caller.
	owner string
	clock *wallClock
	*history
}

func newHistoryRig(t *testing.T, bounds HistoryBounds) *historyRig {
	t.Helper()
	s := storetest.NewMemory("m").Open()
	meta, err := s.Lead(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	clock := &wallClock{start: time.Now()}
	made := defaults(s, clock)
	made.Origin = nil
	if bounds.CallerBytes > 0 {
		made.History.CallerBytes = bounds.CallerBytes
	}
	if bounds.PruneStep > 0 {
		made.History.PruneStep = bounds.PruneStep
	}
	w := made.loop()
	w.lastEpoch.Store(meta.Epoch)
	w.leads.Store(true)
	return &historyRig{t: t, store: s, epoch: meta.Epoch, clock: clock, history: w.history}
}

// commitEnded commits allocations of a caller that ended this long ago.
func (k *historyRig) commitEnded(caller string, n int, ago time.Duration) {
	k.t.Helper()
	var c ledger.Changes
	for range n {
		k.last++
		a := storetest.Typical(k.last, ledger.Released, uint64(k.last))
		a.Caller, a.HostID, a.Ended = caller, "h1", k.loop.Clock.Now().Add(-ago)
		if k.adopted {
			a.ReservationTTL = 0
		}
		if k.owner != "" {
			a.Subordinate = true
			a.Labels = a.Labels.With("user", k.owner)
		}
		c.Transitions = append(c.Transitions, a)
	}
	c.Revision, c.LastID = uint64(k.last), k.last
	if err := k.store.Commit(k.t.Context(), store.Batch{Epoch: k.epoch, Changes: c}); err != nil {
		k.t.Fatal(err)
	}
}

// remaining returns the number of each caller's rows, and the age of the oldest.
func (k *historyRig) remaining() map[string]string {
	k.t.Helper()
	ends, err := k.store.Ends(k.t.Context(), store.Position{}, 1<<20)
	if err != nil {
		k.t.Fatal(err)
	}
	rows, oldest := make(map[string]int), make(map[string]ledger.Instant)
	for i := range ends {
		name := ends[i].Caller
		if rows[name]++; rows[name] == 1 {
			oldest[name] = ends[i].Ended
		}
	}
	text := make(map[string]string)
	for name, n := range rows {
		text[name] = fmt.Sprintf("%d from %s", n, k.loop.Clock.Now().Sub(oldest[name]).Round(time.Minute))
	}
	return text
}

func (k *historyRig) wantRemaining(when string, wantRemaining map[string]string) {
	k.t.Helper()
	if err := k.round(k.t.Context()); err != nil {
		k.t.Fatal(err)
	}
	got := k.remaining()
	for name := range got {
		if wantRemaining[name] == "" {
			k.t.Errorf("%s: %s has %s", when, name, got[name])
		}
	}
	for name, text := range wantRemaining {
		if got[name] != text {
			k.t.Errorf("%s: %s has %s: want %s", when, name, got[name], text)
		}
	}
	rows, bytes := int64(0), int64(0)
	ends, _ := k.store.Ends(k.t.Context(), store.Position{}, 1<<20)
	for i := range ends {
		rows, bytes = rows+1, bytes+ends[i].Bytes
	}
	if size := k.size.Load(); size == nil || k.total != (HistorySize{rows, bytes}) {
		k.t.Errorf("%s: counted %+v: want %d rows of %d bytes", when, k.total, rows, bytes)
	}
}

const day = 24 * time.Hour

// oneRow returns the size of a row of ended.
func oneRow(t *testing.T) int64 {
	t.Helper()
	k := newHistoryRig(t, HistoryBounds{})
	k.commitEnded("mallory@h1", 1, day)
	ends, err := k.store.Ends(t.Context(), store.Position{}, 1)
	if err != nil || len(ends) != 1 {
		t.Fatal(ends, err)
	}
	return ends[0].Bytes
}

// A caller that floods the history displaces only its own entries, the oldest first.
func TestOneCallersFloodPushesOutItsOwnHistoryAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newHistoryRig(t, HistoryBounds{PruneStep: 7, CallerBytes: 20*oneRow(t) + 100})
		k.commitEnded("alice@h1", 15, 20*day)
		k.commitEnded("mallory@h1", 10, 10*day)
		k.commitEnded("bob@h1", 15, 9*day)
		k.commitEnded("mallory@h1", 10, 5*day)
		k.wantRemaining("within the bounds", map[string]string{"alice@h1": "15 from 480h0m0s", "bob@h1": "15 from 216h0m0s", "mallory@h1": "20 from 240h0m0s"})
		k.commitEnded("mallory@h1", 12, 3*day)
		k.began = 0 // as a new leadership counts: what this test makes has ended in no order
		k.wantRemaining("a flood", map[string]string{"alice@h1": "15 from 480h0m0s", "bob@h1": "15 from 216h0m0s", "mallory@h1": "20 from 120h0m0s"})
		k.commitEnded("mallory@h1", 9, 2*day)
		k.wantRemaining("more", map[string]string{"alice@h1": "15 from 480h0m0s", "bob@h1": "15 from 216h0m0s", "mallory@h1": "20 from 72h0m0s"})
		if err := k.admit("mallory@h1"); err != nil {
			t.Errorf("refused within the bound: %v", err)
		}
	})
}

// Subordinate user ids have no histories of their own: all of them displace their owner's entries,
// and the owner is refused if its history is full.
func TestSubordinateIDsHaveTheirOwnersHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newHistoryRig(t, HistoryBounds{PruneStep: 7, CallerBytes: 20*oneRow(t) + 500})
		k.commitEnded("alice@h1", 15, 20*day)
		k.commitEnded("mallory@h1", 10, 10*day)
		k.owner = "mallory"
		for id := range 30 {
			k.commitEnded(fmt.Sprintf("%d@h1", 100000+id), 1, 5*day)
		}
		k.wantRemaining("a flood", map[string]string{"alice@h1": "15 from 480h0m0s", "mallory@h1": "20 from 120h0m0s"})
		for id := range 30 {
			k.commitEnded(fmt.Sprintf("%d@h1", 200000+id), 1, time.Hour)
		}
		k.wantRemaining("within a day", map[string]string{"alice@h1": "15 from 480h0m0s", "mallory@h1": "30 from 1h0m0s"})
		if err := k.admit("mallory@h1"); err == nil {
			t.Error("mallory is not refused, although her ids have filled her history")
		}
		if err := k.admit("alice@h1"); err != nil {
			t.Errorf("alice is refused: %v", err)
		}
	})
}

// The clock of an earlier leader, or of this one at its start, may have been ahead by more than the
// retention of the history. Rows that are younger by either clock are not deleted.
func TestAClockThatWasAheadDeletesNoHistory(t *testing.T) {
	ahead := 40 * day
	for name, set := range map[string]func(k *historyRig, clock *wallClock){
		"an earlier leader's": func(k *historyRig, _ *wallClock) {
			k.loop.skew.Store(&core.Skew{Since: k.loop.Clock.Now(), Ahead: ahead})
		},
		"this one's at the start": func(k *historyRig, clock *wallClock) {
			clock.shift = ahead
			k.loop.Clock = core.NewSteady(clock)
			clock.shift = 0
		},
		"this one's, set since": func(_ *historyRig, clock *wallClock) { clock.shift = ahead },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newHistoryRig(t, HistoryBounds{})
				k.commitEnded("alice@h1", 3, 31*day)
				k.commitEnded("alice@h1", 4, 20*day)
				set(k, k.clock)
				if err := k.round(t.Context()); err != nil {
					t.Fatal(err)
				}
				if ends, err := k.store.Ends(t.Context(), store.Position{}, 10); err != nil || len(ends) != 4 {
					t.Errorf("%d rows are left of 7, %v; want the 4 that ended 20 days ago", len(ends), err)
				}
			})
		})
	}
}

// Answers to repeated requests are kept at any size; a caller with too many of them is refused
// until they have aged.
func TestACallerWhoseLastDayIsTooLargeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newHistoryRig(t, HistoryBounds{CallerBytes: 20*oneRow(t) + 100})
		k.commitEnded("mallory@h1", 5, 2*day)
		k.commitEnded("mallory@h1", 30, time.Hour)
		k.commitEnded("alice@h1", 10, time.Hour)
		k.wantRemaining("a flood of today", map[string]string{"mallory@h1": "30 from 1h0m0s", "alice@h1": "10 from 1h0m0s"})
		err := k.admit("mallory@h1")
		if full, ok := errors.AsType[*HistoryFullError](err); !ok || full.Caller != "mallory@h1" || full.Bytes <= full.Most {
			t.Errorf("got %v", err)
		}
		if err := k.admit("alice@h1"); err != nil {
			t.Errorf("another caller: %v", err)
		}
		if len(k.warnings()) != 1 {
			t.Errorf("warnings %q", k.warnings())
		}
		time.Sleep(day)
		k.wantRemaining("a day later", map[string]string{"mallory@h1": "20 from 25h0m0s", "alice@h1": "10 from 25h0m0s"})
		if err := k.admit("mallory@h1"); err != nil || len(k.warnings()) != 0 {
			t.Errorf("still refused: %v, %q", err, k.warnings())
		}
		k.commitEnded("mallory@h1", 30, time.Hour)
		k.wantRemaining("and again", map[string]string{"mallory@h1": "30 from 1h0m0s", "alice@h1": "10 from 25h0m0s"})
		k.loop.leads.Store(false)
		if err := k.round(t.Context()); err != nil || k.admit("mallory@h1") != nil || k.size.Load() != nil {
			t.Errorf("who does not lead refuses, or says a size: %v", err)
		}
	})
}

// Rows from hosts' reports that the ledger never knew are charged to these hosts. They answer no
// repeated request, so even those of the last day are deleted, and the disk is bounded.
func TestWhatAnAgentMakesUpFillsNobodysHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newHistoryRig(t, HistoryBounds{CallerBytes: 20*oneRow(t) + 100})
		k.adopted = true
		k.commitEnded("alice@h1", 200, time.Hour)
		k.commitEnded("gateway", 200, time.Minute)
		k.adopted = false
		k.commitEnded("alice@h1", 15, time.Hour)
		k.began = 0
		k.wantRemaining("a flood of today", map[string]string{"@h1": "20 from 1m0s", "alice@h1": "15 from 1h0m0s"})
		for _, caller := range []string{"alice@h1", "gateway"} {
			if err := k.admit(caller); err != nil {
				t.Errorf("%s is refused for what an agent has made up: %v", caller, err)
			}
			request := storetest.Typical(1, ledger.Released, 1).RequestID
			if _, err := k.store.GetByRequest(t.Context(), caller, request); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("the request of %s is answered: %v", caller, err)
			}
		}
		if w := k.warnings(); len(w) > 0 {
			t.Errorf("warnings %q", w)
		}
	})
}

// Changes of rows that the count misses are corrected after a day.
func TestTheHistoryIsCountedAgainEveryDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newHistoryRig(t, HistoryBounds{})
		k.commitEnded("alice@h1", 10, time.Hour)
		k.wantRemaining("ten", map[string]string{"alice@h1": "10 from 1h0m0s"})
		ends, err := k.store.Ends(t.Context(), store.Position{}, 4)
		if err != nil {
			t.Fatal(err)
		}
		for i := range ends { // as when they are adopted again
			if n, err := k.store.Delete(t.Context(), []store.Position{ends[i].Position}); err != nil || n != 1 {
				t.Fatal(n, err)
			}
		}
		time.Sleep(day)
		k.wantRemaining("a day later", map[string]string{"alice@h1": "6 from 25h0m0s"})
	})
}

// A history with too many callers to count is still bounded: the callers with large parts are
// found, and none is charged too much.
func TestCallersWithoutNumberAreCountedInBoundedMemory(t *testing.T) {
	var s callerSizes
	total, at := int64(0), store.Position{}
	put := func(caller string, bytes int64) {
		at.Ended++
		s.add(caller, bytes, at)
		total += bytes
		if len(s.sizes) > mostCallerSizes {
			t.Fatalf("%d callers are counted: want at most %d", len(s.sizes), mostCallerSizes)
		}
	}
	put("late", 1)
	for i := range 10 * mostCallerSizes {
		put(fmt.Sprint("name-", i), 600)
		if i%3 == 0 {
			put("mallory", 600)
		}
		if i%50 == 0 {
			put("alice", 600)
		}
	}
	off := 2 * total / mostCallerSizes
	for caller, want := range map[string]int64{"mallory": (10*mostCallerSizes + 2) / 3 * 600, "alice": (10*mostCallerSizes + 49) / 50 * 600} {
		c := s.sizes[caller]
		if c == nil || c.bytes > want || c.bytes < want-off {
			t.Errorf("%s: %+v: want %d, or less by at most %d", caller, c, want, off)
		}
	}
	for name, c := range s.sizes {
		if name != "mallory" && name != "alice" && c.bytes > 600 {
			t.Fatalf("%s has %d bytes: want at most 600", name, c.bytes)
		}
	}
	put("late", 1) // its first row is not counted any more, and may be the oldest that is deleted
	if c := s.sizes["late"]; c == nil || c.oldest != (store.Position{}) {
		t.Errorf("late: %+v", c)
	}
}

func TestTheHistoryIsPrunedByAgeInSmallSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newHistoryRig(t, HistoryBounds{PruneStep: 10, PruneEvery: time.Minute})
		k.commitEnded("alice@h1", 23, 31*day)
		k.commitEnded("alice@h1", 4, 29*day)
		k.loop.leads.Store(false)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			k.run(ctx)
		}()
		time.Sleep(2*time.Minute + time.Second)
		synctest.Wait()
		if got := k.remaining()["alice@h1"]; got != "27 from 744h2m0s" {
			t.Errorf("a coordinator that does not lead has pruned: %s", got)
		}
		k.loop.leads.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := k.remaining()["alice@h1"]; got != "4 from 696h3m0s" {
			t.Errorf("left: %s", got)
		}
		cancel()
		<-ended
		if n := metricValue(t, k.loop.Metrics.pruned); n != 23 {
			t.Errorf("%v were deleted: want 23", n)
		}
	})
}
