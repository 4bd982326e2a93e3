package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/seal"
	"github.com/bursar/bursar/coordinator/store"
)

func testCanceled(t *testing.T, open Opener) {
	s, epoch := leading(t, open)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := s.Commit(ctx, store.Batch{Epoch: epoch, Changes: transitions(Typical(1, ledger.Active, 1))})
	wantError(t, err, context.Canceled)
	if errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("%v: it has not begun", err)
	}
	wantLoad(t, s, lead(t, s, 0).Epoch, newModel(), 0)
}

func testLastTransition(t *testing.T, open Opener) {
	s, epoch := leading(t, open)
	m := newModel()
	c := transitions(
		Typical(2, ledger.Waiting, 1), Typical(1, ledger.Waiting, 2), Typical(2, ledger.Reserved, 3), Typical(1, ledger.Canceled, 4),
		Typical(2, ledger.Active, 5))
	c.Hosts = []ledger.HostRecord{{ID: "h", Revision: 1}, {ID: "h", Revision: 2}}
	commit(t, s, epoch, c)
	m.commit(c)
	wantLoad(t, s, epoch, m, 0)
}

func testAdopted(t *testing.T, open Opener) {
	s, epoch := leading(t, open)
	m := newModel()
	adopted := Typical(1, ledger.Active, 3)
	adopted.RequestID = "" // a newer request has taken it since
	for _, a := range []ledger.Allocation{Typical(1, ledger.Active, 1), Typical(1, ledger.Lost, 2), adopted} {
		commit(t, s, epoch, transitions(a))
		m.commit(transitions(a))
		wantLoad(t, s, epoch, m, 0)
	}
	_, err := s.GetByRequest(t.Context(), adopted.Caller, Typical(1, ledger.Active, 1).RequestID)
	wantError(t, err, store.ErrNotFound)
	if page, _, err := s.History(t.Context(), store.HistoryQuery{}); err != nil || len(page) != 0 {
		t.Errorf("history: %v, %v", page, err)
	}
}

