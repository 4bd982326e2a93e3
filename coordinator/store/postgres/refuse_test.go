package postgres

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/test/postgres"
	"github.com/bursar/bursar/test/proc"
)

// secret is the password that no message may show.
const secret = "s3cr3t/@:x"

// wantRefused opens a store that must be refused, and returns the found and the wanted value in the
// message.
func wantRefused(t *testing.T, options Options, want store.Refusal) (found, wanted string) {
	t.Helper()
	s, err := Open(t.Context(), options)
	if err == nil {
		s.Close()
		t.Fatalf("opened; want it refused as %s", want)
	}
	return wantRefusal(t, err, want)
}

func wantRefusal(t *testing.T, err error, want store.Refusal) (found, wanted string) {
	t.Helper()
	var refused *store.RefusedError
	if !errors.As(err, &refused) || refused.Reason != want || refused.Where == "" || refused.Found == "" || refused.Want == "" {
		t.Fatalf("got %v; want it refused as %s", err, want)
	}
	t.Log(err)
	for _, part := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret), "s3cr3t"} {
		if strings.Contains(err.Error(), part) {
			t.Errorf("the message shows the password: %v", err)
		}
	}
	return refused.Found, refused.Want
}

func TestAccess(t *testing.T) {
	server := postgres.Start(t, postgres.Options{Password: secret})
	dsn := server.DSN("postgres")
	wrong, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	wrong.User = url.UserPassword(postgres.User, secret+"!")
	wantRefused(t, Options{DSN: wrong.String(), Migrate: true}, store.Denied)
	wrong.User = url.UserPassword("nobody", secret)
	wantRefused(t, Options{DSN: wrong.String(), Migrate: true}, store.Denied)
	wantRefused(t, Options{DSN: server.DSN("no-such-database"), Migrate: true}, store.Denied)
	if _, wanted := wantRefused(t, Options{DSN: strings.Replace(dsn, "sslmode=disable", "sslmode=require", 1), Migrate: true}, store.Denied); !strings.Contains(wanted, "ssl=on") {
		t.Errorf("of a server without TLS it wants %q", wanted)
	}

	// The password may come from a file, as with psql.
	wrong.User = url.User(postgres.User)
	passfile := filepath.Join(t.TempDir(), "pgpass")
	escaped := strings.NewReplacer(`\`, `\\`, ":", `\:`).Replace(secret)
	if err := os.WriteFile(passfile, []byte("*:*:*:*:"+escaped+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PGPASSFILE", passfile)
	s, err := Open(t.Context(), Options{DSN: wrong.String(), Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, 1)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestAddresses(t *testing.T) {
	for _, dsn := range []string{
		"postgres://u:s3cr3t#/x@localhost:5432/d", "postgres://u:s3cr3t@localhost:port/d", "postgres://u:s3cr3t%zz@localhost/d",
		"postgres://u:s3cr3t@localhost/d?sslmode=perhaps", "host=localhost password=s3cr3t port=many", "postgres://u:s3cr3t@[::1/d",
	} {
		wantRefused(t, Options{DSN: dsn}, store.Malformed)
		if name := Name(dsn); strings.Contains(name, "s3cr3t") {
			t.Errorf("shown as %s", name)
		}
	}
	if got, want := Name("postgres://me:s3cr3t@a:1,b:2/d"), "postgres://me@a:1,b:2/d"; got != want {
		t.Errorf("shown as %s, want %s", got, want)
	}
}

func TestServerAway(t *testing.T) {
	nobody := proc.Address(t)
	for _, dsn := range []string{"postgres://u:s3cr3t@" + nobody + "/d", "postgres://u:s3cr3t@/d?host=" + t.TempDir()} {
		_, err := Open(t.Context(), Options{DSN: dsn})
		var refused *store.RefusedError
		if !errors.Is(err, store.ErrAway) || errors.As(err, &refused) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("got %v", err)
		}
	}
}

func TestNoPostgreSQL(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadAtLeast(conn, make([]byte, 100), 8)
			_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\r\n400 Bad Request")
			conn.Close()
		}
	}()
	for _, mode := range []string{"disable", "prefer"} {
		wantRefused(t, Options{DSN: "postgres://u:s3cr3t@" + listener.Addr().String() + "/d?sslmode=" + mode}, store.Foreign)
	}
}

func TestUnsuitableDatabases(t *testing.T) {
	execute := func(database, statements string) {
		t.Helper()
		if err := shared.Execute(t.Context(), database, statements); err != nil {
			t.Fatal(err)
		}
	}
	foreign, dsn := emptyDatabase(t)
	execute(foreign, "CREATE TABLE bookmarks (url TEXT); CREATE TABLE goose_db_version (id int)")
	if found, _ := wantRefused(t, Options{DSN: dsn, Migrate: true}, store.Foreign); !strings.Contains(found, "bookmarks, goose_db_version") {
		t.Errorf("found %s", found)
	}
	// beside the other's tables, in its own schema, it is accepted
	execute(foreign, "CREATE SCHEMA bursar")
	opened(t, dsn+"&search_path=bursar")
	wantRefused(t, Options{DSN: dsn + "&search_path=nowhere", Migrate: true}, store.Denied)

	execute("postgres", "CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0")
	wantRefused(t, Options{DSN: shared.DSN("ascii"), Migrate: true}, store.Denied)

	newer, dsn := emptyDatabase(t)
	wantRefused(t, Options{DSN: dsn}, store.Older) // no tables
	at(t, dsn).Close()
	execute(newer, "INSERT INTO "+versionTable+" (version_id, is_applied) VALUES (99, true)")
	wantRefused(t, Options{DSN: dsn, Migrate: true}, store.Newer)

	readOnly, dsn := emptyDatabase(t)
	execute("postgres", "ALTER DATABASE "+readOnly+" SET default_transaction_read_only = on")
	wantRefused(t, Options{DSN: dsn, Migrate: true}, store.Denied)

	lost, dsn := emptyDatabase(t)
	s := opened(t, dsn)
	execute(lost, "DELETE FROM meta")
	_, err := s.Lead(t.Context(), 0)
	wantRefusal(t, err, store.Damaged)

	poor, dsn := emptyDatabase(t)
	execute(poor, "CREATE ROLE poor LOGIN; REVOKE CREATE ON SCHEMA public FROM public")
	wantRefused(t, Options{DSN: strings.Replace(dsn, postgres.User+"@", "poor@", 1), Migrate: true}, store.Denied)
	at(t, dsn).Close()
	wantRefused(t, Options{DSN: strings.Replace(dsn, postgres.User+"@", "poor@", 1)}, store.Denied)
}

func TestTwoClusters(t *testing.T) {
	_, dsn := emptyDatabase(t)
	open := func(cluster string, adopt bool) (*Store, error) {
		return Open(t.Context(), Options{DSN: dsn, Cluster: cluster, Adopt: adopt, Migrate: true})
	}
	a, err := open("a@dc1", false)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := open("b@dc1", false) // at the same time, before anybody has led
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	epoch := fill(t, a, 1)
	if meta, err := a.Meta(t.Context()); err != nil || meta.Cluster != "a@dc1" {
		t.Errorf("%+v, %v", meta, err)
	}
	_, err = b.Lead(t.Context(), 0)
	found, wanted := wantRefusal(t, err, store.OtherCluster)
	if !strings.Contains(found, `"a@dc1"`) || !strings.Contains(wanted, "bursar coordinator migrate --adopt") {
		t.Errorf("found %s, want %s", found, wanted)
	}
	wantRefused(t, Options{DSN: dsn, Cluster: "b@dc1"}, store.OtherCluster)
	if err := a.Commit(t.Context(), store.Batch{Epoch: epoch}); err != nil {
		t.Errorf("the one who leads is harmed: %v", err)
	}

	adopted, err := open("b@dc1", true)
	if err != nil {
		t.Fatal(err)
	}
	defer adopted.Close()
	if err := a.Commit(t.Context(), store.Batch{Epoch: epoch}); !errors.Is(err, store.ErrDeposed) {
		t.Errorf("the former owner goes on: %v", err)
	}
	_, err = a.Lead(t.Context(), 0)
	wantRefusal(t, err, store.OtherCluster)
	if meta, err := adopted.Lead(t.Context(), 0); err != nil || meta.Cluster != "b@dc1" || meta.Epoch <= epoch {
		t.Errorf("%+v, %v", meta, err)
	}
	nameless := opened(t, dsn)
	if meta, err := nameless.Lead(t.Context(), 0); err != nil || meta.Cluster != "b@dc1" {
		t.Errorf("%+v, %v", meta, err)
	}
}

// A session commits durably under any settings of the server; unsafe settings that it cannot change
// are logged.
func TestUnsafeSettings(t *testing.T) {
	server := postgres.Start(t, postgres.Options{Settings: map[string]string{
		"fsync": "off", "synchronous_commit": "off", "default_transaction_isolation": "serializable",
	}})
	var log bytes.Buffer
	s, err := Open(t.Context(), Options{DSN: server.DSN("postgres"), Migrate: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	fill(t, s, 1)
	if !strings.Contains(log.String(), "fsync=off") {
		t.Errorf("not warned: %s", log.String())
	}
	for setting, want := range map[string]string{
		"synchronous_commit": "on", "transaction_isolation": "read committed", "application_name": "bursar",
		"tcp_keepalives_idle": "4", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3", "tcp_user_timeout": "10000",
	} {
		if writing, reading := show(t, s, setting); writing != want || reading != want {
			t.Errorf("%s is %s for commits and %s for reads, want %s", setting, writing, reading, want)
		}
	}
}

// show reads a setting of the session for commits, and of one for reads.
func show(t *testing.T, s *Store, setting string) (writing, reading string) {
	t.Helper()
	conn := <-s.writer.turn
	defer func() { s.writer.turn <- conn }()
	if err := conn.QueryRow(t.Context(), "SHOW "+setting).Scan(&writing); err != nil {
		t.Fatal(err)
	}
	if err := s.reading.QueryRow(t.Context(), "SHOW "+setting).Scan(&reading); err != nil {
		t.Fatal(err)
	}
	return writing, reading
}
