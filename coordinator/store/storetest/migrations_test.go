package storetest

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestMigrationsThatStopTheVersionBeforeAreFound(t *testing.T) {
	const first = "-- +goose Up\nCREATE TABLE meta (one SMALLINT NOT NULL UNIQUE);\n"
	for statement, fine := range map[string]bool{
		"CREATE TABLE provider (name TEXT NOT NULL PRIMARY KEY)":          true,
		"CREATE INDEX by_end ON allocation (ended, id)":                   true,
		"ALTER TABLE meta ADD COLUMN note TEXT":                           true,
		"ALTER TABLE meta\n  ADD COLUMN time BIGINT NOT NULL DEFAULT 0":   true,
		"ALTER TABLE meta ADD COLUMN note TEXT NOT NULL DEFAULT ''":       true,
		"PRAGMA user_version = 4":                                         true,
		"ALTER TABLE meta ADD COLUMN note TEXT NOT NULL":                  false,
		"ALTER TABLE meta ADD COLUMN note TEXT DEFAULT '' CHECK (note>1)": false,
		"ALTER TABLE meta ADD COLUMN note TEXT UNIQUE":                    false,
		"ALTER TABLE meta DROP COLUMN epoch":                              false,
		"ALTER TABLE meta RENAME COLUMN epoch TO term":                    false,
		"ALTER TABLE meta ALTER COLUMN epoch TYPE TEXT":                   false,
		"ALTER TABLE meta ADD CONSTRAINT c CHECK (epoch > 0)":             false,
		"CREATE UNIQUE INDEX by_request ON allocation (request_id)":       false,
		"DROP TABLE quota":          false,
		"UPDATE meta SET epoch = 0": false,
		"DELETE FROM quota":         false,
	} {
		err := CheckAdditions(fstest.MapFS{
			"00001_tables.sql": {Data: []byte(first)},
			"00002_more.sql":   {Data: []byte("-- DROP TABLE meta;\n-- +goose Up\nCREATE TABLE more (a TEXT); -- what\n" + statement + ";\n")},
		})
		if fine != (err == nil) || !fine && !strings.Contains(err.Error(), "00002_more.sql") {
			t.Errorf("%s: %v", statement, err)
		}
	}
	if err := CheckAdditions(fstest.MapFS{}); err == nil {
		t.Error("no migrations are fine")
	}
}
