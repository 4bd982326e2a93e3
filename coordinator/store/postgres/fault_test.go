package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/test/postgres"
)

// verify takes the lead and checks that all rows of the store have a revision between the two: ten
// allocations that every batch changes, and one more for each batch.
func verify(t *testing.T, s *Store, least, most uint64) (epoch, revision uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	meta, err := s.Lead(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := s.Load(ctx, meta.Epoch, time.Time{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := snapshot.Revision
	if r < least || r > most || uint64(len(snapshot.Allocations)) != 10+r || meta.Sequence != r {
		t.Fatalf("revision %d with %d allocations, led at %d; want between %d and %d", r, len(snapshot.Allocations), meta.Sequence, least, most)
	}
	for _, a := range snapshot.Allocations {
		if a.ID <= 10 && a.Revision != r {
			t.Fatalf("allocation %d at revision %d, the store at %d", a.ID, a.Revision, r)
		}
	}
	return meta.Epoch, r
}

// step is the batch with which a store reaches a revision.
func step(revision uint64) ledger.Changes {
	c := allocations(1, 10, revision)
	c.Transitions = append(c.Transitions, allocations(ledger.ID(revision*100), 1, revision).Transitions...)
	return c
}

// commitUntilFailure commits batch after batch. It returns the last revision that was acknowledged.
func commitUntilFailure(ctx context.Context, s *Store, epoch, from uint64) (acknowledged uint64, err error) {
	for revision := from + 1; ; revision++ {
		if err := s.Commit(ctx, store.Batch{Epoch: epoch, Changes: step(revision)}); err != nil {
			return revision - 1, err
		}
	}
}

// started makes a store with one batch in it.
func started(t *testing.T, dsn string) (s *Store, epoch uint64) {
	t.Helper()
	s = opened(t, dsn)
	meta, err := s.Lead(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), store.Batch{Epoch: meta.Epoch, Changes: step(1)}); err != nil {
		t.Fatal(err)
	}
	return s, meta.Epoch
}

func wantUnknown(t *testing.T, s *Store, epoch uint64, err error) {
	t.Helper()
	if !errors.Is(err, store.ErrUnknownOutcome) {
		t.Fatalf("got %v, want %v", err, store.ErrUnknownOutcome)
	}
	t.Log(err)
	if err := s.Commit(t.Context(), store.Batch{Epoch: epoch}); !errors.Is(err, store.ErrDeposed) {
		t.Errorf("the epoch goes on: %v", err)
	}
}

// The server dies, is stopped or restarted while batches are committed: all acknowledged batches
// are there, whole, and at most one more.
func TestServerEnds(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	s, epoch := started(t, server.DSN("postgres"))
	revision := uint64(1)
	for round := range 6 {
		type result struct {
			acknowledged uint64
			err          error
		}
		done := make(chan result, 1)
		go func() {
			acknowledged, err := commitUntilFailure(context.WithoutCancel(t.Context()), s, epoch, revision)
			done <- result{acknowledged, err}
		}()
		waitForRevision(t, s, revision+5)
		end := []func() error{server.Kill, func() error { return server.Stop(syscall.SIGINT) }, func() error { return server.Stop(syscall.SIGQUIT) }}[round%3]
		if err := end(); err != nil {
			t.Fatal(err)
		}
		got := <-done
		if errors.Is(got.err, store.ErrDeposed) || got.acknowledged <= revision {
			t.Fatalf("acknowledged %d: %v", got.acknowledged, got.err)
		}
		t.Log(got.err)
		if _, err := s.Meta(t.Context()); !errors.Is(err, store.ErrAway) {
			t.Errorf("reading from nobody: %v", err)
		}
		if _, err := s.Lead(t.Context(), 0); !errors.Is(err, store.ErrAway) {
			t.Errorf("leading nobody: %v", err)
		}
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		epoch, revision = verify(t, s, got.acknowledged, got.acknowledged+1)
	}
	// A restart while no call runs: the next read and the next leadership make new connections by
	// themselves.
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 * readers {
		if _, err := s.Get(t.Context(), 1); err != nil {
			t.Error(err)
		}
	}
	verify(t, s, revision, revision)
}

// waitForRevision waits until a store has been committed to.
func waitForRevision(t *testing.T, s *Store, revision uint64) {
	t.Helper()
	limit := time.After(30 * time.Second)
	for {
		meta, err := s.Meta(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if meta.Sequence >= revision {
			return
		}
		select {
		case <-limit:
			t.Fatalf("at %d, want %d", meta.Sequence, revision)
		default:
		}
	}
}

// A server stops answering: the commit is abandoned with an unknown outcome, which the next
// leadership finds out.
func TestServerPauses(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	s, epoch := started(t, server.DSN("postgres"))
	for revision := uint64(1); revision < 4; {
		if err := server.Pause(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := s.Commit(ctx, store.Batch{Epoch: epoch, Changes: step(revision + 1)})
		cancel()
		wantUnknown(t, s, epoch, err)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v: want it to name the deadline", err)
		}
		if err := server.Continue(); err != nil {
			t.Fatal(err)
		}
		epoch, revision = verify(t, s, revision, revision+1)
		if err := s.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: step(revision + 1)}); err != nil {
			t.Fatal(err)
		}
		revision++
	}
}

// A commit waits for a lock when its caller cancels it, its session is ended, or its wait for a
// standby is ended.
func TestCommitHangs(t *testing.T) {
	for name, c := range map[string]struct {
		end  string // what an administrator does to the session
		want uint64 // the least revision afterwards
	}{
		"given up":   {"", 1},
		"terminated": {`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'hangs' AND wait_event_type = 'Lock'`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			dsn := emptySchema(t)
			s, epoch := started(t, dsn+"&application_name=hangs")
			holder, err := pgx.Connect(t.Context(), dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer holder.Close(t.Context())
			tx, err := holder.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), "SELECT * FROM meta FOR UPDATE"); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			batch := store.Batch{Epoch: epoch, Changes: step(2)}
			go func() { done <- s.Commit(ctx, batch) }()
			waitForLock(t, "hangs")
			if c.end == "" {
				cancel()
			} else if err := shared.Execute(t.Context(), "postgres", c.end); err != nil {
				t.Fatal(err)
			}
			wantUnknown(t, s, epoch, <-done)
			clear(batch.Transitions) // the caller's again
			if _, err := s.Get(t.Context(), 1); err != nil {
				t.Errorf("reading meanwhile: %v", err)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			epoch, revision := verify(t, s, c.want, 2)
			if err := s.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: step(revision + 1)}); err != nil {
				t.Error(err)
			}
		})
	}
}

