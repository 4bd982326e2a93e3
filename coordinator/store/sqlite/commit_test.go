package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"modernc.org/sqlite"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// execute runs a statement on the connection that writes.
func execute(t *testing.T, s *Store, statement string) {
	t.Helper()
	_, err := s.do(t.Context(), func(ctx context.Context, w *writer) error {
		_, err := w.conn.ExecContext(ctx, statement)
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// wantRows takes the lead and compares the revision and the number of live allocations.
func wantRows(t *testing.T, s *Store, revision uint64, live int) (epoch uint64) {
	t.Helper()
	meta, err := s.Lead(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := s.Load(t.Context(), meta.Epoch, time.Time{}, nil)
	if err != nil || snapshot.Revision != revision || len(snapshot.Allocations) != live {
		t.Fatalf("revision %d, %d live, %v; want revision %d, %d live", snapshot.Revision, len(snapshot.Allocations), err, revision, live)
	}
	return meta.Epoch
}

// lockOut makes another program write to the file until unlock.
func lockOut(t *testing.T, path string) (unlock func()) {
	t.Helper()
	db := pool(path, "mode=rw", 1)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		_, err := conn.ExecContext(context.Background(), "ROLLBACK")
		if err := errors.Join(err, conn.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	}
}

// A failure that SQLite reports before the commit changes nothing and is named, and the next epoch
// continues.
func TestFailuresThatAreKnown(t *testing.T) {
	for name, c := range map[string]struct {
		statement string
		want      error
	}{
		"full":      {"PRAGMA max_page_count = 1", store.ErrFull}, // the least is what is there
		"read-only": {"PRAGMA query_only = ON", store.ErrReadOnly},
	} {
		t.Run(name, func(t *testing.T) {
			s := at(t, filepath.Join(t.TempDir(), "bursar.db"))
			defer s.Close()
			epoch := fill(t, s, 10)
			execute(t, s, c.statement)
			err := s.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: allocations(5, 2000, 2)})
			if !errors.Is(err, c.want) || errors.Is(err, store.ErrUnknownOutcome) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			err = s.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: allocations(5, 1, 3)})
			if !errors.Is(err, store.ErrDeposed) {
				t.Errorf("after it: %v", err)
			}
			epoch = wantRows(t, s, 1, 10) // on a new connection, without the limit
			if err := s.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: allocations(5, 2000, 2)}); err != nil {
				t.Fatal(err)
			}
			wantRows(t, s, 2, 2004)
		})
	}
}

func TestAnotherProgramWrites(t *testing.T) {
	s := at(t, filepath.Join(t.TempDir(), "bursar.db"))
	defer s.Close()
	epoch := fill(t, s, 10)
	unlock := lockOut(t, s.path)
	err := s.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: allocations(20, 1, 2)})
	if err == nil || errors.Is(err, store.ErrUnknownOutcome) || errors.Is(err, store.ErrDeposed) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Get(t.Context(), 1); err != nil {
		t.Errorf("reading meanwhile: %v", err)
	}
	unlock()
	wantRows(t, s, 1, 10)
}

// atCommit makes SQLite call a function at every COMMIT of the connection that writes, before it
// takes effect. What it returns makes it fail.
func atCommit(t *testing.T, s *Store, hook func() (fail bool)) {
	t.Helper()
	_, err := s.do(t.Context(), func(_ context.Context, w *writer) error {
		return w.conn.Raw(func(conn any) error {
			hooks, ok := conn.(sqlite.HookRegisterer)
			if !ok {
				return errors.New("the driver has no hooks")
			}
			hooks.RegisterCommitHook(func() int32 {
				if hook() {
					return 1
				}
				return 0
			})
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A write that is abandoned in progress is reported as unknown, ends the epoch, and is settled when
// Lead returns.
func TestCommitGivenUp(t *testing.T) {
	s := at(t, filepath.Join(t.TempDir(), "bursar.db"))
	defer s.Close()
	epoch := fill(t, s, 10)
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	atCommit(t, s, func() bool { cancel(); <-release; return false })
	c := allocations(20, 1, 2)
	err := s.Commit(ctx, store.Batch{Epoch: epoch, Changes: c})
	if !errors.Is(err, store.ErrUnknownOutcome) || !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	clear(c.Transitions) // the caller's again
	if err := s.Commit(t.Context(), store.Batch{Epoch: epoch}); !errors.Is(err, store.ErrDeposed) {
		t.Errorf("the epoch goes on: %v", err)
	}
	if a, err := s.Get(t.Context(), 1); err != nil || a.Revision != 1 {
		t.Errorf("reading meanwhile: revision %d, %v", a.Revision, err)
	}
	led := make(chan error, 1)
	go func() {
		_, err := s.Lead(context.Background(), 0)
		led <- err
	}()
	close(release)
	if err := <-led; err != nil {
		t.Fatal(err)
	}
	wantRows(t, s, 2, 11) // it went on, and Lead waited for it
}

// A failed COMMIT whose error leaves open whether the data reached the disk is reported as unknown.
func TestCommitOfUnknownOutcome(t *testing.T) {
	s := at(t, filepath.Join(t.TempDir(), "bursar.db"))
	defer s.Close()
	epoch := fill(t, s, 10)
	atCommit(t, s, func() bool { return true })
	if err := s.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: allocations(20, 1, 2)}); !errors.Is(err, store.ErrUnknownOutcome) {
		t.Fatalf("got %v", err)
	}
	if err := s.Commit(t.Context(), store.Batch{Epoch: epoch}); !errors.Is(err, store.ErrDeposed) {
		t.Errorf("the epoch goes on: %v", err)
	}
	epoch = wantRows(t, s, 1, 10)
	if err := s.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: allocations(20, 1, 2)}); err != nil {
		t.Error(err)
	}
}

// A commit in progress when the next leadership begins belongs to the old one, and precedes the new
// one.
func TestWaitingForTheWriter(t *testing.T) {
	s := at(t, filepath.Join(t.TempDir(), "bursar.db"))
	defer s.Close()
	epoch := fill(t, s, 10)
	started, release := make(chan struct{}), make(chan struct{})
	blocked := make(chan error, 1)
	go func() {
		_, err := s.do(context.Background(), func(context.Context, *writer) error { close(started); <-release; return nil })
		blocked <- err
	}()
	<-started
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []ledger.Changes{{}, allocations(20, 1, 2)} {
		if err := s.Commit(ctx, store.Batch{Epoch: epoch, Changes: c}); !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("it has not begun: %v", err)
		}
	}
	if _, err := s.Lead(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("lead: %v", err)
	}
	close(release)
	if err := <-blocked; err != nil {
		t.Error(err)
	}
	wantRows(t, s, 1, 10)
}

