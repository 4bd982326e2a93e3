package commit

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
)

// A coordinator that stands by follows the one that leads. When it begins to lead it loads nothing
// but what has changed since it last looked; and when it has lost the lead it follows again.
func TestWhoStandsByHasTheLedgerFiled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		place := storetest.NewMemory("shared")
		first := runLoop(t, place.Open(), nil)
		defer first.Close()
		first.Host(1000)
		grant := func(d *loopRig, id string) {
			t.Helper()
			if _, err := d.allocate(t.Context(), id, 10, 0); err != nil {
				t.Fatal(err)
			}
		}
		grant(first, "a")
		s := &countedStore{Store: place.Open()}
		second := newLoopRig(t, s, nil)
		go second.Run()
		defer second.Close()
		for turn := range 2 {
			time.Sleep(3 * followEvery)
			grant(first, "b")
			select {
			case <-second.Lead().Began:
			case <-time.After(time.Minute):
				t.Fatal("it does not lead")
			}
			if c := second.counts(); s.loads.Load() != 0 || c.Reserved != 2 || c.HostsReturning != 1 {
				t.Errorf("turn %d: %d loads, %+v; want two reservations and no load", turn, s.loads.Load(), c)
			}
			second.StepDown()
			time.Sleep(10 * time.Second) // the first one has noticed, and leads again
		}
	})
}

// lonelyStore cannot be followed.
type lonelyStore struct {
	store.Store

	err   error
	asked atomic.Int64
}

func (s *lonelyStore) Follow(context.Context, store.Mark) (store.Followed, error) {
	s.asked.Add(1)
	return store.Followed{}, s.err
}

// A store that cannot be followed now is asked again after a while. One that nobody can follow is
// left alone. Both are loaded.
func TestAStoreThatCannotBeFollowedIsLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for err, want := range map[error]int64{nil: 2, store.ErrIO: 2, store.ErrNotFollowed: 1} {
			s := &lonelyStore{Store: NewMemoryStore(), err: err}
			d := newLoopRig(t, s, nil)
			go d.Run()
			time.Sleep(followAgain + 2*followEvery)
			if n := s.asked.Load(); n != want {
				t.Errorf("%v: asked %d times; want %d", err, n, want)
			}
			<-d.Lead().Began
			if !d.leads.Load() {
				t.Errorf("%v: it does not lead", err)
			}
			d.Close()
		}
	})
}
