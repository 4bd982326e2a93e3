package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/label"
)

// walk reads all pages and returns the ids, and the number of pages.
func walk(t *testing.T, s store.Store, query store.HistoryQuery) (found []ledger.ID, pages int) {
	t.Helper()
	for {
		page, next, err := s.History(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) > query.Size() {
			t.Fatalf("%d in a page of %d", len(page), query.Size())
		}
		for i := range page {
			found = append(found, page[i].ID)
		}
		pages++
		if next == "" {
			return found, pages
		}
		query.PageToken = next
	}
}

// past commits n ended allocations, and as many live ones, at most 30. Every third allocation ended
// at the same time as the one before.
func past(t *testing.T, s store.Store, epoch uint64, n int) []ledger.Allocation {
	t.Helper()
	var c ledger.Changes
	var list []ledger.Allocation
	ends := []ledger.State{ledger.Released, ledger.Expired, ledger.Canceled, ledger.Lost}
	for i := range n {
		a := Typical(ledger.ID(i+1), ends[i%len(ends)], uint64(i))
		a.Ended = ledger.Instant(1000 + i - i%3)
		a.HostID = fmt.Sprintf("h%d", i%5)
		a.Labels = label.Of("user", fmt.Sprintf("u%d", i%7))
		if i%2 == 0 {
			a.Labels = a.Labels.With("creator", "IDE")
		}
		if i%4 > 0 {
			a.Start = &ledger.Start{Name: []string{"", "nightly"}[i%2], Phase: ledger.Phase(i % 4), PhaseSince: 7}
		}
		list = append(list, a)
		c.Transitions = append(c.Transitions, a)
		if i < 30 {
			c.Transitions = append(c.Transitions, Typical(ledger.ID(i+n+1), ledger.Active, uint64(i)))
		}
	}
	c.Revision = 1
	commit(t, s, epoch, c)
	slices.SortStableFunc(list, func(a, b ledger.Allocation) int {
		return store.Position{Ended: b.Ended, ID: b.ID}.Compare(store.Position{Ended: a.Ended, ID: a.ID})
	})
	return list
}

func testHistory(t *testing.T, open Opener) {
	s, epoch := leading(t, open)
	list := past(t, s, epoch, 250)
	prefix := list[17].ID.String()[:2]
	for _, query := range []store.HistoryQuery{
		{},
		{PageSize: 1},
		{PageSize: 250},
		{PageSize: 249},
		{HostID: "h2", PageSize: 10},
		{HostID: "nowhere"},
		{States: []ledger.State{ledger.Lost, ledger.Expired}, PageSize: 50},
		{Labels: label.Of("user", "u3")},
		{Labels: label.Of("user", "*", "creator", "*"), PageSize: 7},
		{Labels: label.Of("creator", "IDE"), HostID: "h0", States: []ledger.State{ledger.Released}},
		{Name: "nightly", PageSize: 3},
		{Phases: []ledger.Phase{ledger.Failed, ledger.Starting}},
		{Name: "nightly", Phases: []ledger.Phase{ledger.Ready}},
		{IDPrefix: prefix},
		{IDPrefix: list[3].ID.String()},
		{PageSize: 1 << 20},
	} {
		var want []ledger.ID
		for i := range list {
			a := &list[i]
			if (query.HostID == "" || query.HostID == a.HostID) && (query.States == nil || slices.Contains(query.States, a.State)) &&
				(query.Phases == nil || slices.Contains(query.Phases, a.Phase())) && (query.Name == "" || query.Name == a.Name()) &&
				a.Labels.MatchesFilter(query.Labels) && a.ID.String()[:len(query.IDPrefix)] == query.IDPrefix {
				want = append(want, a.ID)
			}
		}
		got, pages := walk(t, s, query)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", query, diff)
		}
		if most := len(want)/query.Size() + 1; pages > most {
			t.Errorf("%+v: %d pages for %d", query, pages, len(want))
		}
	}
}

