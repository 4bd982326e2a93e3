package postgres

import (
	"math"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/label"
)

func TestALateEndIsFound(t *testing.T) {
	s := opened(t, emptySchema(t))
	storetest.Late(t, s, func(epoch uint64, between func()) {
		next, err := s.nextToIndex(t.Context(), epoch, math.MaxInt64, 100)
		if err != nil {
			t.Fatal(err)
		}
		between()
		if err := s.addToIndex(t.Context(), epoch, next); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAPageReadsTheSameOfAnyHistory(t *testing.T) {
	storetest.Pages(t, fresh, func(s store.Store, query store.HistoryQuery) (rows, found int) {
		own, _ := s.(*Store)
		err := own.read(t.Context(), "a page", func(conn *pgx.Conn) error {
			search, err := store.NewHistorySearch(&query)
			if err == nil {
				err = search.Run(&historyReads{search, t.Context(), conn})
			}
			rows, found = store.MostLooked+1-search.Limit(), len(search.Page)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return rows, found
	})
}

// A coordinator of the version before the index may lead after one that fills it, while both run.
// It keeps the rest of meta as it is.
func TestWhatAnOlderVersionHasEndedIsFound(t *testing.T) {
	s := opened(t, emptySchema(t))
	lead := func() uint64 {
		t.Helper()
		meta, err := s.Lead(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		return meta.Epoch
	}
	commit := func(epoch, sequence uint64, list ...ledger.Allocation) {
		t.Helper()
		if err := s.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: ledger.Changes{Revision: sequence, LastID: 99, Transitions: list}}); err != nil {
			t.Fatal(err)
		}
	}
	ended := func(id ledger.ID, user string, at ledger.Instant) ledger.Allocation {
		a := storetest.Typical(id, ledger.Released, uint64(id))
		a.Labels, a.Ended = label.Of("user", user), at
		return a
	}
	place := func() (end, id int64) {
		t.Helper()
		err := s.read(t.Context(), "place", func(conn *pgx.Conn) error {
			return conn.QueryRow(t.Context(), indexedSQL).Scan(&end, &id)
		})
		if err != nil {
			t.Fatal(err)
		}
		return end, id
	}
	epoch := lead()
	commit(epoch, 1, ended(1, "alice", 1000), ended(2, "alice", 3000))
	if _, err := s.IndexHistory(t.Context(), epoch, math.MaxInt64, 100); err != nil {
		t.Fatal(err)
	}
	end, id := place()
	if end != 3000 {
		t.Fatalf("the test is wrong: the index goes up to %d", end)
	}
	epoch = lead()
	if again, _ := place(); again != end {
		t.Errorf("a new leader fills the index again from %d; want from %d on", again, end)
	}
	commit(epoch, 2, ended(3, "bob", 2000))
	err := s.writer.use(t.Context(), false, func(conn *pgx.Conn) error { // which the older version would not have changed
		_, err := conn.Exec(t.Context(), `UPDATE meta SET indexed_end = $1, indexed_id = $2, indexed_sequence = 1`, end, id)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	lead()
	list, _, err := s.History(t.Context(), store.HistoryQuery{Labels: label.Of("user", "bob"), PageSize: 10})
	if err != nil || len(list) != 1 {
		t.Errorf("found %v, %v; want what bob had", list, err)
	}
}
