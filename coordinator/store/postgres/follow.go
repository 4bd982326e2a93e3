package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

const (
	// The first one is the record of the mark itself.
	recordsSQL      = `SELECT sequence, before, leadership, keys FROM change WHERE sequence >= $1 ORDER BY sequence LIMIT $2`
	lastRecordSQL   = `SELECT leadership FROM change WHERE sequence = $1`
	changedSQL      = `SELECT id, ended, forget, payload FROM allocation WHERE id = ANY($1::bigint[]) ORDER BY id`
	changedHostsSQL = `SELECT id, payload FROM host WHERE id = ANY($1::text[]) ORDER BY id`
	lastEndSQL      = `SELECT ended FROM allocation ORDER BY ended DESC, id DESC LIMIT 1`
	totalsSQL       = `SELECT (SELECT epoch FROM meta WHERE one = 1), count(*), coalesce(sum(id % 1000000007), 0)::bigint, (SELECT count(*) FROM host)
 FROM allocation WHERE ended = 0`

	// Records later than the present state belong to another past, and would conflict with commits.
	clearRecordsSQL = `DELETE FROM change WHERE sequence > (SELECT sequence FROM meta WHERE one = 1 AND leadership = $1)
 OR sequence <= (SELECT sequence FROM change ORDER BY sequence DESC OFFSET $2 LIMIT 1)`
	// The initial state of a leadership gets a record, if it has none.
	beginRecordsSQL = `INSERT INTO change (sequence, leadership, before, keys)
 SELECT sequence, leadership, sequence, '' FROM meta WHERE one = 1 AND leadership = $1 ON CONFLICT (sequence) DO NOTHING`
	forgetRecordsSQL = `DELETE FROM change WHERE sequence <= $1`

	recordPart = `, recorded AS (INSERT INTO change (sequence, before, leadership, keys) SELECT $::bigint, $::bigint, $::text, $::bytea FROM led)`
	// Earlier records no longer lead to the present state.
	unrecordPart = `, unrecorded AS (DELETE FROM change USING led)`
)

// mostRecords bounds the records that a reader catches up with after an absence: beyond it, reading
// all rows is as fast.
const mostRecords = store.RecordsKept

// Follow implements store.Store.
func (s *Store) Follow(ctx context.Context, since store.Mark) (f store.Followed, err error) {
	err = s.readState(ctx, "following", func(tx pgx.Tx) error {
		f = store.Followed{}
		return follow(ctx, tx, since, &f)
	})
	if err == nil && s.enter() == nil {
		s.writer.connectAhead(ctx)
		s.leave()
	}
	return f, err
}

// CatchUp implements store.Store.
func (s *Store) CatchUp(ctx context.Context, since store.Mark) (f store.Followed, err error) {
	err = s.readState(ctx, "catching up", func(tx pgx.Tx) error {
		f = store.Followed{}
		return catchUp(ctx, tx, since, &f)
	})
	return f, err
}

// Totals implements store.Store.
func (s *Store) Totals(ctx context.Context) (t store.Totals, err error) {
	err = s.read(ctx, "adding up", func(conn *pgx.Conn) error {
		var epoch int64
		err := conn.QueryRow(ctx, totalsSQL).Scan(&epoch, &t.Live, &t.IDs, &t.Hosts)
		t.Epoch = store.Unsigned(epoch)
		return err //nolint:wrapcheck // read does
	})
	return t, err
}

// readState runs reads that see the state after one batch. It may run them twice.
func (s *Store) readState(ctx context.Context, what string, run func(pgx.Tx) error) error {
	return s.read(ctx, what, func(conn *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, run)
	})
}

func follow(ctx context.Context, tx pgx.Tx, since store.Mark, f *store.Followed) error {
	changed, proven, err := begin(ctx, tx, since, f)
	if err != nil {
		return err
	}
	if proven {
		f.Rest = changed.Rest
		err = readChanged(ctx, tx, changed, f)
	} else {
		f.Mark = store.Mark{Sequence: f.Meta.Sequence}
		err = tx.QueryRow(ctx, lastRecordSQL, store.Signed(f.Meta.Sequence)).Scan(&f.Mark.Leadership)
		if errors.Is(err, pgx.ErrNoRows) {
			f.Mark = store.Mark{}
			return nil
		}
		f.Whole, f.Rest = true, true
		if err == nil {
			err = loadAll(ctx, tx, f)
		}
	}
	if err != nil || !f.Rest {
		return err
	}
	return loadRest(ctx, tx, &f.Rows)
}