func testSealKeys(t *testing.T, open Opener) {
	var keys seal.Keys
	for i := range 3 {
		s := open(t)
		meta, err := s.Lead(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if !meta.SealKeys.Valid() || i > 0 && meta.SealKeys != keys {
			t.Errorf("leadership %d has other keys than the one before, or none", i)
		}
		keys = meta.SealKeys
		if shown, err := s.Meta(t.Context()); err != nil || shown.SealKeys != "" {
			t.Errorf("they are shown to others than leaders (%v)", err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// An allocation that ended, was brought back by its host's agent and ended again counts on the
// host; its row answers its caller's repeat.
func testBroughtBack(t *testing.T, open Opener) {
	s, epoch := leading(t, open)
	again := Typical(1, ledger.Lost, 3)
	again.Confirmed = again.Reserved - 1
	live := again
	live.State, live.Ended = ledger.Active, 0
	m := newModel()
	for _, a := range []ledger.Allocation{Typical(1, ledger.Lost, 1), live, again} {
		commit(t, s, epoch, transitions(a))
		m.commit(transitions(a))
		wantLoad(t, s, epoch, m, 0)
	}
	if got, err := s.GetByRequest(t.Context(), again.Caller, again.RequestID); err != nil || got.ID != again.ID {
		t.Errorf("by request: %s, %v; want %s", got.ID, err, again.ID)
	}
	if ends, err := s.Ends(t.Context(), store.Position{}, 2); err != nil || len(ends) != 1 || ends[0].Caller != store.OfHost+again.HostID {
		t.Errorf("ends: %+v, %v; want one of its host", ends, err)
	}
	for _, state := range []ledger.State{ledger.Lost, ledger.Released} {
		page, _, err := s.History(t.Context(), store.HistoryQuery{States: []ledger.State{state}})
		if err != nil || len(page) == 1 != (state == ledger.Lost) {
			t.Errorf("%d with state %d, %v", len(page), state, err)
		}
	}
}

func testRemovedAndPut(t *testing.T, open Opener) {
	s, epoch := leading(t, open)
	h, g := ledger.HostRecord{ID: "h"}, ledger.HostRecord{ID: "g"}
	p, q := ledger.ProviderRecord{ClusterName: clusters[0], Source: "api"}, ledger.ProviderRecord{ClusterName: clusters[1], Default: true}
	m := newModel()
	for _, c := range []ledger.Changes{
		{Revision: 1, Hosts: []ledger.HostRecord{h, g}},
		{Revision: 2, Hosts: []ledger.HostRecord{h}, HostsRemoved: []string{"h", "g", "never there"}},
		{Revision: 3, HostsRemoved: []string{"h"}},
		{Revision: 4, Providers: []ledger.ProviderRecord{p, q}},
		{Revision: 5, Providers: []ledger.ProviderRecord{p}, ProvidersRemoved: []ledger.ClusterName{clusters[0], clusters[1], clusters[2]}},
		{Revision: 6, ProvidersRemoved: []ledger.ClusterName{clusters[0]}},
	} {
		commit(t, s, epoch, c)
		m.commit(c)
		wantLoad(t, s, epoch, m, 0)
	}
}

func testRemember(t *testing.T, open Opener) {
	s, epoch := leading(t, open)
	kept, forgotten, nameless := Typical(1, ledger.Released, 1), Typical(2, ledger.Canceled, 2), Typical(3, ledger.Expired, 3)
	forgotten.Forget, nameless.RequestID = true, ""
	m := newModel()
	c := transitions(kept, forgotten, nameless, Typical(4, ledger.Active, 4))
	commit(t, s, epoch, c)
	m.commit(c)
	for _, since := range []ledger.Instant{0, kept.Ended, kept.Ended + 1} {
		wantLoad(t, s, epoch, m, since)
	}
	if n := len(m.snapshot(kept.Ended).Remembered); n != 1 {
		t.Fatalf("the test is wrong: it remembers %d", n)
	}
	for id, a := range m.allocations {
		got, err := s.Get(t.Context(), id)
		if diff := difference(a, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	_, err := s.Get(t.Context(), 5)
	wantError(t, err, store.ErrNotFound)
}

// wantRemembered reads all pages of Remembered, and compares them with the model.
func wantRemembered(t tester, s store.Store, m *model, since ledger.Instant, limit int) {
	t.Helper()
	var want []ledger.Remembered
	for _, a := range m.history() {
		if a.RequestID != "" && !a.Forget && a.Ended >= since {
			want = append(want, remembered(&a))
		}
	}
	var got []ledger.Remembered
	var at store.Position
	for range len(m.allocations) + 1 {
		page, next, err := s.Remembered(t.Context(), at, since, limit)
		if err != nil || len(page) > limit {
			t.Fatalf("remembered: %d in a page of %d, %v", len(page), limit, err)
		}
		got = append(got, page...)
		if at = next; at == (store.Position{}) {
			break
		}
	}
	if diff := difference(want, got); diff != "" || at != (store.Position{}) {
		t.Fatalf("remembered since %d, %d a page, up to %+v (-want +got):\n%s", since, limit, at, diff)
	}
}

// The pages come newest first, with a tie in the middle, and without forgotten allocations.
func testRememberedPages(t *testing.T, open Opener) {
	s, epoch := leading(t, open)
	m := newModel()
	var list []ledger.Allocation
	for i := range 10 {
		a := Typical(ledger.ID(i+1), ledger.Released, uint64(i+1))
		a.Ended, a.Forget = ledger.Instant(1000+i-i%3), i == 4
		list = append(list, a)
	}
	c := transitions(append(list, Typical(20, ledger.Active, 20))...)
	commit(t, s, epoch, c)
	m.commit(c)
	for _, limit := range []int{1, 3, 8, 9, 10, 100} {
		for _, since := range []ledger.Instant{0, 1000, 1003, 1006, 1010} {
			wantRemembered(t, s, m, since, limit)
		}
	}
	if _, err := s.RememberedOf(t.Context(), list[0].Caller, Typical(20, ledger.Active, 20).RequestID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of a live one: %v", err)
	}
}

func testByRequest(t *testing.T, open Opener) {
	s, epoch := leading(t, open)
	a, b, other, forgotten := Typical(1, ledger.Released, 1), Typical(2, ledger.Active, 2), Typical(3, ledger.Active, 3), Typical(4, ledger.Canceled, 4)
	for _, p := range []*ledger.Allocation{&a, &b, &other, &forgotten} {
		p.RequestID = "r"
	}
	other.Caller, forgotten.Forget = "bob", true
	commit(t, s, epoch, transitions(a, b, other, forgotten))
	for caller, want := range map[string]ledger.ID{a.Caller: b.ID, "bob": other.ID} {
		if got, err := s.GetByRequest(t.Context(), caller, "r"); err != nil || got.ID != want {
			t.Errorf("request of %q: %s, %v; want %s", caller, got.ID, err, want)
		}
	}
	for _, request := range []string{"", "R", "r "} {
		_, err := s.GetByRequest(t.Context(), a.Caller, request)
		wantError(t, err, store.ErrNotFound)
	}
}

func testLargeBatch(t *testing.T, open Opener) {
	s, epoch := leading(t, open)
	const n = 5000
	m := newModel()
	var c ledger.Changes
	for i := range ledger.ID(n) {
		c.Transitions = append(c.Transitions, Typical(i+1, ledger.Active, uint64(i)))
	}
	c.Revision, c.LastID = n, n
	commit(t, s, epoch, c)
	m.commit(c)
	wantLoad(t, s, epoch, m, 0)
}

// testReaders reads during commits, each of which moves a pair of allocations to its revision.
func testReaders(t *testing.T, open Opener) {
	s, epoch := leading(t, open)
	const batches = 200
	write := func(revision uint64) {
		commit(t, s, epoch, transitions(Typical(1, ledger.Active, revision), Typical(2, ledger.Active, revision),
			Typical(100+ledger.ID(revision), ledger.Released, revision)))
	}
	write(1)
	done := make(chan struct{})
	var reading sync.WaitGroup
	for _, read := range []func(last uint64) (uint64, error){
		func(uint64) (uint64, error) {
			snapshot, err := s.Load(t.Context(), epoch, time.Time{}, nil)
			for _, a := range snapshot.Allocations {
				if a.Revision != snapshot.Revision {
					return 0, fmt.Errorf("allocation %d at revision %d in a snapshot of %d", a.ID, a.Revision, snapshot.Revision)
				}
			}
			return snapshot.Revision, err
		},
		func(uint64) (uint64, error) {
			a, err := s.Get(t.Context(), 1)
			return a.Revision, err
		},
		func(uint64) (uint64, error) {
			page, _, err := s.History(t.Context(), store.HistoryQuery{PageSize: 1})
			if len(page) != 1 {
				return 0, fmt.Errorf("%d allocations in the history, %w", len(page), err)
			}
			return page[0].Revision, err
		},
		func(last uint64) (uint64, error) {
			meta, err := s.Meta(t.Context())
			return meta.Sequence, err
		},
	} {
		reading.Go(func() {
			for last := uint64(0); ; {
				revision, err := read(last)
				if err != nil || revision < last {
					t.Errorf("read revision %d after %d: %v", revision, last, err)
					return
				}
				last = revision
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for revision := uint64(2); revision <= batches; revision++ {
		write(revision)
	}
	close(done)
	reading.Wait()
}

// testModel compares a store with the model, after every step of a random sequence.
func testModel(t *testing.T, fresh func(t *testing.T) Opener) {
	rapid.Check(t, func(rt *rapid.T) {
		open := fresh(t)
		s := open(t)
		defer func() { _ = s.Close() }()
		m := newModel()
		epoch := lead(t, s, 0).Epoch
		rt.Repeat(map[string]func(*rapid.T){
			"commit": func(rt *rapid.T) {
				c := Changes(rt)
				if err := s.Commit(rt.Context(), store.Batch{Epoch: epoch, Changes: c}); err != nil {
					rt.Fatalf("commit: %v", err)
				}
				m.commit(c)
			},
			"commit of a deposed leader": func(rt *rapid.T) {
				if err := s.Commit(rt.Context(), store.Batch{Epoch: epoch - 1, Changes: Changes(rt)}); !errors.Is(err, store.ErrDeposed) {
					rt.Fatalf("got %v", err)
				}
			},
			"commit that fails": func(rt *rapid.T) {
				c := Changes(rt)
				c.Transitions = append(c.Transitions, ledger.Allocation{ID: 1})
				if err := s.Commit(rt.Context(), store.Batch{Epoch: epoch, Changes: c}); err == nil {
					rt.Fatal("committed")
				}
				epoch = lead(t, s, 0).Epoch
			},
			"delete": func(rt *rapid.T) {
				after := store.Position{Ended: rapid.SampledFrom(append(ends, 0)).Draw(rt, "after"), ID: rapid.SampledFrom(ids).Draw(rt, "after id")}
				limit := rapid.IntRange(0, 4).Draw(rt, "limit")
				want := m.ends(after, limit)
				found, err := s.Ends(rt.Context(), after, limit)
				var got []store.Position
				for i := range found {
					got = append(got, found[i].Position)
				}
				if err != nil || difference(want, got) != "" {
					rt.Fatalf("ends after %v: %v (-want +got):\n%s", after, err, difference(want, got))
				}
				// missing, live, or of another time
				for range rapid.IntRange(0, 2).Draw(rt, "strangers") {
					got = append(got, store.Position{Ended: rapid.SampledFrom(ends).Draw(rt, "ended"), ID: rapid.SampledFrom(ids).Draw(rt, "id")})
				}
				removed := m.remove(got)
				if deleted, err := s.Delete(rt.Context(), got); err != nil || deleted != removed {
					rt.Fatalf("deleted %d, %v; want %d", deleted, err, removed)
				}
			},
			"reopen": func(rt *rapid.T) {
				if err := s.Close(); err != nil {
					rt.Fatal(err)
				}
				s = open(t)
				epoch = lead(t, s, rapid.Uint64Range(0, epoch+3).Draw(rt, "at least")).Epoch
			},
			"": func(rt *rapid.T) { compareReads(rt, s, epoch, m) },
		})
	})
}

// compareReads compares a load, the history, and some single reads.
func compareReads(t *rapid.T, s store.Store, epoch uint64, m *model) {
	wantLoad(t, s, epoch, m, rapid.SampledFrom(ends).Draw(t, "since"))
	for _, id := range rapid.SliceOfN(rapid.SampledFrom(ids), 2, 2).Draw(t, "get") {
		got, err := s.Get(t.Context(), id)
		if want, found := m.allocations[id]; found != (err == nil) || found && difference(want, got) != "" {
			t.Fatalf("get %s: %v (-want +got):\n%s", id, err, difference(want, got))
		}
	}
	caller, request := rapid.SampledFrom(callers).Draw(t, "caller"), rapid.SampledFrom(requests).Draw(t, "request")
	got, err := s.GetByRequest(t.Context(), caller, request)
	if want, found := m.byRequest(caller, request); found != (err == nil) || found && difference(want, got) != "" {
		t.Fatalf("get request %q of %q: %v (-want +got):\n%s", request, caller, err, difference(want, got))
	}
	past, err := s.RememberedOf(t.Context(), caller, request)
	if want, found := m.byRequest(caller, request); (found && !want.State.Live()) != (err == nil) || err == nil && past != remembered(&want) ||
		err != nil && !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("remembered of request %q of %q: %+v, %v; want %+v", request, caller, past, err, want)
	}
	wantRemembered(t, s, m, rapid.SampledFrom(ends).Draw(t, "remember since"), rapid.SampledFrom([]int{1, 2, 5}).Draw(t, "remembered page"))
	query := store.HistoryQuery{PageSize: rapid.SampledFrom([]int{0, 2, 5}).Draw(t, "page size")}
	var all []ledger.Allocation
	for range len(ids) + 1 {
		page, next, err := s.History(t.Context(), query)
		if err != nil {
			t.Fatalf("history: %v", err)
		}
		all = append(all, page...)
		if query.PageToken = next; next == "" {
			break
		}
	}
	if diff := difference(m.history(), all); diff != "" {
		t.Fatalf("history (-want +got):\n%s", diff)
	}
}

// encoded returns the rows of changes, by their keys.
func encoded[R any](changed []R, encode func(*R) ([]byte, error), key func(*R) string) (map[string][]byte, error) {
	rows := make(map[string][]byte, len(changed))
	for i := range changed {
		payload, err := encode(&changed[i])
		if err != nil {
			return nil, err
		}
		rows[key(&changed[i])] = payload
	}
	return rows, nil
}
