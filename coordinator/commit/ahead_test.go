package commit

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/coordinator/core"
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
			if !second.Prepared() || metricValue(t, second.Metrics.copied) != 1 {
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
			if second.Prepared() || metricValue(t, second.Metrics.copied) != 0 {
				t.Errorf("turn %d: it is prepared with what is used up", turn)
			}
			time.Sleep(10 * time.Second) // the first one has noticed, and leads again
		}
	})
}

// doubtedStore lets the proof of a copy wait, and can make it fail.
type doubtedStore struct {
	countedStore

	asked  chan struct{}
	more   int // hosts that it says it has besides
	proofs atomic.Int64
}

func (s *doubtedStore) Totals(ctx context.Context) (store.Totals, error) {
	s.proofs.Add(1)
	<-s.asked
	totals, err := s.Store.Totals(ctx)
	totals.Hosts += s.more
	return totals, err
}

// A coordinator that begins with its copy gives no answer until it is proven that the store has the
// same. If it does not, the leadership is over, also if nobody asks for anything, and the next one
// begins with what is read.
func TestNobodyGetsAnAnswerOfACopyThatIsNotProven(t *testing.T) {
	for name, test := range map[string]struct{ wrong, ask bool }{
		"it is right": {ask: true}, "it is wrong": {wrong: true, ask: true}, "it is wrong, and nobody asks": {wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				place := storetest.NewMemory("shared")
				first := runLoop(t, place.Open(), nil)
				defer first.Close()
				first.Host(1000)
				if _, err := first.allocate(t.Context(), "a", 10, 0); err != nil {
					t.Fatal(err)
				}
				s := &doubtedStore{countedStore: countedStore{Store: place.Open()}, asked: make(chan struct{})}
				if test.wrong {
					s.more = 1
				}
				second := newLoopRig(t, s, nil)
				go second.follower.run(t.Context())
				time.Sleep(3 * followEvery)
				Lead(t, second.Loop)
				defer second.Close()
				answered := make(chan error, 1)
				if test.ask {
					go func() {
						_, err := second.allocate(t.Context(), "a", 10, 0) // a repeat
						answered <- err
					}()
				}
				time.Sleep(100 * time.Millisecond)
				if s.readings() != (readings{proofs: 1}) || len(answered) > 0 || !second.leads.Load() {
					t.Errorf("%+v, %d answers, leads: %t", s.readings(), len(answered), second.leads.Load())
				}
				close(s.asked)
				synctest.Wait()
				if test.ask {
					if err := <-answered; test.wrong != errors.Is(err, core.ErrNotLeading) || !test.wrong && err != nil {
						t.Errorf("the answer: %v", err)
					}
				}
				want := readings{proofs: 1}
				if test.wrong {
					want.loads = 1
				}
				time.Sleep(time.Second)
				if s.readings() != want || !second.leads.Load() {
					t.Errorf("%+v, leads: %t; want %+v", s.readings(), second.leads.Load(), want)
				}
			})
		})
	}
}

// readings is how often a store was read whole, and for a proof.
type readings struct{ loads, proofs int64 }

func (s *doubtedStore) readings() readings { return readings{s.loads.Load(), s.proofs.Load()} }

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
