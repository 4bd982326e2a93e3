package core

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// standby is a coordinator that follows the commits of another one.
type standby struct {
	*rig
	ahead *Ahead
}

// standsBy makes one that stands by for a leader.
func (r *rig) standsBy(s store.Store) *standby {
	b := &standby{rig: &rig{t: r.t, store: s, now: r.now, core: NewCore(ledger.Config{}, r.core.newPlacer, DrawLeadership)}}
	b.ahead = b.core.Ahead(s, func(s *ledger.Snapshot) {
		s.Quotas = slices.Concat(s.Quotas, QuotasOfFiles(b.core.files))
	})
	return b
}

func (b *standby) follows() {
	b.t.Helper()
	if err := b.ahead.Follow(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// takesOver begins to lead, and returns the reason if it did not use its copy.
func (b *standby) takesOver() error {
	b.t.Helper()
	meta, err := b.store.Lead(b.t.Context(), 0)
	if err != nil {
		b.t.Fatal(err)
	}
	loaded, err := b.ahead.Load(b.t.Context(), meta, b.now.Add(-24*time.Hour).Time(), false)
	if err != nil {
		b.t.Fatal(err)
	}
	if loaded.Filed == nil {
		b.t.Errorf("nothing is filed; not from the copy: %v", loaded.Why)
	}
	if (loaded.Why == nil) != (loaded.Prove != nil) {
		b.t.Errorf("not from the copy: %v; there is a proof: %t", loaded.Why, loaded.Prove != nil)
	}
	if err := b.core.Lead(b.now, meta, loaded.Snapshot); err != nil {
		b.t.Fatal(err)
	}
	if loaded.Prove != nil {
		if wrong := loaded.Prove(b.t.Context()); wrong != nil {
			if why := b.takesOverAgain(); !errors.Is(why, ErrNothingFiled) {
				b.t.Errorf("after a copy that was wrong: %v; want that everything is read", why)
			}
			return wrong
		}
	}
	if found := b.core.Ledger().Audit(); len(found) > 0 {
		b.t.Errorf("%v", found)
	}
	return loaded.Why
}

// wantLive compares the live allocations with those of the previous leader.
func (b *standby) wantLive(leader *rig) {
	b.t.Helper()
	if got, want := statesOf(b.core.Ledger()), statesOf(leader.core.Ledger()); !slices.Equal(got, want) {
		b.t.Errorf("it has %v; the leader before had %v", got, want)
	}
}

func statesOf(l *ledger.Ledger) (list []string) {
	l.Allocations(0, func(a *ledger.Allocation) bool {
		list = append(list, a.ID.String()+" "+a.State.String()+" "+a.HostID)
		return true
	})
	return list
}

// held returns a place with a leader that has granted two requests, ended one and made one wait.
func held(t *testing.T) (*storetest.Memory, *rig, []ledger.ID) {
	place := storetest.NewMemory("test")
	r := newRig(t, place.Open())
	r.host()
	var ids []ledger.ID
	for _, memory := range []int64{30, 20, 10, 90} {
		wait := time.Duration(0)
		if memory == 90 {
			wait = time.Hour
		}
		ids = append(ids, r.ask(string(rune('a'+len(ids))), memory, wait).Result.Allocation.ID)
	}
	r.release(ids[1])
	return place, r, ids
}

func (r *rig) release(id ledger.ID) {
	r.t.Helper()
	r.do(func(l *ledger.Ledger, now ledger.Instant) {
		if _, err := l.Release(now, ledger.ReleaseCommand{Actor: identity.Local(), ID: id}); err != nil {
			r.t.Fatal(err)
		}
	})
	r.commit()
}

func TestWhoStandsByBeginsWithWhatIsFiled(t *testing.T) {
	place, leader, ids := held(t)
	b := leader.standsBy(place.Open())
	b.follows()
	leader.release(ids[0])
	leader.ask("late", 5, 0)
	leader.commit()
	b.follows()
	leader.ask("later", 5, 0) // which it has not seen
	leader.commit()
	if why := b.takesOver(); why != nil {
		t.Errorf("what is filed is not used: %v", why)
	}
	b.wantLive(leader)
	if why := b.takesOverAgain(); !errors.Is(why, ErrNothingFiled) {
		t.Errorf("the second time: %v; want that nothing is filed", why)
	}
	b.wantLive(leader)
}

// takesOverAgain loses the lead and takes it again.
func (b *standby) takesOverAgain() error {
	b.core.Drop(ErrNotLeading)
	return b.takesOver()
}

// A store that does not answer, or a canceled read, does not discard the copy.
func TestWhatIsFiledOutlivesAReadingThatFails(t *testing.T) {
	place, leader, ids := held(t)
	b := leader.standsBy(place.Open())
	b.follows()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.ahead.Follow(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("%v; want that it was canceled", err)
	}
	leader.release(ids[0])
	if why := b.takesOver(); why != nil {
		t.Errorf("what is filed is not used: %v", why)
	}
	b.wantLive(leader)
}

// askedHistory counts reads of the history and full reads, and may return a later end than the real
// one.
type askedHistory struct {
	store.Store

	end   ledger.Instant
	asked int
	loads int
}

func (s *askedHistory) Load(ctx context.Context, epoch uint64, since time.Time, take store.Take) (ledger.Snapshot, error) {
	s.loads++
	return s.Store.Load(ctx, epoch, since, take)
}

func (s *askedHistory) Follow(ctx context.Context, since store.Mark) (store.Followed, error) {
	f, err := s.Store.Follow(ctx, since)
	f.LastEnd = max(f.LastEnd, s.end)
	return f, err
}

func (s *askedHistory) History(ctx context.Context, query store.HistoryQuery) ([]ledger.Allocation, string, error) {
	s.asked++
	return s.Store.History(ctx, query)
}

// The copy records whether the store has its time. Only if it had none, a new leadership reads the
// history for that.
func TestTheHistoryIsReadOnlyIfTheStoreDidNotTellItsTime(t *testing.T) {
	for end, want := range map[ledger.Instant]int{0: 0, ledger.MaxInstant: 1} {
		place, leader, _ := held(t)
		s := &askedHistory{Store: place.Open(), end: end}
		b := leader.standsBy(s)
		b.follows()
		if why := b.takesOver(); why != nil || s.asked != want {
			t.Errorf("%v, asked %d times; want %d", why, s.asked, want)
		}
		b.wantLive(leader)
	}
}

// A coordinator that is deposed during its read of the changes cannot lead: it reads nothing more.
func TestWhoIsDeposedMeanwhileLoadsNothing(t *testing.T) {
	place, leader, _ := held(t)
	s := &askedHistory{Store: place.Open()}
	b := leader.standsBy(s)
	b.follows()
	meta, err := s.Lead(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := place.Open().Lead(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := b.ahead.Load(t.Context(), meta, b.now.Time(), false); !errors.Is(err, store.ErrDeposed) || s.loads > 0 {
		t.Errorf("%v, %d loads; want that it is deposed", err, s.loads)
	}
}

// unrecorded is a store whose latest change has no record.
type unrecorded struct{ store.Store }

func (s unrecorded) Follow(ctx context.Context, _ store.Mark) (store.Followed, error) {
	meta, err := s.Meta(ctx)
	return store.Followed{Meta: meta}, err
}

// An earlier version as the leader is reported. A store that never had a leader is not.
func TestAStoreWithoutRecordsIsNotFollowed(t *testing.T) {
	place, leader, _ := held(t)
	b := leader.standsBy(unrecorded{place.Open()})
	if err := b.ahead.Follow(t.Context()); !errors.Is(err, ErrNoRecords) {
		t.Errorf("%v; want %v", err, ErrNoRecords)
	}
	b = leader.standsBy(unrecorded{storetest.NewMemory("new").Open()})
	if err := b.ahead.Follow(t.Context()); err != nil {
		t.Errorf("a new store: %v", err)
	}
}

// A standby that repeatedly finds too many changes reports that, until it has caught up.
func TestWhoFallsBehindSaysSo(t *testing.T) {
	place, leader, _ := held(t)
	b := leader.standsBy(place.Open())
	b.follows()
	leader.commits(200)
	b.follows()
	leader.commits(200)
	if err := b.ahead.Follow(t.Context()); !errors.Is(err, ErrBehind) {
		t.Errorf("%v; want %v", err, ErrBehind)
	}
	b.follows()
	if why := b.takesOver(); why != nil {
		t.Errorf("what is filed is not used: %v", why)
	}
	b.wantLive(leader)
}

// commits makes n commits, each of a request that is granted and ends.
func (r *rig) commits(n int) {
	for range n {
		r.release(r.ask("at "+strconv.FormatUint(r.core.Ledger().Revision(), 10), 1, 0).Result.Allocation.ID)
	}
}

// A copy that differs from the store is detected, and everything is read.
func TestWhatIsFiledWrongIsNotUsed(t *testing.T) {
	for name, test := range map[string]struct {
		damage func(b *standby, place *storetest.Memory, leader *rig, ids []ledger.ID)
		want   error
	}{
		"one is missing": {func(b *standby, _ *storetest.Memory, _ *rig, ids []ledger.ID) {
			_ = b.ahead.filed.Update(&ledger.Snapshot{}, []ledger.ID{ids[0]}, nil)
		}, ErrUnproven},
		"one stands for another": {func(b *standby, _ *storetest.Memory, _ *rig, ids []ledger.ID) {
			other := ledger.Snapshot{Allocations: []ledger.Allocation{{ID: 7, State: ledger.Active, HostID: "h"}}}
			_ = b.ahead.filed.Update(&other, []ledger.ID{ids[0]}, nil)
		}, ErrUnproven},
		"a host is missing": {func(b *standby, _ *storetest.Memory, _ *rig, _ []ledger.ID) {
			_ = b.ahead.filed.Update(&ledger.Snapshot{Hosts: []ledger.HostRecord{{ID: "another"}}}, nil, nil)
		}, ErrUnproven},
		"it has missed too much": {func(_ *standby, _ *storetest.Memory, leader *rig, _ []ledger.ID) {
			leader.commits(200)
		}, store.ErrGap},
		"the store was put back": {func(b *standby, place *storetest.Memory, leader *rig, ids []ledger.ID) {
			backup := place.Copy("test")
			leader.release(ids[0])
			b.follows()
			place.Restore(backup)
			leader.core.Drop(ErrNotLeading)
			leader.lead(0)
			leader.release(ids[2]) // the same sequence again
		}, store.ErrGap},
		"nothing": {func(b *standby, _ *storetest.Memory, _ *rig, _ []ledger.ID) {
			b.ahead.filed = nil
		}, ErrNothingFiled},
	} {
		t.Run(name, func(t *testing.T) {
			place, leader, ids := held(t)
			b := leader.standsBy(place.Open())
			b.follows()
			test.damage(b, place, leader, ids)
			if why := b.takesOver(); !errors.Is(why, test.want) {
				t.Errorf("%v; want %v", why, test.want)
			}
			b.wantLive(leader)
		})
	}
}

// If the rules change, the allocations of a copy count in other accounts. The new rules may come
// over the API earlier or from a file at the last moment.
func TestWhatIsFiledCountsByTheRulesInForce(t *testing.T) {
	selector, err := label.ParseSelector("user=*")
	if err != nil {
		t.Fatal(err)
	}
	rule := ledger.Quota{Selector: selector, Limit: resource.Vector{}.WithMemory(1000)}
	for name, change := range map[string]func(b *standby, leader *rig){
		"over the API": func(b *standby, leader *rig) {
			leader.do(func(l *ledger.Ledger, now ledger.Instant) {
				if err := l.SetQuotas(now, ledger.SourceAPI, []ledger.Quota{rule}); err != nil {
					t.Fatal(err)
				}
			})
			leader.commit()
			b.follows()
		},
		"of a file": func(b *standby, _ *rig) {
			if err := b.core.SetQuotaFiles(0, map[string][]ledger.Quota{"file:rules": {rule}}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			place, leader, _ := held(t)
			b := leader.standsBy(place.Open())
			b.follows()
			change(b, leader)
			meta, err := b.store.Lead(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			loaded, err := b.ahead.Load(t.Context(), meta, time.Time{}, false)
			if err := errors.Join(loaded.Why, err); err != nil {
				t.Fatal(err)
			}
			if err := b.core.Lead(b.now, meta, loaded.Snapshot); err != nil {
				t.Fatal(err)
			}
			b.wantLive(leader)
			reserved := int64(0)
			b.core.Ledger().QuotaAccounts("", func(_ string, a ledger.AccountInfo) bool {
				reserved += a.Reserved.Memory()
				return true
			})
			if reserved != 40 || len(b.core.Ledger().Audit()) > 0 {
				t.Errorf("%d reserved in the rule's account, %v; want 40", reserved, b.core.Ledger().Audit())
			}
		})
	}
}

// restartedLoad loses its connection after some rows, and starts again. By then one of the rows is
// gone.
type restartedLoad struct{ store.Store }

func (s *restartedLoad) Load(ctx context.Context, epoch uint64, since time.Time, take store.Take) (ledger.Snapshot, error) {
	lost := errors.New("the connection is lost")
	_, err := s.Store.Load(ctx, epoch, since, func(rest *ledger.Snapshot, rows []ledger.Allocation) error {
		if len(rows) == 0 {
			return take(rest, rows)
		}
		gone := rows[0]
		gone.ID += 1000
		if err := take(rest, append(slices.Clone(rows), gone)); err != nil {
			return err
		}
		return lost
	})
	if !errors.Is(err, lost) {
		return ledger.Snapshot{}, err
	}
	return s.Store.Load(ctx, epoch, since, take)
}

// A load that begins again is filed from the beginning.
func TestALoadBeginsAgain(t *testing.T) {
	place, leader, _ := held(t)
	for range 4 {
		leader.ask("", 1, 0)
	}
	leader.commit()
	b := leader.standsBy(&restartedLoad{place.Open()})
	if why := b.takesOver(); !errors.Is(why, ErrNothingFiled) {
		t.Error(why)
	}
	b.wantLive(leader)
}

// emptiedLoad is like restartedLoad, but starts again when no row is left.
type emptiedLoad struct{ store.Store }

func (s *emptiedLoad) Load(ctx context.Context, epoch uint64, since time.Time, take store.Take) (ledger.Snapshot, error) {
	gone := ledger.Allocation{ID: 1000, Caller: "gone", State: ledger.Waiting, Requested: resource.NewResource(resource.Vector{}.WithMemory(1))}
	for _, rows := range [][]ledger.Allocation{nil, {gone}} {
		if err := take(&ledger.Snapshot{}, rows); err != nil {
			return ledger.Snapshot{}, err
		}
	}
	return s.Store.Load(ctx, epoch, since, take)
}

func TestALoadThatBeginsAgainAndHasNoRowFilesNone(t *testing.T) {
	place := storetest.NewMemory("test")
	leader := newRig(t, place.Open())
	leader.host()
	leader.commit()
	b := leader.standsBy(&emptiedLoad{place.Open()})
	if why := b.takesOver(); !errors.Is(why, ErrNothingFiled) {
		t.Error(why)
	}
	b.wantLive(leader)
}