// A server that no longer waits for its standby commits with a warning: that is not an
// acknowledgement.
func TestStandbyIsMissing(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	s, epoch := started(t, server.DSN("postgres", "application_name=waits"))
	for _, statement := range []string{"ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()"} {
		if err := server.Execute(t.Context(), "postgres", statement); err != nil {
			t.Fatal(err)
		}
	}
	admin, err := pgx.Connect(t.Context(), server.DSN("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(t.Context())
	done := make(chan error, 1)
	go func() {
		// the setting may take a moment
		_, err := commitUntilFailure(context.WithoutCancel(t.Context()), s, epoch, 1)
		done <- err
	}()
	const cancel = `SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE application_name = 'waits' AND wait_event = 'SyncRep'`
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for n := 0; n == 0; <-again.C {
		if err := admin.QueryRow(t.Context(), cancel).Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
	wantUnknown(t, s, epoch, <-done)
}

// A failure that the server reports before the commit is known: the store has no part of the batch.
func TestFailuresThatAreKnown(t *testing.T) {
	dsn := emptySchema(t)
	s, epoch := started(t, dsn)
	schema, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	table := schema.Query().Get("search_path") + ".allocation"
	if err := shared.Execute(t.Context(), "postgres", "ALTER TABLE "+table+" ADD CONSTRAINT small CHECK (id < 200)"); err != nil {
		t.Fatal(err)
	}
	err = s.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: step(2)})
	if err == nil || errors.Is(err, store.ErrUnknownOutcome) || errors.Is(err, store.ErrDeposed) {
		t.Fatalf("got %v", err)
	}
	if err := s.Commit(t.Context(), store.Batch{Epoch: epoch}); !errors.Is(err, store.ErrDeposed) {
		t.Errorf("the epoch goes on: %v", err)
	}
	if err := shared.Execute(t.Context(), "postgres", "ALTER TABLE "+table+" DROP CONSTRAINT small"); err != nil {
		t.Fatal(err)
	}
	epoch, _ = verify(t, s, 1, 1)
	if err := s.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: step(2)}); err != nil {
		t.Error(err)
	}
}

