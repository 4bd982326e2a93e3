package storetest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/placement"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/label"
)

// Columns puts garbage into each column of each table from which a ledger is rebuilt. It tests that
// the ledger is still rebuilt, or that the error names a row, and that the ledger is rebuilt after
// that row was set aside. columns returns the columns of a table. Each of values, in SQL, is put
// into each column; values that the database does not accept are skipped.
func Columns(t *testing.T, s store.Store, columns func(table string) []string, values []string, execute func(statement string) error) {
	t.Helper()
	tried := 0
	for _, table := range store.Tables() {
		names := columns(table)
		if len(names) < 2 {
			t.Errorf("table %s has columns %q", table, names)
		}
		conditions := []string{"1 = 1"}
		if table == store.AllocationTable {
			conditions = []string{"id = 7", "id = 8", "id = 9", "id = 10"}
		}
		for _, column := range names {
			for _, value := range values {
				for _, where := range conditions {
					statement := "UPDATE " + table + " SET " + column + " = " + value + " WHERE " + where
					refill(t, s, execute)
					if execute(statement) == nil {
						tried++
						leads(t, s, statement)
					}
				}
			}
		}
	}
	if tried < 100 {
		t.Errorf("the database took %d values", tried)
	}
}

// refill writes a row of each kind, and one allocation in each state that a column can have.
func refill(t *testing.T, s store.Store, execute func(string) error) {
	t.Helper()
	for _, table := range store.Tables() {
		if err := execute("DELETE FROM " + table); err != nil {
			t.Fatal(err)
		}
	}
	selector, err := label.ParseSelector("user=alice")
	if err != nil {
		t.Fatal(err)
	}
	waiting, forgotten := Typical(8, ledger.Waiting, 8), Typical(10, ledger.Released, 10)
	waiting.HostID, forgotten.Forget = "", true
	err = s.Commit(t.Context(), store.Batch{Epoch: lead(t, s, 0).Epoch, Changes: ledger.Changes{
		Revision: 10, LastID: 10,
		Transitions: []ledger.Allocation{Typical(7, ledger.Active, 7), waiting, Typical(9, ledger.Released, 9), forgotten},
		Hosts:       []ledger.HostRecord{{ID: "host-0123.example.org"}},
		Quotas:      []ledger.Quota{{Selector: selector}},
		Providers:   []ledger.ProviderRecord{{ClusterName: ledger.ClusterName{Kind: "yarn", Cluster: "prod"}, Default: true}},
		Refusals:    []ledger.Refusal{{Hash: [32]byte{1}, At: 1, Version: "1"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// leads tests that a ledger can be rebuilt once the rows that errors name are set aside.
func leads(t *testing.T, s store.Store, garbage string) {
	t.Helper()
	aside, _ := s.(store.Aside)
	for range 2 {
		err := rebuild(t, s)
		if err == nil {
			return
		}
		table, key := "", ""
		if row, named := errors.AsType[*store.RowError](err); named {
			table, key = row.Table, row.Key
		}
		if row, named := errors.AsType[*ledger.RestoreError](err); named {
			table, key = row.What, row.ID
		}
		if !strings.Contains(garbage, " "+table+" ") {
			t.Errorf("%s: %v: want it to name the row", garbage, err)
			return
		}
		keep := func(rows []store.AsideRow) error {
			if !slices.ContainsFunc(rows, func(r store.AsideRow) bool { return r.Table == table }) {
				t.Errorf("%s: kept %+v", garbage, rows)
			}
			return nil
		}
		if _, wrong := aside.SetAside(t.Context(), table, key, keep); wrong != nil {
			t.Errorf("%s: %v: %v", garbage, err, wrong)
			return
		}
	}
	t.Errorf("%s: nobody leads after one row was set aside: %v", garbage, rebuild(t, s))
}

// rebuild does the work of a coordinator that begins to lead.
func rebuild(t *testing.T, s store.Store) error {
	t.Helper()
	snapshot, err := s.Load(t.Context(), lead(t, s, 0).Epoch, time.Time{}, nil)
	if err != nil {
		return err //nolint:wrapcheck // names the row
	}
	restored := ledger.New(ledger.Config{}, placement.New(placement.Spread))
	return restored.Restore(ledger.At(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)), snapshot) //nolint:wrapcheck // as above
}
