package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
)

// Any value of each column's type, including NULL, in case a user has dropped that constraint.
func TestGarbageInAnyColumnKeepsNobodyFromLeading(t *testing.T) {
	s := opened(t, emptySchema(t))
	execute := func(statement string) error {
		return s.writer.use(t.Context(), false, func(conn *pgx.Conn) error {
			_, err := conn.Exec(t.Context(), statement)
			return err
		})
	}
	names := make(map[string][]string)
	for _, table := range store.Tables() {
		err := s.writer.use(t.Context(), false, func(conn *pgx.Conn) error {
			const query = `SELECT attname::text FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped`
			rows, err := conn.Query(t.Context(), query, table)
			if err != nil {
				return err
			}
			names[table], err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, column := range names[table] {
			if column != "selector" { // a key, which PostgreSQL never lets be NULL
				_ = execute("ALTER TABLE " + table + " ALTER COLUMN " + column + " DROP NOT NULL")
			}
		}
	}
	values := []string{
		"NULL", "'x'", "''", `'a\b'`, `E'\x01'`, `'\xff00'`, "0", "-7", "32767", "9223372036854775807", "-9223372036854775808",
	}
	storetest.Columns(t, s, func(table string) []string { return names[table] }, values, execute)
}