// All valid reports of an agent are stored, even if PostgreSQL's texts and indexes cannot hold
// them.
func TestUnusualTexts(t *testing.T) {
	s := opened(t, emptySchema(t))
	meta, err := s.Lead(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	long := fmt.Sprintf("%x", make([]byte, 100<<10))
	for i, request := range []string{"a\x00b", `a\0b`, `a\`, `\\`, long + "1", long + "2"} {
		c := allocations(ledger.ID(i+1), 1, uint64(i+1))
		c.Transitions[0].RequestID, c.Transitions[0].Caller = request, request
		c.Hosts = []ledger.HostRecord{{ID: `h\0` + "\x00"}}
		if err := s.Commit(t.Context(), store.Batch{Epoch: meta.Epoch, Changes: c}); err != nil {
			t.Fatal(err)
		}
		if a, err := s.GetByRequest(t.Context(), request, request); err != nil || a.ID != ledger.ID(i+1) || a.RequestID != request {
			t.Errorf("request %.20q: %s, %v", request, a.ID, err)
		}
	}
	if snapshot, err := s.Load(t.Context(), meta.Epoch, time.Time{}, nil); err != nil || len(snapshot.Hosts) != 1 || snapshot.Hosts[0].ID != `h\0`+"\x00" {
		t.Errorf("%d hosts, %v", len(snapshot.Hosts), err)
	}
}

// A database that was restored to its state of an hour ago deposes its leader, even if the same
// epoch is issued again.
func TestRestoredBackup(t *testing.T) {
	server := postgres.Start(t, postgres.Options{})
	dsn := server.DSN("postgres")
	old, _ := started(t, dsn)
	backup := filepath.Join(t.TempDir(), "backup")
	if err := server.Backup(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	first, err := old.Lead(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Commit(t.Context(), store.Batch{Epoch: first.Epoch, Changes: step(2)}); err != nil {
		t.Fatal(err)
	}
	if err := server.Restore(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	next := opened(t, dsn)
	second, err := next.Lead(t.Context(), 0)
	if err != nil || second.Epoch != first.Epoch {
		t.Fatalf("epoch %d, %v; want %d once more", second.Epoch, err, first.Epoch)
	}
	// the same sequence, too
	if err := next.Commit(t.Context(), store.Batch{Epoch: second.Epoch, Changes: step(2)}); err != nil {
		t.Fatal(err)
	}
	conn := <-old.writer.turn // the new connection of one that was stopped meanwhile
	abandon(t.Context(), conn)
	old.writer.turn <- nil
	for _, c := range []ledger.Changes{{}, step(3)} {
		if err := old.Commit(t.Context(), store.Batch{Epoch: first.Epoch, Changes: c}); !errors.Is(err, store.ErrDeposed) {
			t.Errorf("got %v", err)
		} else {
			t.Log(err)
		}
		old.writer.mu.Lock()
		old.writer.over = false // as if it had not been told
		old.writer.mu.Unlock()
	}
	if err := next.Commit(t.Context(), store.Batch{Epoch: second.Epoch, Changes: step(3)}); err != nil {
		t.Error(err)
	}
}
