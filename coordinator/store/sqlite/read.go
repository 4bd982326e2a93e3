package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

const (
	getSQL = `SELECT id, forget, payload FROM allocation WHERE id = ?`
	// The last condition is that of the index.
	launchSQL = `SELECT payload FROM launch WHERE id = ?`

	getByRequestSQL = `SELECT id, forget, payload FROM allocation WHERE request_id = ? AND caller = ? AND forget = 0 AND request_id <> ''
 ORDER BY id DESC LIMIT 1`
	historySQL = `SELECT id, ended, state, host_id, forget, payload FROM allocation WHERE ended > 0 AND (ended, id) < (?, ?)
 ORDER BY ended DESC, id DESC LIMIT ?`
)

// endsSQL counts rows with store.CountsOnHost on their host. It needs only the length of the
// payload, which is in the row's header. It reads the payload if the caller may be a subordinate
// user id: the payload names the charged user.
const endsSQL = `SELECT id, ended, CASE WHEN state < 256 THEN caller ELSE '@' || host_id END,
 length(payload) + 2 * (octet_length(caller) + octet_length(request_id)) + octet_length(host_id),
 CASE WHEN state < 256 AND (caller GLOB '[0-9]*' OR caller GLOB 'uid:[0-9]*' OR caller GLOB 'local:[0-9]*' OR caller GLOB 'local:uid:[0-9]*') THEN payload END FROM allocation
 WHERE ended > 0 AND ended <= 9223372036854775807 AND (ended, id) > (?, ?) ORDER BY ended, id LIMIT ?`

// reads are the statements of single reads, prepared on each connection that uses them.
type reads struct {
	meta, get, getByRequest, history, ends *sql.Stmt
	launch                                 *sql.Stmt
	remembered, rememberedOf               *sql.Stmt
	indexed, toIndex, rare, nextEntry      *sql.Stmt
	found                                  [store.MostTerms]*sql.Stmt // by the number of other terms
}

func (r *reads) prepare(ctx context.Context, db *sql.DB) error {
	for statement, query := range r.all() {
		var err error
		if *statement, err = db.PrepareContext(ctx, query); err != nil { //nolint:sqlclosecheck // close does
			return errors.Join(err, r.close())
		}
	}
	return nil
}

// all returns every statement with its text.
func (r *reads) all() map[**sql.Stmt]string {
	all := map[**sql.Stmt]string{
		&r.meta: metaSQL, &r.get: getSQL, &r.getByRequest: getByRequestSQL, &r.history: historySQL, &r.ends: endsSQL,
		&r.launch:     launchSQL,
		&r.remembered: rememberedSQL, &r.rememberedOf: rememberedOfSQL,
		&r.indexed: indexedSQL, &r.toIndex: toIndexSQL, &r.rare: rareSQL, &r.nextEntry: nextEntrySQL,
	}
	for others := range r.found {
		all[&r.found[others]] = foundSQL(others)
	}
	return all
}

func (r *reads) close() error {
	var err error
	for statement := range r.all() {
		if *statement != nil {
			err = errors.Join(err, (*statement).Close())
		}
	}
	return err
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, id ledger.ID) (ledger.Allocation, error) {
	return s.get(ctx, s.reads.get, store.Signed(uint64(id)))
}

// Launch implements store.Store.
func (s *Store) Launch(ctx context.Context, id ledger.ID) (spec []byte, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	err = s.reads.launch.QueryRowContext(ctx, store.Signed(uint64(id))).Scan(&spec)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, store.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("store: reading a launch: %w", classify(err))
	}
	return spec, nil
}

// GetByRequest implements store.Store.
func (s *Store) GetByRequest(ctx context.Context, caller, requestID string) (ledger.Allocation, error) {
	return s.get(ctx, s.reads.getByRequest, requestID, caller)
}

func (s *Store) get(ctx context.Context, statement *sql.Stmt, args ...any) (ledger.Allocation, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return ledger.Allocation{}, store.ErrClosed
	}
	var id int64
	var forget column[int64]
	var payload []byte
	err := statement.QueryRowContext(ctx, args...).Scan(&id, &forget, &payload)
	if errors.Is(err, sql.ErrNoRows) {
		return ledger.Allocation{}, store.ErrNotFound
	}
	if err != nil {
		return ledger.Allocation{}, fmt.Errorf("store: reading an allocation: %w", classify(err))
	}
	if wrong := broken(id, "forget", forget.wrong); wrong != nil {
		return ledger.Allocation{}, wrong.Err()
	}
	return store.DecodeAllocation(ledger.ID(store.Unsigned(id)), forget.value != 0, payload)
}

// Ends implements store.Store.
func (s *Store) Ends(ctx context.Context, after store.Position, limit int) ([]store.End, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	list, err := s.listEnds(ctx, after, limit)
	if err != nil {
		return nil, fmt.Errorf("store: reading the ends of the history: %w", classify(err))
	}
	return list, nil
}

func (s *Store) listEnds(ctx context.Context, after store.Position, limit int) ([]store.End, error) {
	rows, err := s.reads.ends.QueryContext(ctx, int64(after.Ended), store.Signed(uint64(after.ID)), limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []store.End
	for rows.Next() {
		var id int64
		var ended column[int64]
		var e store.End
		var payload []byte
		if err := rows.Scan(&id, &ended, &e.Caller, &e.Bytes, &payload); err != nil {
			return nil, err
		}
		if wrong := broken(id, "ended", ended.wrong); wrong != nil {
			return nil, wrong.Err()
		}
		e.Position = store.Position{Ended: ledger.Instant(ended.value), ID: ledger.ID(store.Unsigned(id))}
		e.Bytes += store.RowOverhead
		e.Charge(payload)
		list = append(list, e)
	}
	return list, rows.Err()
}

// Follow implements store.Store.
func (s *Store) Follow(context.Context, store.Mark) (store.Followed, error) {
	return store.Followed{}, store.ErrNotFollowed
}

// Totals implements store.Store.
func (s *Store) Totals(context.Context) (store.Totals, error) {
	return store.Totals{}, store.ErrNotFollowed
}

// CatchUp implements store.Store.
func (s *Store) CatchUp(context.Context, store.Mark) (store.Followed, error) {
	return store.Followed{}, store.ErrNotFollowed
}