// testSparseHistory searches a long history for one allocation at its far end, and for a missing
// one.
func testSparseHistory(t *testing.T, open Opener) {
	s, epoch := leading(t, open)
	list := past(t, s, epoch, 6000)
	oldest := list[len(list)-1].ID
	got, _ := walk(t, s, store.HistoryQuery{IDPrefix: oldest.String()})
	if diff := cmp.Diff([]ledger.ID{oldest}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, _ := walk(t, s, store.HistoryQuery{Labels: label.Of("user", "nobody")}); len(got) != 0 {
		t.Errorf("found %v", got)
	}
}

func testBadToken(t *testing.T, open Opener) {
	s, epoch := leading(t, open)
	past(t, s, epoch, 3)
	for _, token := range []string{"x", "????", "AAAA", "AAAAAAAAAAAAAAAAAAAAAA==", "AAAAAAAAAAAAAAAAAAAAAB", "AAAAAAAAAAAAAAAAAAAAAAAA"} {
		_, _, err := s.History(t.Context(), store.HistoryQuery{PageToken: token})
		wantError(t, err, store.ErrBadToken)
	}
}

func testCharged(t *testing.T, open Opener) {
	s, epoch := leading(t, open)
	var c ledger.Changes
	var want []string
	for i, row := range []struct {
		caller        string
		subordinate   bool
		user, charged string
	}{
		{"alice@h1", false, "alice", "alice@h1"},
		{"100007@h1", true, "alice", "alice@h1"},
		{"uid:100007@h1", true, "alice", "alice@h1"},
		{"local:100007", true, "alice", "local:alice"},
		{"local:uid:100007", true, "alice", "local:alice"},
		{"100007@h1", false, "100007", "100007@h1"}, // its agent does not know the owner
		{"1st-etl", false, "alice", "1st-etl"},
	} {
		a := Typical(ledger.ID(i+1), ledger.Released, uint64(i))
		a.Ended, a.Caller, a.Subordinate, a.Labels = ledger.Instant(1000+i), row.caller, row.subordinate, label.Of("user", row.user)
		c.Transitions, want = append(c.Transitions, a), append(want, row.charged)
	}
	c.Revision = 1
	commit(t, s, epoch, c)
	ends, err := s.Ends(t.Context(), store.Position{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range ends {
		got = append(got, ends[i].Caller)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// A repeat belongs to its caller only.
	id := c.Transitions[3]
	if _, err := s.GetByRequest(t.Context(), id.Caller, id.RequestID); err != nil {
		t.Error(err)
	}
	_, err = s.GetByRequest(t.Context(), id.Payer(), id.RequestID)
	wantError(t, err, store.ErrNotFound)
}

func testDelete(t *testing.T, open Opener) {
	s, epoch := leading(t, open)
	list := past(t, s, epoch, 30) // end between 1000 and 1027
	slices.Reverse(list)
	const steps, size = 3, 4
	var after store.Position
	for step := range steps {
		found, err := s.Ends(t.Context(), after, size)
		if err != nil || len(found) != size {
			t.Fatalf("%d ends, %v", len(found), err)
		}
		var places []store.Position
		for i := range found {
			a := &list[step*size+i]
			payload, err := store.AppendAllocation(nil, a)
			if err != nil {
				t.Fatal(err)
			}
			want := store.End{
				Position: store.Position{Ended: a.Ended, ID: a.ID}, Caller: a.Caller,
				Bytes: int64(len(payload) + 2*(len(a.Caller)+len(a.RequestID)) + len(a.HostID) + store.RowOverhead),
			}
			if diff := cmp.Diff(want, found[i]); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
			places = append(places, found[i].Position)
			after = found[i].Position
		}
		// One twice, one that has ended at another time, and one that is live.
		places = append(places, places[0], store.Position{Ended: 5, ID: list[29].ID}, store.Position{ID: 31}, store.Position{Ended: 1000, ID: 31})
		if n, err := s.Delete(t.Context(), places); err != nil || n != size {
			t.Fatalf("deleted %d, %v; want %d", n, err, size)
		}
	}
	var want []ledger.ID
	for _, a := range slices.Backward(list[steps*size:]) {
		want = append(want, a.ID)
	}
	got, _ := walk(t, s, store.HistoryQuery{})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	snapshot, err := s.Load(t.Context(), epoch, time.Time{}, nil)
	if err != nil || len(snapshot.Allocations) != 30 || len(snapshot.Remembered) != len(want) {
		t.Errorf("%d live, %d remembered, %v; want 30 and %d", len(snapshot.Allocations), len(snapshot.Remembered), err, len(want))
	}
	if rest, err := s.Ends(t.Context(), store.Position{Ended: list[29].Ended, ID: list[29].ID}, size); err != nil || len(rest) != 0 {
		t.Errorf("behind the last: %v, %v", rest, err)
	}
	if n, err := s.Delete(t.Context(), nil); err != nil || n != 0 {
		t.Errorf("deleted %d of none, %v", n, err)
	}
}
