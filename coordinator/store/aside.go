package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/bursar/bursar/coordinator/ledger"
)

// Column is one of a row's, as the database has it: an int64, a string, or []byte.
type Column struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
}

// AsideRow is a row that was set aside, whole.
type AsideRow struct {
	Table   string   `json:"table"`
	Columns []Column `json:"columns"`
}

// Aside is a store of which a row can be set aside that nobody can read, and which keeps every coordinator from leading.
type Aside interface {
	Store

	// SetAside takes a row out of the store, whatever it holds, and with a host's the live allocations on it, which cannot be restored without
	// their host. It first gives them all to keep: where that fails nothing is changed. The epoch is raised in the same step, so that whoever
	// led until now is deposed and loads again. table is one of Tables, and key the one that a RowError tells. ErrNotFound: there is no
	// such row.
	SetAside(ctx context.Context, table, key string, keep func([]AsideRow) error) (Meta, error)
}

// Tables are those whose rows a ledger is rebuilt from, and that of the commands that are refused.
func Tables() []string {
	return []string{AllocationTable, HostTable, QuotaTable, ProviderTable, RefusalTable}
}

// AsideWhere is a table with the condition that finds rows in it. Its placeholder, %s, is for Value.
type AsideWhere struct {
	Table, Condition string
	Value            any
}

// AsideRows finds the rows that are set aside together, the one that was named first. escape makes a text what the database holds for it. The
// error says what is wrong with the table or the key.
func AsideRows(table, key string, escape func(string) string) ([]AsideWhere, error) {
	switch table {
	case AllocationTable:
		id, err := ledger.ParseID(key)
		if err != nil {
			return nil, fmt.Errorf("key: %q: want the whole id of an allocation", key)
		}
		return []AsideWhere{{table, "id = %s", Signed(uint64(id))}}, nil
	case HostTable:
		return []AsideWhere{{table, "id = %s", escape(key)}, {AllocationTable, "ended = 0 AND host_id = %s", escape(key)}}, nil
	case QuotaTable:
		return []AsideWhere{{table, "selector = %s", escape(key)}}, nil
	case RefusalTable:
		return []AsideWhere{{table, "id = %s", escape(key)}}, nil
	case ProviderTable:
		return []AsideWhere{{table, "name = %s", escape(key)}}, nil
	}
	return nil, fmt.Errorf("table: %q: want one of %q", table, Tables())
}

// Select and Delete are the statements, with the database's own placeholder.
func (w AsideWhere) Select(placeholder string) string {
	return "SELECT * FROM " + w.Table + " WHERE " + fmt.Sprintf(w.Condition, placeholder) //nolint:unqueryvet // all columns that there are, whichever version made them
}

// Delete is Select's counterpart.
func (w AsideWhere) Delete(placeholder string) string {
	return "DELETE FROM " + w.Table + " WHERE " + fmt.Sprintf(w.Condition, placeholder)
}

// Row makes a row of what the database gave, in memory of its own.
func (w AsideWhere) Row(names []string, values []any) AsideRow {
	row := AsideRow{Table: w.Table}
	for i, name := range names {
		value := values[i]
		switch v := value.(type) {
		case []byte:
			value = slices.Clone(v)
		case int16:
			value = int64(v)
		}
		row.Columns = append(row.Columns, Column{name, value})
	}
	return row
}
