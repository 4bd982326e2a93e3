package storetest

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// copied is the state of a reader that follows a store.
type copied struct {
	mark  store.Mark
	live  map[ledger.ID]ledger.Allocation
	hosts map[string]ledger.HostRecord
	rest  ledger.Snapshot // rules, providers and refusals
}

// takeIn applies a result of Follow.
func (c *copied) takeIn(f *store.Followed) {
	c.mark = f.Mark
	if f.Whole || f.Mark == (store.Mark{}) {
		c.live, c.hosts = make(map[ledger.ID]ledger.Allocation), make(map[string]ledger.HostRecord)
	}
	for _, id := range f.Ended {
		delete(c.live, id)
	}
	for _, a := range f.Rows.Allocations {
		c.live[a.ID] = a
	}
	for _, id := range f.HostsRemoved {
		delete(c.hosts, id)
	}
	for _, h := range f.Rows.Hosts {
		c.hosts[h.ID] = h
	}
	if f.Rest {
		c.rest = ledger.Snapshot{Quotas: f.Rows.Quotas, Providers: f.Rows.Providers, Refusals: f.Rows.Refusals}
	}
}

// snapshot returns the reader's state, without request ids.
func (c *copied) snapshot(f *store.Followed) ledger.Snapshot {
	return sorted(ledger.Snapshot{
		Revision: f.Rows.Revision, LastID: f.Rows.LastID, Time: f.Rows.Time, Outages: f.Rows.Outages,
		Allocations: slices.Collect(maps.Values(c.live)), Hosts: slices.Collect(maps.Values(c.hosts)),
		Quotas: c.rest.Quotas, Providers: c.rest.Providers, Refusals: c.rest.Refusals,
	})
}

func follow(t tester, s store.Store, since store.Mark) store.Followed {
	t.Helper()
	f, err := s.Follow(t.Context(), since)
	if err != nil {
		t.Fatalf("follow: %v", err)
	}
	return f
}

// testFollow tests that a reader with a mark gets only the changes.
func testFollow(t *testing.T, open Opener) {
	a, b := opened(t, open), opened(t, open)
	epoch := lead(t, a, 0).Epoch
	c := transitions(Typical(1, ledger.Active, 1), Typical(2, ledger.Waiting, 2), Typical(3, ledger.Active, 3))
	c.Hosts = []ledger.HostRecord{{ID: "h1"}, {ID: "h2"}}
	commit(t, a, epoch, c)
	all := follow(t, b, store.Mark{})
	if !all.Whole || len(all.Rows.Allocations) != 3 || len(all.Rows.Hosts) != 2 || all.Mark.Sequence != 3 || all.LastEnd != 0 {
		t.Errorf("read %+v; want all", all)
	}
	c = transitions(Typical(2, ledger.Active, 4), Typical(3, ledger.Released, 5))
	c.HostsRemoved = []string{"h1"}
	commit(t, a, epoch, c)
	commit(t, a, epoch, transitions(Typical(4, ledger.Reserved, 6)))
	some := follow(t, b, all.Mark)
	if some.Whole || some.Rest || len(some.Rows.Allocations) != 2 || some.Rows.Allocations[0].ID != 2 || some.Rows.Allocations[1].ID != 4 ||
		!slices.Equal(some.Ended, []ledger.ID{3}) || !slices.Equal(some.HostsRemoved, []string{"h1"}) || len(some.Rows.Hosts) != 0 {
		t.Errorf("read %+v; want 2 and 4, that 3 has ended, and that h1 is gone", some)
	}
	nothing := follow(t, b, some.Mark)
	if nothing.Whole || nothing.Mark != some.Mark || len(nothing.Rows.Allocations)+len(nothing.Ended) > 0 {
		t.Errorf("read %+v; want nothing", nothing)
	}
	testCatchUp(t, a, b, some.Mark)
}

// testCatchUp lets b lead and a catch up.
func testCatchUp(t *testing.T, a, b store.Store, since store.Mark) {
	t.Helper()
	epoch := lead(t, b, 0).Epoch
	commit(t, b, epoch, transitions(Typical(5, ledger.Active, 7)))
	caughtUp, err := a.CatchUp(t.Context(), since)
	if err != nil || len(caughtUp.Rows.Allocations) != 1 || caughtUp.Meta.Epoch != epoch {
		t.Errorf("caught up %+v, %v; want 5", caughtUp, err)
	}
	if got, err := a.Totals(t.Context()); err != nil || got != (store.Totals{Epoch: epoch, Live: 4, IDs: 1 + 2 + 4 + 5, Hosts: 1}) {
		t.Errorf("in total %+v, %v; want four, and a host", got, err)
	}
	testOtherPast(t, a, since)
	testTooManyChanged(t, a, b, epoch, caughtUp.Mark)
}

