package sqlite

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
)

func TestALateEndIsFound(t *testing.T) {
	s := at(t, filepath.Join(t.TempDir(), "bursar.db"))
	defer s.Close()
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
		search, err := store.NewHistorySearch(&query)
		if err == nil {
			err = search.Run(&historyReads{search, t.Context(), &own.reads})
		}
		if err != nil {
			t.Fatal(err)
		}
		return store.MostLooked + 1 - search.Limit(), len(search.Page)
	})
}
