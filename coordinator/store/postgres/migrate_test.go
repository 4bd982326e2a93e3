package postgres

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
)

// Coordinators that start at the same time on an empty database make one store.
func TestMigrationsAtOnce(t *testing.T) {
	for range 20 {
		dsn := emptySchema(t)
		const many = 3
		ids := make([]string, many)
		var starting sync.WaitGroup
		for i := range many {
			starting.Go(func() {
				s, err := Open(context.WithoutCancel(t.Context()), Options{DSN: dsn, Migrate: true})
				if err != nil {
					t.Error(err)
					return
				}
				defer s.Close()
				meta, err := s.Meta(context.WithoutCancel(t.Context()))
				if err != nil {
					t.Error(err)
				}
				ids[i] = meta.StoreID
			})
		}
		starting.Wait()
		if ids[0] == "" || ids[1] != ids[0] || ids[2] != ids[0] {
			t.Fatalf("stores %q", ids)
		}
	}
}

// atVersion makes the tables as an earlier version of bursar made them.
func atVersion(t *testing.T, dsn string, version int64) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*conn.Config())
	defer db.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithTableName(versionTable))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	return conn
}

// filledAt makes a store of an earlier version with n rows, by hand, as that version would have.
func filledAt(t *testing.T, dsn string, version int64, rows int) *pgx.Conn {
	t.Helper()
	conn := atVersion(t, dsn, version)
	other := opened(t, emptySchema(t)) // to take rows from
	fill(t, other, rows)
	for i := range allocations(1, rows, 1).Transitions {
		a := allocations(1, rows, 1).Transitions[i]
		payload, err := store.AppendAllocation(nil, &a)
		if err != nil {
			t.Fatal(err)
		}
		const insert = `INSERT INTO allocation (id, state, ended, host_id, caller, request_id, request_hash, forget, payload)
 VALUES ($1, $2, 0, $3, $4, $5, $6, 0, $7)`
		if _, err := conn.Exec(t.Context(), insert, int64(i+1), int16(a.State), a.HostID, a.Caller, a.RequestID, int64(i+1), payload); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Exec(t.Context(), `INSERT INTO meta (one, store_id, epoch, sequence, last_id) VALUES (1, 'the-first', 7, 42, 9)`); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestMigrationForward(t *testing.T) {
	latest, err := latestSchema()
	if err != nil {
		t.Fatal(err)
	}
	for version := int64(1); version < latest; version++ {
		dsn := emptySchema(t)
		filledAt(t, dsn, version, 10)
		wantRefused(t, Options{DSN: dsn}, store.Older)
		s := opened(t, dsn)
		meta, err := s.Lead(t.Context(), 0)
		meta.SealKeys = ""
		want := store.Meta{StoreID: "the-first", Epoch: 8, Sequence: 42, LastID: 9, Schema: latest}
		if err != nil || meta != want {
			t.Errorf("version %d: %+v, %v; want %+v", version, meta, err, want)
		}
		wantWhole(t, s, meta.Epoch, 42, 10)
		provider := ledger.ProviderRecord{ClusterName: ledger.ClusterName{Kind: "yarn", Cluster: "prod"}, Source: "api"}
		added := ledger.Changes{Revision: 43, LastID: 9, Providers: []ledger.ProviderRecord{provider}}
		if err := s.Commit(t.Context(), store.Batch{Epoch: meta.Epoch, Changes: added}); err != nil {
			t.Errorf("version %d: %v", version, err)
		}
		snapshot, err := s.Load(t.Context(), meta.Epoch, time.Time{}, nil)
		if err != nil || len(snapshot.Providers) != 1 || snapshot.Providers[0].ClusterName != provider.ClusterName {
			t.Errorf("version %d: %+v, %v", version, snapshot.Providers, err)
		}
	}
}

// wantWhole loads and compares the revision and the number of live allocations.
func wantWhole(t *testing.T, s *Store, epoch, revision uint64, live int) {
	t.Helper()
	snapshot, err := s.Load(t.Context(), epoch, time.Time{}, nil)
	if err != nil || snapshot.Revision != revision || len(snapshot.Allocations) != live {
		t.Fatalf("revision %d, %d live, %v; want revision %d, %d live", snapshot.Revision, len(snapshot.Allocations), err, revision, live)
	}
}

// A migration that is killed in the middle, by its server or its client, leaves the version
// before, whole.
func TestMigrationKilled(t *testing.T) {
	for name, kill := range map[string]func(t *testing.T, holder *pgx.Conn, cancel func()){
		"by its server": func(t *testing.T, holder *pgx.Conn, _ func()) {
			t.Helper()
			const terminate = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'killed'`
			if _, err := holder.Exec(t.Context(), terminate); err != nil {
				t.Fatal(err)
			}
		},
		"by its client": func(_ *testing.T, _ *pgx.Conn, cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			dsn := emptySchema(t)
			holder := filledAt(t, dsn, 1, 3)
			tx, err := holder.Begin(t.Context()) // keeps ALTER TABLE waiting
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), "SELECT * FROM meta"); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() {
				s, err := Open(ctx, Options{DSN: dsn + "&application_name=killed", Migrate: true})
				if err == nil {
					err = errors.Join(errors.New("opened"), s.Close())
				}
				done <- err
			}()
			waitForLock(t, "killed")
			kill(t, holder, cancel)
			if err := <-done; err == nil || err.Error() == "opened" {
				t.Fatal(err)
			} else {
				t.Log(err)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			s := opened(t, dsn)
			meta, err := s.Lead(t.Context(), 0)
			if err != nil || meta.StoreID != "the-first" {
				t.Fatalf("%+v, %v", meta, err)
			}
			wantWhole(t, s, meta.Epoch, 42, 3)
		})
	}
}

// waitForLock waits until a session of that name waits for a lock.
func waitForLock(t *testing.T, application string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), shared.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	limit, again := time.After(30*time.Second), time.NewTicker(5*time.Millisecond)
	defer again.Stop()
	for {
		var waits bool
		const waiting = `SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock')`
		if err := conn.QueryRow(t.Context(), waiting, application).Scan(&waits); err != nil {
			t.Fatal(err)
		}
		if waits {
			return
		}
		select {
		case <-again.C:
		case <-limit:
			t.Fatalf("%s waits for nothing", application)
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
