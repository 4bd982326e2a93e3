package store

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/bursar/bursar/coordinator/ledger"
)

// Column is a column of a row in the database's form: an int64, a string, or []byte. Invalid text
// is []byte; a number that is not whole is a string.
type Column struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
}

// AsideRow is a complete row that was set aside.
type AsideRow struct {
	Table   string   `json:"table"`
	Columns []Column `json:"columns"`
}

// Aside is a store from which an unreadable row can be set aside. Such a row keeps every
// coordinator from leading.
type Aside interface {
	Store

	// SetAside removes a row from the store, whatever it holds. With a host's row it removes the
	// live allocations on the host, which cannot be restored without it. It first passes all of
	// them to keep: if that fails, it changes nothing. It raises the epoch in the same step, so
	// that the present leader is deposed and loads again. table is one of Tables, and key the key
	// of a RowError. ErrNotFound: there is no such row.
	SetAside(ctx context.Context, table, key string, keep func([]AsideRow) error) (Meta, error)
}

// Tables are the tables from whose rows a ledger is rebuilt, and the table of refused commands.
func Tables() []string {
	return []string{AllocationTable, HostTable, QuotaTable, ProviderTable, RefusalTable}
}

// AsideWhere is a table with the condition that finds rows in it. Its placeholder, %s, is for
// Value.
type AsideWhere struct {
	Table, Condition string
	Value            any
}

// onHost finds the live allocations that cannot be restored without a host.
const onHost = "ended = 0 AND (host_id = %s OR host_id <> '' AND host_id NOT IN (SELECT id FROM host))"

// AsideRows finds the rows that are set aside together; the named row is first. held is the key in
// the form of the column. It finds an allocation by its id. With a host, it also sets aside live
// allocations whose host has no row: if the id in a host's row is garbage, its allocations have no
// host. The error is about the table or the key.
func AsideRows(table, key string, held any) ([]AsideWhere, error) {
	switch table {
	case AllocationTable:
		id, err := ledger.ParseID(key)
		if err != nil {
			return nil, fmt.Errorf("key: %q: want the whole id of an allocation", key)
		}
		return []AsideWhere{{table, "id = %s", Signed(uint64(id))}}, nil
	case HostTable:
		return []AsideWhere{{table, "id = %s", held}, {AllocationTable, onHost, held}}, nil
	case QuotaTable:
		return []AsideWhere{{table, "selector = %s", held}}, nil
	case RefusalTable:
		return []AsideWhere{{table, "id = %s", held}}, nil
	case ProviderTable:
		return []AsideWhere{{table, "name = %s", held}}, nil
	}
	return nil, fmt.Errorf("table: %q: want one of %q", table, Tables())
}

// Select returns the SELECT statement, with the database's own placeholder.
func (w AsideWhere) Select(placeholder string) string {
	return "SELECT * FROM " + w.Table + " WHERE " + fmt.Sprintf(w.Condition, placeholder) //nolint:unqueryvet // all columns that there are, whichever version made them
}

// Delete returns the matching DELETE statement.
func (w AsideWhere) Delete(placeholder string) string {
	return "DELETE FROM " + w.Table + " WHERE " + fmt.Sprintf(w.Condition, placeholder)
}

// Row makes a row from the database's values, which it copies.
func (w AsideWhere) Row(names []string, values []any) AsideRow {
	row := AsideRow{Table: w.Table}
	for i, name := range names {
		value := values[i]
		switch v := value.(type) {
		case []byte:
			value = slices.Clone(v)
		case int16:
			value = int64(v)
		case string:
			if !utf8.ValidString(v) {
				value = []byte(v) // JSON has no such text
			}
		case float64:
			value = strconv.FormatFloat(v, 'g', -1, 64) // nor infinities
		}
		row.Columns = append(row.Columns, Column{name, value})
	}
	return row
}
