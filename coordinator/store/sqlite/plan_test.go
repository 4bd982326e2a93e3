package sqlite

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/bursar/bursar/coordinator/store"
)

// No query visits rows outside its result: SQLite finds them by an index, in the wanted order.
func TestQueriesUseIndexes(t *testing.T) {
	s := at(t, filepath.Join(t.TempDir(), "bursar.db"))
	defer s.Close()
	fill(t, s, 100)
	for others := range store.MostTerms {
		args := make([]any, others+4)
		for i := range args {
			args[i] = 1
		}
		explain(t, s, foundSQL(others), args)
	}
	for query, args := range map[string][]any{
		toIndexSQL:        {1, 1, 1, 1},
		rareSQL:           {1, 1, 1, 1},
		nextEntrySQL:      {1, 1, 1},
		deleteEntrySQL:    {1, 1, 1},
		getSQL:            {1},
		getByRequestSQL:   {"r", "c"},
		rememberedSQL:     {1, 1, 1, 1},
		rememberedOfSQL:   {"r", "c"},
		historySQL:        {1, 1, 1},
		countLiveSQL:      nil,
		loadLiveSQL:       nil,
		loadRememberedSQL: {1},
		loadStraysSQL:     nil,
		endsSQL:           {1, 1, 1},
		deleteSQL:         {1, 1},
	} {
		explain(t, s, query, args)
	}
}

func explain(t *testing.T, s *Store, query string, args []any) {
	t.Helper()
	rows, err := s.reading.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(step, "SCAN") || strings.Contains(step, "TEMP B-TREE") {
			t.Errorf("%s\n%s", query, step)
		}
		t.Log(step)
	}
	if err := rows.Err(); err != nil {
		t.Error(err)
	}
}
