package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/bursar/bursar/coordinator/store"
)

var _ store.CopyTarget = (*Store)(nil)

const (
	// The lock keeps commits out until the transaction ends.
	copyStateSQL = `SELECT copying, sequence <> 0 OR EXISTS (SELECT 1 FROM allocation) OR EXISTS (SELECT 1 FROM host)
 OR EXISTS (SELECT 1 FROM quota) OR EXISTS (SELECT 1 FROM provider) OR EXISTS (SELECT 1 FROM refusal) OR EXISTS (SELECT 1 FROM launch) FROM meta WHERE one = 1 FOR UPDATE`
	beginCopySQL = `UPDATE meta SET store_id = $1, copying = $2, epoch = epoch + 1, sequence = 0, last_id = 0, ledger_time = 0, outages = '',
 indexed_end = 0, indexed_id = 0, leadership = '', seal_keys = '' WHERE one = 1`
	endCopySQL = `UPDATE meta SET copying = '', sequence = $1, indexed_sequence = $1, last_id = $2, ledger_time = $3, outages = $6
 WHERE one = 1 AND epoch = $4 AND leadership = $5 AND copying <> ''`
)

// BeginCopy implements store.CopyTarget.
func (s *Store) BeginCopy(ctx context.Context, source string) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	s.writer.endAny()
	id := strings.ToLower(rand.Text())
	err := s.writer.use(ctx, false, func(conn *pgx.Conn) error {
		return s.server.change(ctx, conn, func(tx pgx.Tx) error {
			var copying string
			var rows bool
			if err := tx.QueryRow(ctx, copyStateSQL).Scan(&copying, &rows); err != nil {
				return fmt.Errorf("looking at what is there: %w", err)
			}
			if rows && copying == "" {
				return store.RefuseNotEmpty(s.server.where)
			}
			if _, err := tx.Exec(ctx, beginCopySQL, id, source); err != nil {
				return fmt.Errorf("marking the copy: %w", err)
			}
			for _, statement := range []string{
				"DELETE FROM allocation", "DELETE FROM history_index", "DELETE FROM host", "DELETE FROM quota", "DELETE FROM provider", "DELETE FROM refusal", "DELETE FROM launch", "DELETE FROM change",
			} {
				if _, err := tx.Exec(ctx, statement); err != nil {
					return fmt.Errorf("%s: %w", statement, err)
				}
			}
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("store: beginning a copy: %w", classify(err))
	}
	s.server.storeID.Store(&id)
	return nil
}

// EndCopy implements store.CopyTarget.
func (s *Store) EndCopy(ctx context.Context, epoch uint64, source store.Meta) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	err := s.writer.use(ctx, false, func(conn *pgx.Conn) error {
		own, err := s.writer.may(epoch)
		if err != nil {
			return err
		}
		return s.server.change(ctx, conn, func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, endCopySQL,
				store.Signed(source.Sequence), store.Signed(uint64(source.LastID)), int64(source.Time), store.Signed(epoch), own.secret, source.Outages)
			if err == nil && tag.RowsAffected() != 1 {
				err = fmt.Errorf("%w: another copy into this store has begun", store.ErrDeposed)
			}
			return err //nolint:wrapcheck // below
		})
	})
	s.writer.endAny()
	if err != nil && !errors.Is(err, store.ErrDeposed) {
		return fmt.Errorf("store: ending a copy: %w", classify(err))
	}
	return err //nolint:wrapcheck // ours
}
