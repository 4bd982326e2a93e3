package storetest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/label"
)

// index fills the index in steps, until less than a step is left.
func index(t tester, s store.Store, epoch uint64, before ledger.Instant, step int) {
	t.Helper()
	for {
		n, err := s.IndexHistory(t.Context(), epoch, before, step)
		if err != nil {
			t.Fatalf("index: %v", err)
		}
		if n < step {
			return
		}
	}
}

// found reads all pages.
func found(t tester, s store.Store, query store.HistoryQuery) (ids []ledger.ID) {
	t.Helper()
	for {
		page, next, err := s.History(t.Context(), query)
		if err != nil {
			t.Fatalf("history %+v: %v", query, err)
		}
		if len(page) > query.Size() {
			t.Fatalf("%d in a page of %d", len(page), query.Size())
		}
		for i := range page {
			ids = append(ids, page[i].ID)
		}
		if query.PageToken = next; next == "" {
			return ids
		}
	}
}

// matching returns the ids of a list that match a query, the slow and obvious way.
func matching(list []ledger.Allocation, query *store.HistoryQuery) (ids []ledger.ID) {
	for i := range list {
		if query.Matches(&list[i]) {
			ids = append(ids, list[i].ID)
		}
	}
	return ids
}

func testIndex(t *testing.T, open Opener) {
	s, epoch := leading(t, open)
	list := past(t, s, epoch, 250) // ends between 1000 and 1249
	queries := []store.HistoryQuery{
		{},
		{HostID: "h2", PageSize: 10},
		{HostID: "nowhere"},
		{Labels: label.Of("user", "u3"), PageSize: 1},
		{Labels: label.Of("user", "*", "creator", "*"), PageSize: 7},
		{Labels: label.Of("creator", "IDE"), HostID: "h0", States: []ledger.State{ledger.Released}},
		{Labels: label.Of("creator", "IDE", "user", "u1"), HostID: "h1", PageSize: 2},
		{Labels: label.Of("creator", "IDE", "user", "nobody")},
		{Labels: label.Of("user", "u3", "chosen", "by a user")},
		{Labels: label.Of("user", "u2"), IDPrefix: list[17].ID.String()[:2]},
	}
	for _, before := range []ledger.Instant{0, 1001, 1002, 1003, 1100, 1247, math.MaxInt64} {
		index(t, s, epoch, before, 7)
		for _, query := range queries {
			if diff := cmp.Diff(matching(list, &query), found(t, s, query)); diff != "" {
				t.Errorf("filled before %d, %+v (-want +got):\n%s", before, query, diff)
			}
		}
	}
}

// testSweep leaves entries behind in every possible way.
func testSweep(t *testing.T, open Opener) {
	s, epoch := leading(t, open)
	list := past(t, s, epoch, 60) // ends between 1000 and 1059
	index(t, s, epoch, math.MaxInt64, 100)
	live, again := list[3], list[5]
	live.State, live.Ended = ledger.Active, 0
	again.Ended = 2000
	commit(t, s, epoch, transitions(live, again))
	var gone []store.Position
	for i := range list {
		if i%2 == 0 {
			gone = append(gone, store.Position{Ended: list[i].Ended, ID: list[i].ID})
		}
	}
	if n, err := s.Delete(t.Context(), gone); err != nil || n != len(gone) {
		t.Fatalf("deleted %d, %v; want %d", n, err, len(gone))
	}
	var rest []ledger.Allocation
	for i := range list {
		if i%2 == 1 && i != 3 && i != 5 {
			rest = append(rest, list[i])
		}
	}
	rest = slices.Insert(rest, 0, again)
	for range 2 {
		for user := range 7 {
			query := store.HistoryQuery{Labels: label.Of("user", fmt.Sprint("u", user)), PageSize: 3}
			if diff := cmp.Diff(matching(rest, &query), found(t, s, query)); diff != "" {
				t.Errorf("%+v (-want +got):\n%s", query, diff)
			}
		}
		at, done := store.IndexBegin(), false
		for steps := 0; !done; steps++ {
			var err error
			if at, done, err = s.SweepIndex(t.Context(), at, math.MaxInt64, 5); err != nil || steps > 100 {
				t.Fatalf("%d steps, %v", steps, err)
			}
		}
		index(t, s, epoch, math.MaxInt64, 100)
	}
}

func testIndexFence(t *testing.T, open Opener) {
	s, epoch := leading(t, open)
	past(t, s, epoch, 10)
	later := lead(t, s, 0).Epoch
	for _, stale := range []uint64{0, epoch, later + 1} {
		_, err := s.IndexHistory(t.Context(), stale, math.MaxInt64, 100)
		wantError(t, err, store.ErrDeposed)
	}
	if err := s.Commit(t.Context(), store.Batch{Epoch: later, Changes: transitions(Typical(1, ledger.State(99), 3))}); err == nil {
		t.Fatal("committed")
	}
	_, err := s.IndexHistory(t.Context(), later, math.MaxInt64, 100)
	wantError(t, err, store.ErrDeposed)
	index(t, s, lead(t, s, 0).Epoch, math.MaxInt64, 3)
}

// indexed draws an allocation that ended, or not, with few hosts and labels.
func indexed(t *rapid.T) ledger.Allocation {
	a := Typical(rapid.SampledFrom(ids).Draw(t, "id"), rapid.SampledFrom(states).Draw(t, "state"), 1)
	if !a.State.Live() {
		a.Ended = rapid.SampledFrom(ends).Draw(t, "ended")
	}
	a.HostID, a.Labels = rapid.SampledFrom(hostIDs).Draw(t, "host"), indexedLabels(t)
	return a
}