func TestEveryCommitIsSynced(t *testing.T) {
	s := at(t, filepath.Join(t.TempDir(), "bursar.db"))
	defer s.Close()
	settings := func() (mode string, synchronous, carry int) {
		t.Helper()
		_, err := s.do(t.Context(), func(ctx context.Context, w *writer) error {
			return errors.Join(
				w.conn.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode),
				w.conn.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&synchronous),
				w.conn.QueryRowContext(ctx, "PRAGMA wal_autocheckpoint").Scan(&carry))
		})
		if err != nil {
			t.Fatal(err)
		}
		return mode, synchronous, carry
	}
	for range 2 {
		if mode, synchronous, carry := settings(); mode != "wal" || synchronous != 2 || carry != 0 {
			t.Errorf("journal_mode %s, synchronous %d, wal_autocheckpoint %d; want wal, 2 (full), 0", mode, synchronous, carry)
		}
		epoch := fill(t, s, 1)
		execute(t, s, "PRAGMA query_only = ON")
		if err := s.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: allocations(5, 1, 2)}); err == nil {
			t.Fatal("written")
		}
		if _, err := s.Lead(t.Context(), 0); err != nil { // makes a new connection
			t.Fatal(err)
		}
	}
}

// carrying returns a new store with a leader that checkpoints its log from so many pages on.
func carrying(t *testing.T, path string, carry int) (*Store, store.Meta) {
	t.Helper()
	s, err := Open(t.Context(), path, Options{carry: carry})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	meta, err := s.Lead(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return s, meta
}

// Under load without a pause the log stays short, although no commit ever finds all of it
// checkpointed.
func TestLogStaysShort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bursar.db")
	const carry = 64
	s, meta := carrying(t, path, carry)
	const commits, pages = 3000, 3 // at least that many each
	for revision := uint64(1); revision <= commits; revision++ {
		if err := s.Commit(t.Context(), store.Batch{Epoch: meta.Epoch, Changes: allocations(ledger.ID(revision), 1, revision)}); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Size() / 4096; got > commits*pages/2 {
		t.Errorf("the log has %d pages", got)
	} else {
		t.Logf("the log has %d pages after %d commits", got, commits)
	}
	wantRows(t, s, commits, commits)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the log is left behind: %v", err)
	}
}

// Rows with pages of their own fill the log faster: they count with these pages.
func TestLargeRowsCountAsTheirPages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bursar.db")
	const commits, payload = 20, 100 << 10
	s, meta := carrying(t, path, 1<<30) // never: the log keeps all
	length := func() int {
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return int(info.Size() / (pageSize + 24)) // with the head of each page in the log
	}
	before, counted := length(), s.writer.written
	for revision := uint64(1); revision <= commits; revision++ {
		c := allocations(ledger.ID(revision), 1, revision)
		c.Transitions[0].Reason = strings.Repeat("x", payload)
		if err := s.Commit(t.Context(), store.Batch{Epoch: meta.Epoch, Changes: c}); err != nil {
			t.Fatal(err)
		}
	}
	grew := length() - before
	if counted = s.writer.written - counted; 10*counted < 9*grew || counted > 2*grew {
		t.Errorf("%d pages are counted for %d in the log", counted, grew)
	} else {
		t.Logf("%d pages are counted for %d in the log", counted, grew)
	}
}

// If a long reader has made the log grow, the file is truncated again.
func TestTheLogShrinksAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bursar.db")
	const carry = 16
	s, meta := carrying(t, path, carry)
	revision := uint64(0)
	commit := func() (size int64) {
		t.Helper()
		revision++
		if err := s.Commit(t.Context(), store.Batch{Epoch: meta.Epoch, Changes: allocations(ledger.ID(revision), 1, revision)}); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	commit()
	reader, err := s.reading.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readMeta(t.Context(), reader); err != nil { // from here on it holds the log
		t.Fatal(err)
	}
	limit := int64(logLimit(carry))
	for long := int64(0); long < 2*limit; {
		long = commit()
	}
	if err := reader.Rollback(); err != nil {
		t.Fatal(err)
	}
	for tries := 0; commit() > limit+limit/100; tries++ {
		if tries == 2000 {
			t.Fatalf("the log is still longer than %d bytes", limit)
		}
	}
}
