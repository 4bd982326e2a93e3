package postgres

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/test/postgres"
)

// shared is the server of all tests that do not change a server; each has its own databases.
var shared struct {
	*postgres.Server

	databases atomic.Int64
}

func TestMain(m *testing.M) {
	if isChild, err := storetest.Child(open); isChild {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// Each step of the model goes to a real server. The command line, which is read later, has the
	// last word.
	if err := flag.Set("rapid.checks", "15"); err != nil {
		panic(err)
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "bursar-postgres-")
	if err != nil {
		return 1, err
	}
	if shared.Server, err = postgres.Launch(context.Background(), dir, postgres.Options{}); err != nil {
		return 1, err
	}
	if err := shared.Execute(context.Background(), "postgres", "CREATE ROLE granted LOGIN"); err != nil {
		return 1, errors.Join(err, shared.Close())
	}
	code = m.Run()
	if err := shared.Close(); err != nil {
		return 1, err
	}
	if code == 0 {
		err = goleak.Find()
	}
	return code, err
}

func open(dsn string) (store.Store, error) {
	s, err := Open(context.Background(), Options{DSN: dsn, Migrate: true})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// emptyDatabase makes a database on the shared server.
func emptyDatabase(tb testing.TB) (name, dsn string) {
	tb.Helper()
	name = "d" + strconv.FormatInt(shared.databases.Add(1), 10)
	dsn, err := shared.CreateDatabase(context.Background(), name)
	if err != nil {
		tb.Fatal(err)
	}
	return name, dsn
}

// emptySchema makes a schema in a database of the shared server, which is much faster.
func emptySchema(tb testing.TB) (dsn string) {
	tb.Helper()
	name := "s" + strconv.FormatInt(shared.databases.Add(1), 10)
	if err := shared.Execute(context.Background(), "postgres", "CREATE SCHEMA "+name); err != nil {
		tb.Fatal(err)
	}
	return shared.DSN("postgres", "search_path="+name)
}

// at opens the store in a database and fails the test if that does not work.
func at(tb testing.TB, dsn string) *Store {
	tb.Helper()
	s, err := Open(tb.Context(), Options{DSN: dsn, Migrate: true})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// opened is at for the length of the test.
func opened(tb testing.TB, dsn string) *Store {
	tb.Helper()
	s := at(tb, dsn)
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// fresh makes an empty store, and opens it with the permissions in docs/operations.md for a role
// that does not make the tables.
func fresh(t *testing.T) storetest.Opener {
	t.Helper()
	dsn := emptySchema(t)
	if err := at(t, dsn).Close(); err != nil {
		t.Fatal(err)
	}
	grantTo(t, dsn)
	dsn = asGranted(dsn)
	return func(t *testing.T) store.Store { return at(t, dsn) }
}

// grantTo gives the role of asGranted the permissions in docs/operations.md.
func grantTo(t *testing.T, dsn string) {
	t.Helper()
	if err := shared.Execute(t.Context(), "postgres", strings.ReplaceAll(grants, "public", schemaOf(t, dsn))); err != nil {
		t.Fatal(err)
	}
}

// schemaOf is the schema of an address of emptySchema.
func schemaOf(t *testing.T, dsn string) string {
	t.Helper()
	address, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return address.Query().Get("search_path")
}

func TestStore(t *testing.T) { storetest.Run(t, fresh) }

func TestShared(t *testing.T) { storetest.RunShared(t, fresh) }

func TestKill(t *testing.T) {
	_, dsn := emptyDatabase(t)
	storetest.Kill(t, dsn, 20, open)
}

// fill takes the lead and commits so many allocations.
func fill(tb testing.TB, s store.Store, n int) (epoch uint64) {
	tb.Helper()
	meta, err := s.Lead(tb.Context(), 0)
	if err != nil {
		tb.Fatal(err)
	}
	if err := s.Commit(tb.Context(), store.Batch{Epoch: meta.Epoch, Changes: allocations(1, n, 1)}); err != nil {
		tb.Fatal(err)
	}
	return meta.Epoch
}

// allocations returns a batch of active allocations with ids from first.
func allocations(first ledger.ID, n int, revision uint64) ledger.Changes {
	c := ledger.Changes{Revision: revision, LastID: first + ledger.ID(n) - 1}
	for i := range n {
		c.Transitions = append(c.Transitions, storetest.Typical(first+ledger.ID(i), ledger.Active, revision))
	}
	return c
}

func TestRowsThatNobodyCanReadAreSetAside(t *testing.T) {
	storetest.Aside(t, fresh, func(t *testing.T, s store.Store, table string) {
		own, _ := s.(*Store)
		err := own.writer.use(t.Context(), false, func(conn *pgx.Conn) error {
			_, err := conn.Exec(t.Context(), "UPDATE "+table+" SET payload = $1", []byte(storetest.Garbage))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
