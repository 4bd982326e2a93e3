package commit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
)

// waitingReaders are so many that wait for something new.
func waitingReaders(tb testing.TB, f *ChangeFeed, n int) (readers []*reader) {
	tb.Helper()
	for range n {
		r, _, err := f.newReader(0)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(r.close)
		r.wait()
		readers = append(readers, r)
	}
	return readers
}

// wokenOf returns the number of woken readers, which must be those that have waited longest.
func wokenOf(tb testing.TB, readers []*reader) (n int) {
	tb.Helper()
	for i, r := range readers {
		if len(r.woken) == 0 {
			continue
		}
		if n++; n <= i {
			tb.Fatalf("reader %d is woken before one that has waited for longer", i)
		}
	}
	return n
}

// A publication does no work per reader: it wakes none, and hands them over all at once.
func TestPublishingWakesNobody(t *testing.T) {
	f := NewChangeFeed(4, 1<<20)
	f.reset(1)
	readers := waitingReaders(t, f, 1000)
	f.waking = true // the waker is under way, so it does not begin
	revision := uint64(1)
	publish := func() {
		revision++
		f.Publish(&ledger.Changes{Revision: revision})
	}
	publish()
	if n := wokenOf(t, readers); n != 0 || len(f.due) != len(readers) || len(f.idle) != 0 {
		t.Errorf("%d are woken, %d are due, %d are not", n, len(f.due), len(f.idle))
	}
	due := &f.due[0]
	if allocated := testing.AllocsPerRun(100, publish); allocated > 1 || due != &f.due[0] {
		t.Errorf("publishing with many that are due allocates %g times", allocated)
	}
	f.due = f.due[:0]
}

func TestAFewReadersAreWokenAtOnceAndManyInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 1000
		f := NewChangeFeed(4, 1<<20)
		f.reset(1)
		readers := waitingReaders(t, f, many)
		f.Publish(&ledger.Changes{Revision: 2, Transitions: []ledger.Allocation{{Revision: 2}}})
		time.Sleep(time.Nanosecond)
		if n := wokenOf(t, readers); n != wakesAtOnce {
			t.Errorf("%d are woken at once; want %d", n, wakesAtOnce)
		}
		began := time.Now()
		for wokenOf(t, readers) < many {
			time.Sleep(time.Millisecond)
			passed := time.Since(began)
			if n, most := wokenOf(t, readers), wakesAtOnce+int(passed*wakesASecond/time.Second); n > most {
				t.Fatalf("%d are woken after %s; want %d at most", n, passed, most)
			}
		}
		if passed := time.Since(began); passed > 2*many*time.Second/wakesASecond {
			t.Errorf("all are woken only after %s", passed)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.waking {
			t.Error("the waker goes on")
		}
	})
}

// A reader has its next turn after all the others, and a reader that has gone has none.
func TestReadersOfABusyFeedTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 200
		f := NewChangeFeed(1<<16, 1<<26)
		f.reset(1)
		end := make(chan struct{})
		events, wakes := make([]int, many), make([]int, many)
		for n := range many {
			r, _, err := f.newReader(0)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				defer r.close()
				for {
					batch, _, err := r.poll(make([]*Event, 0, 1<<10))
					if err != nil {
						t.Error(err)
						return
					}
					events[n] += len(batch)
					select {
					case <-r.wait():
						wakes[n]++
					case <-end:
						return
					}
				}
			}()
		}
		left := waitingReaders(t, f, many)
		synctest.Wait()
		for _, r := range left {
			r.close()
		}
		const published = 10_000
		for i := range published {
			f.Publish(&ledger.Changes{Revision: uint64(2 + i), Transitions: []ledger.Allocation{{Revision: uint64(2 + i)}}})
			time.Sleep(100 * time.Microsecond)
		}
		time.Sleep(time.Second)
		close(end)
		synctest.Wait()
		all := 0
		for n := range many {
			if events[n] != published {
				t.Errorf("reader %d has %d of %d events", n, events[n], published)
			}
			if all += wakes[n]; wakes[n] < wakes[0]-2 || wakes[n] > wakes[0]+2 {
				t.Errorf("reader %d had %d turns, the first one %d", n, wakes[n], wakes[0])
			}
		}
		if all > wakesASecond+many+wakesAtOnce || all < wakesASecond/2 {
			t.Errorf("readers were woken %d times in a second; want about %d", all, wakesASecond)
		}
		if len(f.idle)+len(f.due) != 0 {
			t.Errorf("%d readers that have gone still wait", len(f.idle)+len(f.due))
		}
	})
}
