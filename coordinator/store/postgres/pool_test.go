package postgres

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/bursar/bursar/test/postgres"
)

// A read that is canceled while the server is silent keeps no place in the pool, and Close does not
// wait for its end.
func TestReadOfASilentServer(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	s, _ := started(t, server.DSN("postgres"))
	if n := s.reading.Stat().TotalConns(); n != 1 {
		t.Fatalf("%d connections; want that which opened the store", n)
	}
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Get(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if n := s.reading.Stat().TotalConns(); n != 0 {
		t.Errorf("%d connections still have a place", n)
	}
	if err := server.Continue(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), 1); err != nil {
		t.Error(err)
	}
}

// Any number of readers share a fixed number of connections; the address may set a lower number.
func TestReadsAreBounded(t *testing.T) {
	for parameter, most := range map[string]int32{"": readers, "&pool_max_conns=100": readers, "&pool_max_conns=1": 1} {
		dsn := emptySchema(t) + parameter
		s := opened(t, dsn)
		fill(t, s, 10)
		var reading sync.WaitGroup
		for range 10 * readers {
			reading.Go(func() {
				if _, err := s.Get(context.WithoutCancel(t.Context()), 1); err != nil {
					t.Error(err)
				}
			})
		}
		reading.Wait()
		if stat := s.reading.Stat(); stat.MaxConns() != most || stat.TotalConns() > most {
			t.Errorf("%q: %d connections of %d; want at most %d", parameter, stat.TotalConns(), stat.MaxConns(), most)
		}
	}
}

// One connection, or every one, is lost: the next reads do not fail.
func TestReadersAreTerminated(t *testing.T) {
	s, _ := started(t, emptySchema(t)+"&application_name=terminated")
	for round := range 5 {
		var reading sync.WaitGroup
		for range readers {
			reading.Go(func() {
				if _, err := s.Get(context.WithoutCancel(t.Context()), 1); err != nil {
					t.Error(err)
				}
			})
		}
		reading.Wait()
		limit := ""
		if round%2 == 0 {
			limit = " LIMIT 1"
		}
		terminate := `SELECT pg_terminate_backend(pid, 10000) FROM
 (SELECT pid FROM pg_stat_activity WHERE application_name = 'terminated'` + limit + `) AS sessions`
		if err := shared.Execute(t.Context(), "postgres", terminate); err != nil {
			t.Fatal(err)
		}
		for range 2 * readers {
			if _, err := s.Get(t.Context(), 1); err != nil {
				t.Error(err)
			}
		}
	}
}