func catchUp(ctx context.Context, tx pgx.Tx, since store.Mark, f *store.Followed) error {
	changed, proven, err := begin(ctx, tx, since, f)
	switch {
	case err != nil:
		return err
	case !proven:
		return store.ErrGap
	}
	damaged, err := loadStrays(ctx, tx)
	if err != nil {
		return err
	}
	if len(damaged) > 0 { // it may be live: Load finds out
		return damaged[0].Err()
	}
	f.Rest = true
	if err := readChanged(ctx, tx, changed, f); err != nil {
		return err
	}
	return loadRest(ctx, tx, &f.Rows)
}

// begin reads meta, and the records since a mark.
func begin(ctx context.Context, tx pgx.Tx, since store.Mark, f *store.Followed) (changed store.ChangedKeys, proven bool, err error) {
	if f.Meta, err = scanMeta(tx.QueryRow(ctx, metaSQL)); err != nil {
		return changed, false, err
	}
	f.Rows.Revision, f.Rows.LastID, f.Rows.Time, f.Rows.Outages = f.Meta.Sequence, f.Meta.LastID, f.Meta.Time, f.Meta.Outages
	if since == (store.Mark{}) {
		return changed, false, nil
	}
	f.Mark, changed, proven, err = readRecords(ctx, tx, since, f.Meta.Sequence)
	return changed, proven, err
}

// loadAll reads all hosts and live allocations, and the latest end.
func loadAll(ctx context.Context, tx pgx.Tx, f *store.Followed) (err error) {
	if err := tx.QueryRow(ctx, lastEndSQL).Scan((*int64)(&f.LastEnd)); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("the latest end: %w", err)
	}
	if f.Rows.Hosts, err = loadKeyed(ctx, tx, store.HostTable, loadHostsSQL, store.DecodeHost); err != nil {
		return err
	}
	return loadLive(ctx, tx, &f.Rows, nil)
}

// loadRest reads all rules, providers and refusals.
func loadRest(ctx context.Context, tx pgx.Tx, to *ledger.Snapshot) (err error) {
	if to.Quotas, err = loadKeyed(ctx, tx, store.QuotaTable, loadQuotasSQL, store.DecodeQuota); err != nil {
		return err
	}
	if to.Providers, err = loadKeyed(ctx, tx, store.ProviderTable, loadProvidersSQL, store.DecodeProvider); err != nil {
		return err
	}
	to.Refusals, err = loadKeyed(ctx, tx, store.RefusalTable, loadRefusalsSQL, store.DecodeRefusal)
	return err
}

// readRecords reads the records of the commits since a mark. They are proven if they form a chain
// from the mark's own record to the present sequence. Commits of a version that keeps no records
// leave a gap.
func readRecords(ctx context.Context, tx pgx.Tx, since store.Mark, present uint64) (mark store.Mark, changed store.ChangedKeys, proven bool, err error) {
	found, err := tx.Query(ctx, recordsSQL, store.Signed(since.Sequence), mostRecords)
	if err != nil {
		return mark, changed, false, fmt.Errorf("records of changes: %w", err)
	}
	defer found.Close()
	for found.Next() {
		var sequence, before int64
		var leadership string
		var keys pgtype.DriverBytes // valid until the next row
		if err := found.Scan(&sequence, &before, &leadership, &keys); err != nil {
			return mark, changed, false, fmt.Errorf("records of changes: %w", err)
		}
		at := store.Mark{Sequence: store.Unsigned(sequence), Leadership: leadership}
		if mark == (store.Mark{}) {
			if at != since {
				return mark, changed, false, nil
			}
		} else if store.Unsigned(before) != mark.Sequence || changed.Add(keys) != nil {
			return mark, changed, false, nil
		}
		mark = at
	}
	return mark, changed, mark.Sequence == present && mark != (store.Mark{}), found.Err() //nolint:wrapcheck // read does
}

