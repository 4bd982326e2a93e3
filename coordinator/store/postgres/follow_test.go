package postgres

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
)

// execute runs statements on the writer's connection.
func execute(t *testing.T, s *Store, statements ...string) {
	t.Helper()
	err := s.writer.use(t.Context(), false, func(conn *pgx.Conn) error {
		for _, statement := range statements {
			if _, err := conn.Exec(t.Context(), statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, s *Store, query string) (n int) {
	t.Helper()
	err := s.writer.use(t.Context(), false, func(conn *pgx.Conn) error { return conn.QueryRow(t.Context(), query).Scan(&n) })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func followed(t *testing.T, s *Store, since store.Mark) store.Followed {
	t.Helper()
	f, err := s.Follow(t.Context(), since)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Commits of a version without records are a gap: while it leads there is no record of the store's
// state, and a later leader does not continue from an earlier read.
func TestWhatAnOlderVersionHasCommittedIsAGap(t *testing.T) {
	s := opened(t, emptySchema(t))
	fill(t, s, 3)
	before := followed(t, s, store.Mark{})
	execute(t, s, `UPDATE meta SET epoch = epoch + 1, leadership = 'older', sequence = sequence + 1`,
		`UPDATE allocation SET ended = 1 WHERE id = 2`)
	if f := followed(t, s, before.Mark); f.Mark != (store.Mark{}) {
		t.Errorf("read %+v; want that nothing names the state", f.Mark)
	}
	if _, err := s.CatchUp(t.Context(), before.Mark); !errors.Is(err, store.ErrGap) {
		t.Errorf("while it leads: %v; want a gap", err)
	}
	meta, err := s.Lead(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.CatchUp(t.Context(), before.Mark); !errors.Is(err, store.ErrGap) {
		t.Errorf("afterwards: %v; want a gap", err)
	}
	commitOne(t, s, meta.Epoch, meta.Sequence+1)
	if _, err := s.CatchUp(t.Context(), before.Mark); !errors.Is(err, store.ErrGap) {
		t.Errorf("after one more commit: %v; want a gap", err)
	}
	if f := followed(t, s, before.Mark); !f.Whole || len(f.Rows.Allocations) != 2 {
		t.Errorf("read %d allocations, whole: %t; want all two", len(f.Rows.Allocations), f.Whole)
	}
}

// A commit that does not raise the sequence has no record. Reads of changes stop at that gap.
func TestACommitWithoutARecordIsAGap(t *testing.T) {
	s := opened(t, emptySchema(t))
	epoch := fill(t, s, 3)
	before := followed(t, s, store.Mark{})
	c := ledger.Changes{Revision: 1, LastID: 3, HostsRemoved: []string{"h"}}
	if err := s.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: c}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CatchUp(t.Context(), before.Mark); !errors.Is(err, store.ErrGap) {
		t.Errorf("%v; want a gap", err)
	}
}

// No commit removed a row that was set aside. Reads of changes stop at that gap.
func TestWhatIsSetAsideIsAGap(t *testing.T) {
	s := opened(t, emptySchema(t))
	fill(t, s, 3)
	before := followed(t, s, store.Mark{})
	if _, err := s.SetAside(t.Context(), store.AllocationTable, ledger.ID(2).String(), func([]store.AsideRow) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Lead(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CatchUp(t.Context(), before.Mark); !errors.Is(err, store.ErrGap) {
		t.Errorf("%v; want a gap", err)
	}
	if f := followed(t, s, before.Mark); !f.Whole || len(f.Rows.Allocations) != 2 {
		t.Errorf("read %d allocations, whole: %t; want the two that are left", len(f.Rows.Allocations), f.Whole)
	}
}

// A leadership that cannot begin its records begins nevertheless. Its first commit has a record.
func TestALeadershipBeginsWithoutRecords(t *testing.T) {
	s := opened(t, emptySchema(t))
	fill(t, s, 3)
	execute(t, s, `DELETE FROM change`, `ALTER TABLE change RENAME TO away`)
	meta, err := s.Lead(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	execute(t, s, `ALTER TABLE away RENAME TO change`)
	if f := followed(t, s, store.Mark{}); f.Mark != (store.Mark{}) || f.Meta.Epoch != meta.Epoch {
		t.Errorf("read %+v; want that nothing names the state", f)
	}
	commitOne(t, s, meta.Epoch, meta.Sequence+1)
	if f := followed(t, s, store.Mark{}); !f.Whole || f.Mark.Sequence != meta.Sequence+1 {
		t.Errorf("after a commit: %+v, whole: %t; want all", f.Mark, f.Whole)
	}
}

// The records of earlier leaderships are removed at the beginning of a leadership, and later in
// steps. Records that are later than the store's state do no harm.
func TestRecordsAreBounded(t *testing.T) {
	s := opened(t, emptySchema(t))
	fill(t, s, 1)
	execute(t, s, `INSERT INTO change (sequence, before, leadership, keys)
 SELECT s, s - 1, 'before', '' FROM generate_series(2, 20000) AS s`, `UPDATE meta SET sequence = 19999`)
	before := followed(t, s, store.Mark{})
	meta, err := s.Lead(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if n := count(t, s, `SELECT count(*) FROM change`); n > store.RecordsKept {
		t.Errorf("%d records; want at most %d", n, store.RecordsKept)
	}
	for i := range uint64(3) {
		commitOne(t, s, meta.Epoch, meta.Sequence+1+i)
	}
	if f, err := s.CatchUp(t.Context(), before.Mark); err != nil || f.Mark.Sequence != meta.Sequence+3 || len(f.Rows.Allocations) != 1 {
		t.Errorf("caught up to %+v, %v", f.Mark, err)
	}
	s.writer.records.commits, s.writer.records.left[0] = store.RecordsKept, store.Signed(meta.Sequence)
	commitOne(t, s, meta.Epoch, meta.Sequence+4)
	if n := count(t, s, `SELECT count(*) FROM change`); n != 4 {
		t.Errorf("%d records; want those of the last four commits", n)
	}
}

// Records are removed in steps, and never too many.
func TestSoManyRecordsAreKept(t *testing.T) {
	var kept records
	removed := int64(0)
	for sequence := range int64(3 * store.RecordsKept) {
		upTo, due := kept.committed(sequence)
		if due {
			removed = upTo
		}
		left := sequence - removed
		if left > store.RecordsKept+store.RecordsKept/store.RecordSteps {
			t.Fatalf("%d records are left", left)
		}
		if due && left < store.RecordsKept {
			t.Fatalf("only %d records are left", left)
		}
	}
}

// commitOne commits a change of the allocation 1, with a sequence.
func commitOne(t *testing.T, s *Store, epoch, sequence uint64) {
	t.Helper()
	c := ledger.Changes{Revision: sequence, Transitions: []ledger.Allocation{storetest.Typical(1, ledger.Active, sequence)}}
	if err := s.Commit(t.Context(), store.Batch{Epoch: epoch, Changes: c}); err != nil {
		t.Fatal(err)
	}
}

// A standby keeps a connection for its first commit. If the server ends that connection, it makes
// another one.
func TestWhoFollowsIsConnectedForALeadership(t *testing.T) {
	dsn := emptySchema(t)
	s, other := opened(t, dsn), opened(t, dsn)
	pid := func() uint32 {
		conn := <-s.writer.turn
		defer func() { s.writer.turn <- conn }()
		if conn == nil {
			return 0
		}
		return conn.PgConn().PID()
	}
	if pid() != 0 {
		t.Fatal("it is connected before it follows")
	}
	followed(t, s, store.Mark{})
	first := pid()
	if _, err := s.Lead(t.Context(), 0); err != nil || first == 0 || pid() != first {
		t.Errorf("%v; connected as %d, and %d leads", err, first, pid())
	}
	if n := count(t, other, fmt.Sprintf("SELECT count(*) FROM pg_terminate_backend(%d) WHERE pg_terminate_backend", first)); n != 1 {
		t.Fatal("the server does not end the connection")
	}
	for range aheadPasses + 1 {
		followed(t, s, store.Mark{})
	}
	if again := pid(); again == 0 || again == first {
		t.Errorf("connected as %d; before it was %d", again, first)
	}
	if _, err := s.Lead(t.Context(), 0); err != nil {
		t.Error(err)
	}
}
