package commit

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/election"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/resource"
)

// A standby coordinator follows the leader. When it begins to lead it loads only the changes since
// its last read; after it has lost the lead it follows again.
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

// doubtedStore delays the proof of a copy, and can make it fail.
type doubtedStore struct {
	countedStore

	asked  chan struct{}
	more   int // hosts that it says it has besides
	err    error
	damage bool // what is read for the copy has a request that no ledger takes
	proofs atomic.Int64
}

func (s *doubtedStore) CatchUp(ctx context.Context, since store.Mark) (store.Followed, error) {
	f, err := s.Store.CatchUp(ctx, since)
	if s.damage {
		most := resource.NewResource(resource.Vector{}.WithMemory(math.MaxInt64))
		f.Rows.Allocations = append(f.Rows.Allocations, ledger.Allocation{ID: 99, Caller: "x", State: ledger.Waiting, Requested: most})
	}
	return f, err
}

func (s *doubtedStore) Totals(ctx context.Context) (store.Totals, error) {
	s.proofs.Add(1)
	select {
	case <-s.asked:
	case <-ctx.Done():
		return store.Totals{}, ctx.Err()
	}
	totals, err := s.Store.Totals(ctx)
	totals.Hosts += s.more
	return totals, errors.Join(err, s.err)
}

// A coordinator with a copy does not lead before it has proved that the store is equal. If the
// store differs, the coordinator leads with the store's state, without another change of leader.
func TestACopyIsNotLedWithBeforeItIsProven(t *testing.T) {
	for name, test := range map[string]struct {
		more  int
		err   error
		loads int64
	}{
		"it is right":           {},
		"it is wrong":           {more: 1, loads: 1},
		"it cannot be compared": {err: store.ErrDamaged, loads: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				second, s := doubted(t)
				s.more, s.err = test.more, test.err
				first := make(chan error, 1)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				campaign := campaignAlone(second.Loop)
				alone := &countedElection{Election: campaign.Election}
				campaign.Election = alone
				go second.Run()
				defer second.Close()
				go func() { _ = campaign.Run(ctx, first) }()
				time.Sleep(20 * time.Second) // longer than a commit may take
				if _, err := second.allocate(t.Context(), "a", 10, 0); !errors.Is(err, core.ErrNotLeading) || s.readings() != (readings{proofs: 1}) {
					t.Errorf("before the proof: %v, %+v", err, s.readings())
				}
				close(s.asked)
				time.Sleep(time.Second)
				want := readings{proofs: 1, loads: test.loads}
				if a, err := second.allocate(t.Context(), "a", 10, 0); err != nil || a.HostID != "h" || s.readings() != want {
					t.Errorf("after the proof: %+v, %v, %+v; want %+v", a, err, s.readings(), want)
				}
				if err := <-first; err != nil || alone.campaigns.Load() != 1 {
					t.Errorf("the first attempt to lead: %v, after %d campaigns; want one", err, alone.campaigns.Load())
				}
			})
		})
	}
}

// countedElection counts campaigns.
type countedElection struct {
	election.Election

	campaigns atomic.Int64
}

func (e *countedElection) Campaign(ctx context.Context) (election.Term, error) {
	e.campaigns.Add(1)
	return e.Election.Campaign(ctx)
}

// doubted returns a coordinator with a copy of another coordinator's state, and its store. Its loop
// does not run yet.
func doubted(t *testing.T) (*loopRig, *doubtedStore) {
	t.Helper()
	place := storetest.NewMemory("shared")
	before := runLoop(t, place.Open(), nil)
	before.Host(1000)
	if _, err := before.allocate(t.Context(), "a", 10, 0); err != nil {
		t.Fatal(err)
	}
	before.Close()
	s := &doubtedStore{countedStore: countedStore{Store: place.Open()}, asked: make(chan struct{})}
	d := newLoopRig(t, s, nil)
	if err := d.follower.follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d, s
}

// A stop, or the end of a term, does not wait for a proof.
func TestAStopDoesNotWaitForAProof(t *testing.T) {
	for name, before := range map[string]func(d *loopRig){
		"a stop":              func(*loopRig) {},
		"a term that is over": func(d *loopRig) { d.StepDown() },
		"another term": func(d *loopRig) {
			d.StepDown()
			<-d.Lead().Began
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, s := doubted(t)
				go d.Run()
				d.Lead()
				time.Sleep(time.Second)
				began := time.Now()
				before(d)
				synctest.Wait()
				if n := s.proofs.Load(); n != 1 {
					t.Errorf("asked for %d proofs", n)
				}
				d.Close()
				if took := time.Since(began); took > 0 {
					t.Errorf("that took %s", took)
				}
			})
		})
	}
}

// The log message of a leadership counts each allocation once, including waiting ones.
func TestTheLogSaysHowManyAllocationsThereAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		place := storetest.NewMemory("shared")
		before := runLoop(t, place.Open(), nil)
		before.Host(1000)
		waits := requestOf("alice", 1<<30)
		waits.Wait, waits.Async = time.Hour, true
		for _, command := range []*ledger.AllocateCommand{requestOf("alice", 10), waits} {
			if _, err := before.Allocate(t.Context(), command); err != nil {
				t.Fatal(err)
			}
		}
		before.Close()
		var said strings.Builder
		d := newLoopRig(t, place.Open(), func(s *setup) { s.Log = slog.New(slog.NewTextHandler(&said, nil)) })
		if err := d.follower.follow(t.Context()); err != nil {
			t.Fatal(err)
		}
		Lead(t, d.Loop)
		d.Close()
		if !strings.Contains(said.String(), "allocations=2 ") || !strings.Contains(said.String(), "from_copy=true") {
			t.Errorf("it says %q; want two allocations, from the copy", said.String())
		}
	})
}

// A failed restore may be the copy's fault: the store's rows are not blamed, and all of them are
// read.
func TestACopyThatCannotBeRestoredIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, s := doubted(t)
		close(s.asked)
		s.damage = true
		go d.Run()
		defer d.Close()
		term := d.Lead()
		if err := <-term.over; !errors.Is(err, core.ErrUnproven) {
			t.Errorf("%v; want %v", err, core.ErrUnproven)
		}
		s.damage = false
		<-d.Lead().Began
		if c := d.counts(); c.Reserved != 1 || s.readings() != (readings{proofs: 1, loads: 1}) {
			t.Errorf("%+v, %+v; want one reservation, after a load", c, s.readings())
		}
	})
}

// readings counts the complete reads of a store, and the reads for a proof.
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

// A store that cannot be followed at the moment is tried again later. A store that cannot be
// followed at all is left alone. Both are loaded.
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

// A coordinator that campaigns reads nothing for its copy: it needs the processor and the store
// itself. A read in progress ends at once.
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
