package postgres

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/bursar/bursar/coordinator/store"
)

// planRows is the number of allocations for the plans; one of each hundred is live.
const planRows = 100_000

// filledForPlans makes a table of a month's history, with or without the server's statistics.
func filledForPlans(t *testing.T, analyzed bool) *pgx.Conn {
	t.Helper()
	dsn := emptySchema(t)
	fill(t, opened(t, dsn), 1)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	if _, err := conn.Exec(t.Context(), sessionSQL, pgx.QueryExecModeExec, "plans"); err != nil {
		t.Fatal(err)
	}
	const insert = `INSERT INTO allocation (id, state, ended, host_id, caller, request_id, request_hash, forget, payload)
 SELECT i, 3, CASE WHEN i % 100 = 0 THEN 0 ELSE i * 25920000000 END, 'h' || i % 100, 'agent:h' || i % 100,
 CASE WHEN i % 10 = 0 THEN '' ELSE 'r' || i END, i, 0, decode(repeat(md5(i::text), 18), 'hex') FROM generate_series(2, $1::bigint) AS i`
	if _, err := conn.Exec(t.Context(), insert, planRows); err != nil {
		t.Fatal(err)
	}
	// a term for each host, one that all have, and 50 others
	const entries = `INSERT INTO history_index (term, ended, id) SELECT t.term, ended, id FROM allocation,
 LATERAL (VALUES (id % 100), (1000), (2000 + id % 50)) AS t (term) WHERE ended > 0`
	if _, err := conn.Exec(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
	if !analyzed {
		return conn
	}
	if _, err := conn.Exec(t.Context(), "VACUUM ANALYZE allocation, history_index"); err != nil {
		t.Fatal(err)
	}
	return conn
}

// No query visits rows outside its result: the server finds them by an index, in the wanted order.
// It may make one plan for all parameters after five plans for given ones, so each statement is
// executed more often than that.
func TestQueriesUseIndexes(t *testing.T) {
	testPlans(t, filledForPlans(t, true), "")
}

// The index of the history is used even without the server's statistics: a search that sorts all
// allocations of a host works for a short history, and not for a long one.
func TestTheIndexOfTheHistoryIsUsedBeforeAnAnalyze(t *testing.T) {
	testPlans(t, filledForPlans(t, false), "history_index_pkey")
}

// testPlans tests the plans of all queries, or only of those that use an index.
func testPlans(t *testing.T, conn *pgx.Conn, only string) {
	t.Helper()
	const (
		tick      = 25_920_000_000 // between two ends, for thirty days
		lastDay   = planRows / 30 * 29 * tick
		firstHour = planRows / 720 * tick
	)
	for name, c := range map[string]struct {
		query   string
		args    []any
		indexes []string // all that are used
	}{
		"get":                      {getSQL, []any{4711}, []string{"allocation_pkey"}},
		"get by request":           {getByRequestSQL, []any{"'r4711'", "'agent:h11'"}, []string{"allocation_by_request"}},
		"history, first page":      {historySQL, []any{math.MaxInt64, 0, 0, 0, 101}, []string{"allocation_by_end"}},
		"history, page in middle":  {historySQL, []any{planRows / 2 * tick, planRows / 2, 0, 0, 101}, []string{"allocation_by_end"}},
		"history, search":          {historySQL, []any{math.MaxInt64, 0, 0, 0, store.MostLooked}, []string{"allocation_by_end"}},
		"count of the live":        {countLiveSQL, nil, []string{"allocation_by_end"}},
		"load of the live":         {loadLiveSQL, nil, []string{"allocation_by_end"}},
		"request ids of a day":     {loadRememberedSQL, []any{lastDay}, []string{"allocation_by_end"}},
		"strays":                   {loadStraysSQL, nil, []string{"allocation_by_end"}},
		"history, not indexed yet": {historySQL, []any{math.MaxInt64, 0, lastDay, 5, 101}, []string{"allocation_by_end"}},
		"rows to index":            {toIndexSQL, []any{math.MaxInt64, lastDay, 5, 500}, []string{"allocation_by_end"}},
		"by a host":                {foundSQL, []any{"'{}'", 7, math.MaxInt64, 0, 101}, []string{"allocation_pkey", "history_index_pkey"}},
		"by a host and labels":     {foundSQL, []any{"'{1000,2000}'", 7, lastDay, 5, 101}, []string{"allocation_pkey", "history_index_pkey"}},
		"by a long search":         {foundSQL, []any{"'{1000}'", 7, math.MaxInt64, 0, store.MostLooked + 1}, []string{"allocation_pkey", "history_index_pkey"}},
		"how rare a term is":       {rareSQL, []any{7, math.MaxInt64, 0, store.RareAfter}, []string{"history_index_pkey"}},
		"next entry":               {nextEntrySQL, []any{7, math.MaxInt64, math.MaxInt64}, []string{"allocation_by_end", "history_index_pkey"}},
		"entries deleted":          {deleteEntriesSQL, []any{"'{7}'", "'{1}'", "'{1}'"}, []string{"history_index_pkey"}},
		"ends, the oldest":         {endsSQL, []any{0, 0, 1000}, []string{"allocation_by_end"}},
		"ends, in the middle":      {endsSQL, []any{lastDay, 5, 1000}, []string{"allocation_by_end"}},
		"request ids, first page":  {rememberedSQL, []any{math.MaxInt64, math.MaxInt64, lastDay, 4096}, []string{"allocation_by_end"}},
		"request ids, next page":   {rememberedSQL, []any{planRows / 60 * 59 * tick, 7, lastDay, 4096}, []string{"allocation_by_end"}},
		"a request id":             {rememberedOfSQL, []any{"'r4711'", "'agent:h11'"}, []string{"allocation_by_request"}},
	} {
		if only != "" && !slices.Contains(c.indexes, only) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			prepare(t, conn, c.query)
			var plan string
			for range 8 {
				plan = explain(t, conn, c.args)
				var used []string
				for _, scan := range regexp.MustCompile(`Scan.* using (\w+)`).FindAllStringSubmatch(plan, -1) {
					used = append(used, scan[1])
				}
				slices.Sort(used)
				all := regexp.MustCompile(`Seq Scan|Bitmap`).MatchString(plan)
				// but for the few rows of one request
				sorts := strings.Contains(plan, "Sort Key") && c.query != getByRequestSQL && c.query != rememberedOfSQL
				if !slices.Equal(slices.Compact(used), c.indexes) || all || sorts {
					t.Fatalf("%s\n%s", c.query, plan)
				}
			}
			t.Log(plan)
		})
	}
}

// prepare prepares a statement for explain, and replaces the previous one.
func prepare(t *testing.T, conn *pgx.Conn, query string) {
	t.Helper()
	for _, statement := range []string{"DEALLOCATE ALL", "PREPARE plan AS " + query} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
}

// explain shows the plan of the next execution of the prepared statement.
func explain(t *testing.T, conn *pgx.Conn, args []any) string {
	t.Helper()
	execute := "EXPLAIN EXECUTE plan"
	if len(args) > 0 {
		var list []string
		for _, arg := range args {
			list = append(list, fmt.Sprint(arg))
		}
		execute += " (" + strings.Join(list, ", ") + ")"
	}
	found, err := conn.Query(t.Context(), execute, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}