// testOtherPast asks for the changes since states of another past, or since states that never
// existed.
func testOtherPast(t *testing.T, s store.Store, known store.Mark) {
	t.Helper()
	for _, mark := range []store.Mark{{Sequence: 6, Leadership: "another"}, {Sequence: 4, Leadership: known.Leadership}, {Sequence: 99, Leadership: "x"}} {
		if _, err := s.CatchUp(t.Context(), mark); !errors.Is(err, store.ErrGap) {
			t.Errorf("%+v: %v; want a gap", mark, err)
		}
		if f := follow(t, s, mark); !f.Whole || len(f.Rows.Allocations) != 4 || f.LastEnd != Typical(3, ledger.Released, 5).Ended {
			t.Errorf("%+v: read %+v; want everything", mark, f)
		}
	}
}

// testTooManyChanged makes a commit with too many rows for a record: a reader then gets all rows.
func testTooManyChanged(t *testing.T, a, b store.Store, epoch uint64, since store.Mark) {
	t.Helper()
	c := ledger.Changes{Revision: 8}
	for i := range store.MostRecorded + 1 {
		c.Transitions = append(c.Transitions, Typical(ledger.ID(10+i), ledger.Active, 8))
	}
	commit(t, b, epoch, c)
	if f := follow(t, a, since); !f.Whole || len(f.Rows.Allocations) != 4+store.MostRecorded+1 || f.Mark.Sequence != 8 {
		t.Errorf("read %d allocations, whole: %t, %+v; want all", len(f.Rows.Allocations), f.Whole, f.Mark)
	}
}

// testFollowModel lets two stores lead in turn, and a reader follow from time to time.
func testFollowModel(t *testing.T, fresh func(t *testing.T) Opener) {
	rapid.Check(t, func(rt *rapid.T) {
		open := fresh(t)
		a, b := open(t), open(t)
		defer func() { _, _ = a.Close(), b.Close() }()
		m, reader := newModel(), &copied{}
		epoch := lead(t, a, 0).Epoch
		rt.Repeat(map[string]func(*rapid.T){
			"commit": func(rt *rapid.T) {
				c := Changes(rt)
				c.Revision = m.sequence + rapid.Uint64Range(0, 3).Draw(rt, "more")
				if err := a.Commit(rt.Context(), store.Batch{Epoch: epoch, Changes: c}); err != nil {
					rt.Fatalf("commit: %v", err)
				}
				m.commit(c)
			},
			"change of leader": func(rt *rapid.T) {
				a, b = b, a
				epoch = lead(t, a, 0).Epoch
			},
			"follow": func(rt *rapid.T) {
				f := follow(rt, b, reader.mark)
				if reader.takeIn(&f); f.Mark == (store.Mark{}) {
					return
				}
				want := m.snapshot(ledger.MaxInstant)
				want.Remembered = nil
				if !f.Rest {
					want.Refusals, reader.rest.Refusals = nil, nil
				}
				if diff := difference(want, reader.snapshot(&f)); diff != "" {
					rt.Fatalf("followed (-want +got):\n%s", diff)
				}
			},
			"catch up": func(rt *rapid.T) {
				f, err := b.CatchUp(rt.Context(), reader.mark)
				if errors.Is(err, store.ErrGap) {
					return
				}
				if err != nil {
					rt.Fatalf("catch up: %v", err)
				}
				reader.takeIn(&f)
				want := m.snapshot(ledger.MaxInstant)
				want.Remembered = nil
				if diff := difference(want, reader.snapshot(&f)); diff != "" {
					rt.Fatalf("caught up (-want +got):\n%s", diff)
				}
				sum := int64(0)
				for i := range want.Allocations {
					sum += store.SumOfIDs(want.Allocations[i].ID)
				}
				total := store.Totals{Epoch: epoch, Live: len(want.Allocations), IDs: sum, Hosts: len(want.Hosts)}
				if got, err := b.Totals(rt.Context()); err != nil || got != total {
					rt.Fatalf("%+v in total, %v; want %+v", got, err, total)
				}
			},
		})
	})
}