// readChanged reads the current rows with these keys.
func readChanged(ctx context.Context, tx pgx.Tx, keys store.ChangedKeys, f *store.Followed) error {
	if len(keys.Allocations) > 0 {
		if err := readChangedAllocations(ctx, tx, keys.Allocations, f); err != nil {
			return err
		}
	}
	if len(keys.Hosts) == 0 {
		return nil
	}
	gone := make(map[string]struct{}, len(keys.Hosts))
	escaped := make([]string, len(keys.Hosts))
	for i, id := range keys.Hosts {
		gone[id], escaped[i] = struct{}{}, escape(id)
	}
	var err error
	if f.Rows.Hosts, err = loadKeyed(ctx, tx, store.HostTable, changedHostsSQL, store.DecodeHost, escaped); err != nil {
		return err
	}
	for i := range f.Rows.Hosts {
		delete(gone, f.Rows.Hosts[i].ID)
	}
	for id := range gone {
		f.HostsRemoved = append(f.HostsRemoved, id)
	}
	return nil
}

func readChangedAllocations(ctx context.Context, tx pgx.Tx, changed []ledger.ID, f *store.Followed) error {
	gone := make(map[ledger.ID]struct{}, len(changed))
	ids := make([]int64, 0, len(changed))
	for _, id := range changed {
		if _, twice := gone[id]; !twice {
			ids = append(ids, store.Signed(uint64(id)))
		}
		gone[id] = struct{}{}
	}
	found, err := tx.Query(ctx, changedSQL, ids)
	if err != nil {
		return fmt.Errorf("changed allocations: %w", err)
	}
	defer found.Close()
	for found.Next() {
		var id, ended, forget int64
		var payload pgtype.DriverBytes // valid until the next row
		if err := found.Scan(&id, &ended, &forget, &payload); err != nil {
			return named(err, id)
		}
		if ended != 0 {
			continue
		}
		a, err := store.DecodeAllocation(ledger.ID(store.Unsigned(id)), forget != 0, payload)
		if err != nil {
			return err //nolint:wrapcheck // names the row
		}
		delete(gone, a.ID)
		f.Rows.Allocations = append(f.Rows.Allocations, a)
	}
	for id := range gone {
		f.Ended = append(f.Ended, id)
	}
	return found.Err() //nolint:wrapcheck // read does
}

// record adds the parts of a statement that record its changed rows. A commit that does not raise
// the sequence cannot have a record of its own.
func (a *arguments) record(own term, add func(some bool, part string, args ...any)) {
	if store.Unsigned(a.rows.Sequence) <= store.Unsigned(own.sequence) {
		add(a.rows.ChangesRows(), unrecordPart)
		return
	}
	before := own.sequence
	if a.change = a.rows.Changed(a.change[:0]); a.change == nil { // too many: the chain breaks
		a.change, before = []byte{}, a.rows.Sequence
	}
	add(true, recordPart, a.rows.Sequence, before, own.secret, a.change)
}

// beginRecords begins the records of a leadership, and removes old ones, because a leadership may
// end before it has removed any. If that fails, this coordinator leads all the same, but standbys
// cannot follow the store until the first commit.
func (s *Store) beginRecords(ctx context.Context, conn *pgx.Conn, secret string) {
	s.writer.records = records{}
	batch := &pgx.Batch{} // one commit: a leadership waits for it
	batch.Queue(clearRecordsSQL, secret, store.RecordsKept)
	batch.Queue(beginRecordsSQL, secret)
	if err := conn.SendBatch(ctx, batch).Close(); err != nil {
		s.server.log.Warn("the records of changes cannot be begun: coordinators that stand by cannot follow until the first commit", "error", err)
	}
}

// forgetRecords removes old records after some of the commits. This is a separate statement,
// because not every compatible database lets one statement change a table twice.
func (s *Store) forgetRecords(ctx context.Context, conn *pgx.Conn, sequence int64) {
	upTo, due := s.writer.records.committed(sequence)
	if !due {
		return
	}
	if _, err := conn.Exec(ctx, forgetRecordsSQL, upTo); err != nil {
		s.server.log.Warn("old records of changes cannot be removed: trying again later", "error", err)
	}
}

// records are the sequences after a leadership's commits: of one in every few commits, the oldest
// first.
type records struct {
	left    [store.RecordSteps]int64
	commits int
}

// committed counts a commit and its sequence. It returns up to which sequence records must be
// removed, if that is due.
func (r *records) committed(sequence int64) (upTo int64, due bool) {
	r.commits++
	if r.commits%(store.RecordsKept/store.RecordSteps) != 1 {
		return 0, false
	}
	upTo = r.left[0]
	copy(r.left[:], r.left[1:])
	r.left[len(r.left)-1] = sequence
	return upTo, r.commits > store.RecordsKept
}
