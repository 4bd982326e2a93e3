package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
)

// administer runs a statement as an administrator does.
func administer(t *testing.T, s *Store, statement string) error {
	t.Helper()
	_, err := s.do(t.Context(), func(ctx context.Context, w *writer) error {
		return w.transaction(ctx, func() error {
			_, err := w.conn.ExecContext(ctx, statement)
			return err
		})
	})
	return err
}

func TestGarbageInAnyColumnKeepsNobodyFromLeading(t *testing.T) {
	s := at(t, filepath.Join(t.TempDir(), "bursar.db"))
	defer s.Close()
	columns := func(table string) (names []string) {
		rows, err := s.reading.QueryContext(t.Context(), "SELECT name FROM pragma_table_info('"+table+"')")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return names
	}
	values := []string{
		"NULL", "'x'", "''", "'a' || char(0) || 'b'", "CAST(X'ff' AS TEXT)", "X''", "X'ff00'", "X'686f7374'", "5.5", "9e999",
		"0", "-7", "70000", "9223372036854775807", "-9223372036854775808",
	}
	storetest.Columns(t, s, columns, values, func(statement string) error { return administer(t, s, statement) })
}

// A key of bytes is not the text with the same bytes: that row stays.
func TestAKeyOfBytesIsSetAsideNotTheTextLikeIt(t *testing.T) {
	s, meta := carrying(t, filepath.Join(t.TempDir(), "bursar.db"), 64)
	defer s.Close()
	host := ledger.HostRecord{ID: "vm", Address: "right"}
	if err := s.Commit(t.Context(), store.Batch{Epoch: meta.Epoch, Changes: ledger.Changes{Revision: 1, Hosts: []ledger.HostRecord{host}}}); err != nil {
		t.Fatal(err)
	}
	if err := administer(t, s, "INSERT INTO host SELECT CAST(id AS BLOB), payload FROM host"); err != nil {
		t.Fatal(err)
	}
	_, err := s.Load(t.Context(), meta.Epoch, time.Time{}, nil)
	row, named := errors.AsType[*store.RowError](err)
	if !named || row.Table != store.HostTable || row.Key != "vm" {
		t.Fatalf("%v; want the host named", err)
	}
	meta, err = s.SetAside(t.Context(), row.Table, row.Key, func(rows []store.AsideRow) error {
		if key, isBytes := rows[0].Columns[0].Value.([]byte); len(rows) != 1 || !isBytes || string(key) != "vm" {
			t.Errorf("set aside: %+v", rows)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if left, err := s.Load(t.Context(), meta.Epoch, time.Time{}, nil); err != nil || len(left.Hosts) != 1 || left.Hosts[0].Address != "right" {
		t.Errorf("%+v, %v; want the other one", left.Hosts, err)
	}
}

// If the columns of an ended allocation cannot be read, its payload is used, and that is logged.
func TestARequestIDIsRememberedFromThePayload(t *testing.T) {
	var said bytes.Buffer
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "bursar.db"), Options{Log: slog.New(slog.NewTextHandler(&said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	meta, err := s.Lead(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	ended, live := storetest.Typical(1, ledger.Released, 1), storetest.Typical(2, ledger.Active, 2)
	if err := s.Commit(t.Context(), store.Batch{Epoch: meta.Epoch, Changes: ledger.Changes{Revision: 2, Transitions: []ledger.Allocation{ended, live}}}); err != nil {
		t.Fatal(err)
	}
	whole, err := s.Load(t.Context(), meta.Epoch, time.Time{}, nil)
	if err != nil || len(whole.Remembered) != 1 || said.Len() > 0 {
		t.Fatalf("%+v, %v, %s", whole.Remembered, err, &said)
	}
	for column, value := range map[string]string{"request_hash": "'x'", "caller": "X'00'", "request_id": "X'00'", "ended": "-5"} {
		if err := s.Commit(t.Context(), store.Batch{Epoch: meta.Epoch, Changes: ledger.Changes{Revision: 2, Transitions: []ledger.Allocation{ended}}}); err != nil {
			t.Fatal(err)
		}
		said.Reset()
		if err := administer(t, s, "UPDATE allocation SET "+column+" = "+value+" WHERE id = 1"); err != nil {
			t.Fatal(err)
		}
		got, err := s.Load(t.Context(), meta.Epoch, time.Time{}, nil)
		if err != nil || len(got.Remembered) != 1 || got.Remembered[0] != whole.Remembered[0] {
			t.Errorf("%s: %+v, %v; want %+v", column, got.Remembered, err, whole.Remembered)
		}
		said.Reset()
		if page, next, err := s.Remembered(t.Context(), store.Position{}, ended.Ended, 10); err != nil || len(page) != 1 || page[0] != whole.Remembered[0] || next != (store.Position{}) {
			t.Errorf("%s: a page of %+v, %+v, %v; want %+v", column, page, next, err, whole.Remembered)
		}
		// by the others the row is not found
		if past, err := s.RememberedOf(t.Context(), ended.Caller, ended.RequestID); (column == "request_hash" || column == "ended") && (err != nil || past != whole.Remembered[0]) {
			t.Errorf("%s: by its request id %+v, %v; want %+v", column, past, err, whole.Remembered[0])
		}
		for _, want := range []string{"set-aside allocation", ledger.ID(1).String(), column} {
			if !strings.Contains(said.String(), want) {
				t.Errorf("%s: the log says %q; want %q", column, &said, want)
			}
		}
		if got, err := s.Load(t.Context(), meta.Epoch, ended.Ended.Add(time.Hour).Time(), nil); column != "ended" && (err != nil || len(got.Remembered) != 0) {
			t.Errorf("%s: remembered after its time: %+v, %v", column, got.Remembered, err)
		}
	}
	// What is live by its payload must not count as ended.
	if err := administer(t, s, "UPDATE allocation SET ended = 'x' WHERE id = 2"); err != nil {
		t.Fatal(err)
	}
	_, err = s.Load(t.Context(), meta.Epoch, time.Time{}, nil)
	if row, named := errors.AsType[*store.RowError](err); !named || row.Key != ledger.ID(2).String() {
		t.Errorf("%v; want the live allocation named", err)
	}
}

// A row of meta cannot be set aside: the error names its fault, and the need for a backup.
func TestGarbageInMetaIsDamage(t *testing.T) {
	for _, column := range []string{"store_id", "cluster", "epoch", "sequence", "last_id", "ledger_time"} {
		path := filepath.Join(t.TempDir(), "bursar.db")
		at(t, path).Close()
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), "UPDATE meta SET "+column+" = X'00'"); err != nil {
			t.Fatal(err)
		}
		db.Close()
		_, err = Open(t.Context(), path, Options{})
		if refused, ok := errors.AsType[*store.RefusedError](err); !ok || refused.Reason != store.Damaged || !strings.Contains(err.Error(), "backup") {
			t.Errorf("%s: %v; want it refused as damaged", column, err)
		}
	}
}
