package postgres

import (
	"math"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
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
			search := historySearch{query: &query, conn: conn, at: store.Position{Ended: math.MaxInt64}}
			err := search.run(t.Context())
			rows, found = search.looked, len(search.page)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return rows, found
	})
}
