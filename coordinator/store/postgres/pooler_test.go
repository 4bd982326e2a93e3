package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/test/postgres"
)

func wantPooled(t *testing.T, err error) {
	t.Helper()
	refused, ok := errors.AsType[*store.RefusedError](err)
	if !ok || !errors.Is(err, errPooled) || !strings.Contains(refused.Want, "pool_mode=session") {
		t.Fatalf("got %v; want a refusal that names pool_mode=session", err)
	}
}

// A pooler that hands out sessions for transactions or statements is refused when the store is
// opened, however statements are sent.
func TestPoolersWithoutSessionsAreRefused(t *testing.T) {
	for _, mode := range []string{"transaction", "statement"} {
		for _, way := range []string{"", "default_query_exec_mode=cache_describe", "default_query_exec_mode=exec", "default_query_exec_mode=simple_protocol"} {
			t.Run(mode+" "+way, func(t *testing.T) {
				name, _ := emptyDatabase(t)
				pooler := postgres.StartPooler(t, shared.Server, mode, 3)
				s, err := Open(t.Context(), Options{DSN: pooler.DSN(name, way), Migrate: true})
				if err == nil {
					s.Close()
				}
				wantPooled(t, err)
			})
		}
	}
}

// Several coordinators that share a pooler in session mode use the store as if there were none,
// and get the schema of their address, which the pooler drops.
func TestPoolerWithSessions(t *testing.T) {
	name, _ := emptyDatabase(t)
	if err := shared.Execute(t.Context(), name, "CREATE SCHEMA own"); err != nil {
		t.Fatal(err)
	}
	pooler := postgres.StartPooler(t, shared.Server, "session", 20)
	dsn := pooler.DSN(name, "search_path=own")
	verifyTwice := func() {
		s, epoch := started(t, dsn)
		defer s.Close()
		if err := s.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: step(2)}); err != nil {
			t.Fatal(err)
		}
	}
	verifyTwice()
	other := opened(t, shared.DSN(name, "search_path=own"))
	verify(t, other, 2, 2)
}

// The pooler changes the session of a connection after the store was opened: nothing is committed
// on the other session, and the error names the remedy.
func TestSessionChanges(t *testing.T) {
	for name, change := range map[string]string{
		"to another": `SELECT set_config('bursar.session', 'other', false)`,
		"to a new":   `DISCARD ALL`,
	} {
		t.Run(name, func(t *testing.T) {
			dsn := emptySchema(t)
			s, epoch := started(t, dsn+"&default_query_exec_mode=exec")
			onWriter(t, s, change)
			wantPooled(t, s.Commit(t.Context(), store.Batch{Epoch: epoch}))
			s, epoch = started(t, emptySchema(t)+"&default_query_exec_mode=exec")
			onWriter(t, s, change)
			err := s.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: step(2)})
			wantPooled(t, err)
			if errors.Is(err, store.ErrUnknownOutcome) {
				t.Errorf("the outcome is known: %v", err)
			}
			if err := s.Commit(t.Context(), store.Batch{Epoch: epoch}); !errors.Is(err, store.ErrDeposed) {
				t.Errorf("the epoch goes on: %v", err)
			}
			verify(t, s, 1, 1) // on a new connection
			onWriter(t, s, change)
			verify(t, s, 1, 1)
		})
	}
}

// onWriter runs a statement on the session that commits, like another user of that session.
func onWriter(t *testing.T, s *Store, statement string) {
	t.Helper()
	if err := s.writer.use(t.Context(), false, func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// Another user of a session changes its settings: an acknowledged change still survives a crash of
// the server.
func TestCommitsRelyOnNoSettingOfTheirSession(t *testing.T) {
	// Only a commit that waits brings the log to the disk soon.
	server := postgres.Start(t, postgres.Options{Settings: map[string]string{"wal_writer_delay": "10s"}})
	s, epoch := started(t, server.DSN("postgres"))
	onWriter(t, s, `SET synchronous_commit = off`)
	const last = 20
	for revision := uint64(2); revision <= last; revision++ {
		if err := s.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: step(revision)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	verify(t, s, last, last)
}

// In the transaction of each write, commits wait for at least as much as they were configured to.
func TestWritesRaiseSynchronousCommit(t *testing.T) {
	for setting, want := range map[string]string{"off": "on", "local": "on", "on": "on", "remote_write": "remote_write", "remote_apply": "remote_apply"} {
		s, _ := started(t, emptySchema(t))
		onWriter(t, s, `SET synchronous_commit = `+setting)
		var got string
		if err := s.writer.use(t.Context(), false, func(conn *pgx.Conn) error {
			return s.server.change(t.Context(), conn, func(tx pgx.Tx) error {
				return tx.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&got)
			})
		}); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s became %s; want %s", setting, got, want)
		}
	}
}

// Settings of the role that would break statements do not hold for the store's sessions, unless
// the address names them.
func TestSettingsOfTheRole(t *testing.T) {
	name, dsn := emptyDatabase(t)
	for _, setting := range []string{
		"statement_timeout = '1min'", "lock_timeout = '1min'", "idle_in_transaction_session_timeout = '1min'", "bytea_output = 'escape'",
		"default_transaction_isolation = 'serializable'", "synchronous_commit = 'local'", "row_security = 'on'",
	} {
		if err := shared.Execute(t.Context(), "postgres", "ALTER DATABASE "+name+" SET "+setting); err != nil {
			t.Fatal(err)
		}
	}
	s := opened(t, dsn)
	fill(t, s, 1)
	for setting, want := range map[string]string{
		"statement_timeout": "0", "lock_timeout": "0", "idle_in_transaction_session_timeout": "0", "bytea_output": "hex",
		"transaction_isolation": "read committed", "synchronous_commit": "on", "row_security": "off",
	} {
		if writing, reading := show(t, s, setting); writing != want || reading != want {
			t.Errorf("%s is %s for commits and %s for reads, want %s", setting, writing, reading, want)
		}
	}
	named := opened(t, dsn+"&statement_timeout=7s")
	if _, err := named.Lead(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if writing, reading := show(t, named, "statement_timeout"); writing != "7s" || reading != "7s" {
		t.Errorf("the address says 7s: %s, %s", writing, reading)
	}
}

// Policies on rows would hide engines from a coordinator: it is an error that names the table.
func TestPoliciesHideNoRows(t *testing.T) {
	dsn := emptySchema(t)
	s := at(t, dsn)
	fill(t, s, 1)
	s.Close()
	grantTo(t, dsn)
	schema := schemaOf(t, dsn)
	if err := shared.Execute(t.Context(), "postgres", "ALTER TABLE "+schema+".allocation ENABLE ROW LEVEL SECURITY"); err != nil {
		t.Fatal(err)
	}
	granted := opened(t, asGranted(dsn))
	if list, err := granted.Get(t.Context(), 1); err == nil || errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), "row-level security") {
		t.Errorf("got %v, %v; want an error that names row-level security", list, err)
	}
}