func indexedLabels(t *rapid.T) (set label.Set) {
	for _, key := range []string{label.User, label.Queue, "chosen"} {
		if value := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, key); value != "" {
			set = set.With(key, value)
		}
	}
	return set
}

// testIndexModel compares searches with the model, while the index is filled in steps, rows end
// late, come back and are deleted, and stores are opened again.
func testIndexModel(t *testing.T, fresh func(t *testing.T) Opener) {
	rapid.Check(t, func(rt *rapid.T) {
		open := fresh(t)
		s := open(t)
		defer func() { _ = s.Close() }()
		m := newModel()
		epoch := lead(t, s, 0).Epoch
		rt.Repeat(map[string]func(*rapid.T){
			"commit": func(rt *rapid.T) {
				c := ledger.Changes{Revision: 1, Transitions: rapid.SliceOfN(rapid.Custom(indexed), 1, 5).Draw(rt, "transitions")}
				if err := s.Commit(rt.Context(), store.Batch{Epoch: epoch, Changes: c}); err != nil {
					rt.Fatalf("commit: %v", err)
				}
				m.commit(c)
			},
			"index": func(rt *rapid.T) {
				before := rapid.SampledFrom(append(ends, math.MaxInt64)).Draw(rt, "before")
				if _, err := s.IndexHistory(rt.Context(), epoch, before, rapid.IntRange(1, 5).Draw(rt, "step")); err != nil {
					rt.Fatal(err)
				}
			},
			"delete": func(rt *rapid.T) {
				gone := m.ends(store.Position{}, rapid.IntRange(0, 4).Draw(rt, "limit"))
				m.remove(gone)
				if _, err := s.Delete(rt.Context(), gone); err != nil {
					rt.Fatal(err)
				}
			},
			"sweep": func(rt *rapid.T) {
				before := rapid.SampledFrom(append(ends, math.MaxInt64)).Draw(rt, "swept before")
				if _, _, err := s.SweepIndex(rt.Context(), store.IndexBegin(), before, 100); err != nil {
					rt.Fatal(err)
				}
			},
			"reopen": func(rt *rapid.T) {
				if err := s.Close(); err != nil {
					rt.Fatal(err)
				}
				s = open(t)
				epoch = lead(t, s, 0).Epoch
			},
			"": func(rt *rapid.T) {
				query := store.HistoryQuery{Labels: indexedLabels(rt), PageSize: rapid.SampledFrom([]int{1, 3, 100}).Draw(rt, "page size")}
				query.HostID = rapid.SampledFrom(append(hostIDs, "")).Draw(rt, "of host")
				query.States = rapid.SampledFrom([][]ledger.State{nil, {ledger.Released, ledger.Lost}}).Draw(rt, "states")
				if diff := difference(matching(m.history(), &query), found(rt, s, query)); diff != "" {
					rt.Fatalf("%+v (-want +got):\n%s", query, diff)
				}
			},
		})
	})
}

// Late tests that a search finds an allocation that ends during a step of IndexHistory, although
// the step goes further. step makes one, and calls between once it has read its rows.
func Late(t *testing.T, s store.Store, step func(epoch uint64, between func())) {
	t.Helper()
	epoch := lead(t, s, 0).Epoch
	list := past(t, s, epoch, 20)
	late := Typical(1000, ledger.Released, 1)
	late.Ended, late.Labels = list[10].Ended, label.Of("user", "late")
	step(epoch, func() { commit(t, s, epoch, transitions(late)) })
	query := store.HistoryQuery{Labels: label.Of("user", "late")}
	for range 2 {
		if got := found(t, s, query); len(got) != 1 {
			t.Errorf("found %v; want the late one", got)
		}
		index(t, s, epoch, math.MaxInt64, 100)
	}
}

// Pages tests that the first page of a search reads no more of a long history than of a short one.
// looked returns how many rows and entries of the index it reads, and how many it finds.
func Pages(t *testing.T, fresh func(t *testing.T) Opener, looked func(s store.Store, query store.HistoryQuery) (rows, found int)) {
	t.Helper()
	queries := map[string]store.HistoryQuery{
		"time":                   {},
		"host":                   {HostID: "h2"},
		"user":                   {Labels: label.Of("user", "u3")},
		"host and user":          {HostID: "h2", Labels: label.Of("user", "u3")},
		"user and creator":       {Labels: label.Of("user", "u3", "creator", "IDE")},
		"host, user and creator": {HostID: "h1", Labels: label.Of("user", "u6", "creator", "IDE")},
		"nobody":                 {Labels: label.Of("user", "nobody")},
		"nobody's IDE":           {HostID: "h2", Labels: label.Of("user", "nobody", "creator", "IDE")},
	}
	short := make(map[string]int)
	for _, n := range []int{4200, 42_000} { // the same at the end: past repeats itself after 420
		s, epoch := leading(t, fresh(t))
		past(t, s, epoch, n)
		index(t, s, epoch, math.MaxInt64, 5000)
		for name, query := range queries {
			query.PageSize = 10
			rows, found := looked(s, query)
			if nobody := query.Labels.Value("user") == "nobody"; nobody != (found == 0) {
				t.Errorf("%d: %s: found %d", n, name, found)
			}
			if before, again := short[name]; again && rows > before {
				t.Errorf("%s: %d rows and entries of the long history were read, %d of the short one", name, rows, before)
			}
			short[name] = rows
		}
	}
	t.Log(short)
}
