package commit

import (
	"context"
	"errors"
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
			if turn == 0 && second.Prepared() {
				t.Error("it is prepared before it has read anything")
			}
			time.Sleep(3 * followEvery)
			if !second.Prepared() {
				t.Errorf("turn %d: it is not prepared", turn)
			}
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
			if second.Prepared() {
				t.Errorf("turn %d: it is prepared with what is used up", turn)
			}
			time.Sleep(10 * time.Second) // the first one has noticed, and leads again
		}
	})
}

// lonelyStore cannot be followed.
type lonelyStore struct {
	store.Store

	err    error
	silent bool // it does not answer
	asked  atomic.Int64
}

func (s *lonelyStore) Follow(ctx context.Context, _ store.Mark) (store.Followed, error) {
	s.asked.Add(1)
	if s.silent {
		<-ctx.Done()
		return store.Followed{}, ctx.Err()
	}
	return store.Followed{Meta: store.Meta{Epoch: 1}}, s.err
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
			if got := d.Prepared(); got != errors.Is(err, store.ErrNotFollowed) {
				t.Errorf("%v: prepared %t", err, got)
			}
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

// Nothing is read for what is filed from when a coordinator asks for the lead: it needs the
// processor and the store itself. What is under way ends at once.
func TestWhoBeginsToLeadDoesNotFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &lonelyStore{Store: NewMemoryStore(), err: store.ErrIO}
		d := newLoopRig(t, s, nil)
		for _, begins := range []func(){d.follower.suspend, func() {
			d.leads.Store(true)
			d.follower.resume()
		}} {
			begins()
			if err := d.follower.follow(t.Context()); !errors.Is(err, errNotNow) || s.asked.Load() > 0 {
				t.Errorf("%v, asked %d times; want %v", err, s.asked.Load(), errNotNow)
			}
		}
		d.leads.Store(false)
		if err := d.follower.follow(t.Context()); !errors.Is(err, store.ErrIO) {
			t.Errorf("%v; want the store's error", err)
		}
		s.silent = true
		ended := make(chan error)
		go func() { ended <- d.follower.follow(t.Context()) }()
		synctest.Wait()
		d.follower.suspend()
		if err := <-ended; !errors.Is(err, errNotNow) {
			t.Errorf("%v; want %v", err, errNotNow)
		}
	})
}
