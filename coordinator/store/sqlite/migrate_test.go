package sqlite

import (
	"bytes"
	"database/sql"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// rowsOfEveryKind are the changes that fill a store of version 1: live rows, ended ones and such
// whose request may be used again, a host and a rule.
func rowsOfEveryKind(t *testing.T) ledger.Changes {
	t.Helper()
	selector, err := label.ParseSelector("user=alice")
	if err != nil {
		t.Fatal(err)
	}
	c := ledger.Changes{
		Revision: 42, LastID: 1<<63 + 9,
		Hosts:  []ledger.HostRecord{{ID: "host-0123.example.org", Capacity: resource.Vector{}.WithMemory(1 << 40), Revision: 7}},
		Quotas: []ledger.Quota{{Selector: selector, Limit: resource.Vector{}.WithMemory(64 << 30), Source: "api"}},
	}
	for i := range 300 {
		a := storetest.Typical(ledger.ID(i+1), []ledger.State{ledger.Active, ledger.Reserved, ledger.Released}[i%3], uint64(i+1))
		a.Forget = i%7 == 0
		c.Transitions = append(c.Transitions, a)
	}
	odd := storetest.Typical(c.LastID, ledger.Released, 42) // an id that is negative in its column
	odd.Caller, odd.RequestID = "a\x00b", `\`
	c.Transitions = append(c.Transitions, odd)
	return c
}

// earlierVersion makes a store of an earlier version with these rows, as that version did.
func earlierVersion(t *testing.T, path string, version int64, c ledger.Changes) {
	t.Helper()
	var rows store.Rows
	if err := rows.Encode(&store.Batch{Changes: c}); err != nil {
		t.Fatal(err)
	}
	db := pool(path, "mode=rwc", 1, "journal_mode(WAL)")
	defer db.Close()
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	insert := func(statement string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	insert(`INSERT INTO meta (one, store_id, epoch, sequence, last_id) VALUES (1, 'the-first', 7, ?, ?)`, rows.Sequence, rows.LastID)
	for _, r := range rows.Allocations {
		insert(`INSERT INTO allocation (id, state, ended, host_id, caller, request_id, request_hash, forget, payload)
 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`, r.ID, r.State, r.Ended, r.HostID, r.Caller, r.RequestID, r.RequestHash, r.Forget, r.Payload)
	}
	for _, r := range rows.Hosts {
		insert(`INSERT INTO host (id, payload) VALUES (?, ?)`, r.Key, r.Payload)
	}
	for _, r := range rows.Quotas {
		insert(`INSERT INTO quota (selector, payload) VALUES (?, ?)`, r.Key, r.Payload)
	}
}

// contents are all that can be read of a store.
type contents struct {
	Snapshot ledger.Snapshot
	History  []ledger.Allocation
}

func read(t *testing.T, s *Store, epoch uint64) (c contents) {
	t.Helper()
	var err error
	if c.Snapshot, err = s.Load(t.Context(), epoch, time.Time{}, nil); err != nil {
		t.Fatal(err)
	}
	query := store.HistoryQuery{PageSize: 1000}
	var next string
	if c.History, next, err = s.History(t.Context(), query); err != nil || next != "" {
		t.Fatalf("next %q, %v", next, err)
	}
	return c
}

// A migrated store of an earlier version has the same content as a store that this version wrote
// from the start, and accepts the same commits.
func TestMigrationForward(t *testing.T) {
	changes := rowsOfEveryKind(t)
	latest, err := latestSchema()
	if err != nil {
		t.Fatal(err)
	}
	fresh := at(t, filepath.Join(t.TempDir(), "bursar.db"))
	defer fresh.Close()
	led, err := fresh.Lead(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := fresh.Commit(t.Context(), store.Batch{Epoch: led.Epoch, Changes: changes}); err != nil {
		t.Fatal(err)
	}
	want := read(t, fresh, led.Epoch)
	if len(want.Snapshot.Allocations) != 200 || len(want.History) != 101 {
		t.Fatalf("the test is wrong: %d live, %d ended", len(want.Snapshot.Allocations), len(want.History))
	}
	provider := ledger.ProviderRecord{ClusterName: ledger.ClusterName{Kind: "yarn", Cluster: "prod"}, Source: "api"}
	for version := int64(1); version < latest; version++ {
		path := filepath.Join(t.TempDir(), "bursar.db")
		earlierVersion(t, path, version, changes)
		want := want
		for _, epoch := range []uint64{8, 9} { // the second time there is nothing to do
			s := at(t, path)
			meta, err := s.Lead(t.Context(), 0)
			meta.SealKeys = ""
			wantMeta := store.Meta{StoreID: "the-first", Epoch: epoch, Sequence: 42, LastID: changes.LastID, Schema: latest}
			if err != nil || meta != wantMeta {
				t.Errorf("version %d: %+v, %v; want %+v", version, meta, err, wantMeta)
			}
			if diff := cmp.Diff(want, read(t, s, meta.Epoch)); diff != "" {
				t.Errorf("version %d: -want +got:\n%s", version, diff)
			}
			added := ledger.Changes{Revision: 42, LastID: changes.LastID, Providers: []ledger.ProviderRecord{provider}}
			if err := s.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: added}); err != nil {
				t.Error(err)
			}
			want.Snapshot.Providers = added.Providers
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A failed migration leaves the previous version intact, and the next attempt succeeds.
func TestMigrationFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bursar.db")
	earlierVersion(t, path, 1, rowsOfEveryKind(t))
	execute := func(statement string) {
		t.Helper()
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	execute("ALTER TABLE meta ADD COLUMN copying TEXT") // in the way of the second of two columns
	if s, err := Open(t.Context(), path, Options{}); err == nil {
		s.Close()
		t.Fatal("opened")
	} else {
		t.Log(err)
	}
	execute("ALTER TABLE meta DROP COLUMN copying")
	s := at(t, path)
	defer s.Close()
	meta, err := s.Lead(t.Context(), 0)
	if err != nil || meta.Epoch != 8 || meta.StoreID != "the-first" {
		t.Fatalf("%+v, %v", meta, err)
	}
	if got := read(t, s, meta.Epoch); len(got.Snapshot.Allocations) != 200 || len(got.History) != 101 {
		t.Errorf("%d live, %d ended", len(got.Snapshot.Allocations), len(got.History))
	}
}

// Reading a store of an earlier version leaves it unchanged: it may be the backup for a downgrade.
func TestSchemaIsKept(t *testing.T) {
	latest, err := latestSchema()
	if err != nil {
		t.Fatal(err)
	}
	for version := int64(1); version < latest; version++ {
		path := filepath.Join(t.TempDir(), "bursar.db")
		earlierVersion(t, path, version, rowsOfEveryKind(t))
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), path, Options{KeepSchema: true})
		if err == nil {
			s.Close()
		}
		refused, ok := errors.AsType[*store.RefusedError](err)
		if !ok || refused.Reason != store.Older || !strings.Contains(refused.Want, "coordinator migrate") {
			t.Errorf("version %d: %v: want it refused as older", version, err)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("version %d: the file was changed, %v", version, err)
		}
	}
	path := filepath.Join(t.TempDir(), "bursar.db")
	for _, kept := range []bool{false, true} { // then it is the latest
		s, err := Open(t.Context(), path, Options{KeepSchema: kept})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Who only looks makes nothing: no file, no folder, no tables.
func TestWhatIsNotThereIsNotMadeForWhoLooks(t *testing.T) {
	dir := t.TempDir()
	empty, blank := filepath.Join(dir, "empty.db"), filepath.Join(dir, "blank.db")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	db := pool(blank, "mode=rwc", 1) // a file of SQLite's that has no tables
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE gone (x); DROP TABLE gone"); err != nil {
		t.Fatal(err)
	}
	db.Close()
	for path, isThere := range map[string]bool{
		filepath.Join(dir, "missing.db"): false, filepath.Join(dir, "missing", "bursar.db"): false, empty: true, blank: true,
	} {
		before, _ := os.ReadFile(path)
		s, err := Open(t.Context(), path, Options{KeepSchema: true})
		if err == nil {
			s.Close()
		}
		refused, ok := errors.AsType[*store.RefusedError](err)
		if ok != isThere || ok && (refused.Reason != store.Older || refused.Found != "the file has no tables yet") {
			t.Errorf("%s: %v: want it refused if it is there: %t", path, err, isThere)
		}
		if !isThere && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v: want it not to be there", path, err)
		}
		if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
			t.Errorf("%s: it was changed", path)
		}
	}
	if made, err := filepath.Glob(filepath.Join(dir, "missing*")); err != nil || len(made) > 0 {
		t.Errorf("made %v, %v", made, err)
	}
	if made, err := filepath.Glob(empty + "?*"); err != nil || len(made) > 0 {
		t.Errorf("made %v, %v", made, err)
	}
}

// A migration of a store that had tables is logged, once.
func TestMigrationIsLogged(t *testing.T) {
	var text bytes.Buffer
	open := func(path string) string {
		t.Helper()
		text.Reset()
		s, err := Open(t.Context(), path, Options{Log: slog.New(slog.NewTextHandler(&text, nil))})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return text.String()
	}
	path := filepath.Join(t.TempDir(), "bursar.db")
	earlierVersion(t, path, 3, rowsOfEveryKind(t))
	const upToDate = "the store's tables are up to date"
	if logged := open(path); !strings.Contains(logged, upToDate) || !strings.Contains(logged, "store="+path+" from=3 to=") {
		t.Errorf("%q: want it to say what was migrated", logged)
	}
	for _, path := range []string{path, filepath.Join(t.TempDir(), "new.db")} {
		if logged := open(path); strings.Contains(logged, upToDate) {
			t.Errorf("%q: nothing was migrated", logged)
		}
	}
}

func TestMigrationsLetTheVersionBeforeGoOn(t *testing.T) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	if err := storetest.CheckAdditions(files); err != nil {
		t.Error(err)
	}
}
