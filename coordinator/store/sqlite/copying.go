package sqlite

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/bursar/bursar/coordinator/store"
)

var _ store.CopyTarget = (*Store)(nil)

const (
	copyStateSQL = `SELECT copying, sequence <> 0 OR EXISTS (SELECT 1 FROM allocation) OR EXISTS (SELECT 1 FROM host)
 OR EXISTS (SELECT 1 FROM quota) OR EXISTS (SELECT 1 FROM provider) OR EXISTS (SELECT 1 FROM refusal) OR EXISTS (SELECT 1 FROM launch) FROM meta WHERE one = 1`
	beginCopySQL = `UPDATE meta SET store_id = ?, copying = ?, epoch = epoch + 1, sequence = 0, last_id = 0, ledger_time = 0, outages = '',
 indexed_end = 0, indexed_id = 0, seal_keys = X'' WHERE one = 1`
	endCopySQL = `UPDATE meta SET copying = '', sequence = ?, last_id = ?, ledger_time = ?, outages = ? WHERE one = 1 AND epoch = ? AND copying <> ''`
)

// BeginCopy implements store.CopyTarget.
func (s *Store) BeginCopy(ctx context.Context, source string) error {
	_, err := s.do(ctx, func(ctx context.Context, w *writer) error {
		w.endAny()
		return w.transaction(ctx, func() error {
			var copying string
			var rows bool
			if err := w.conn.QueryRowContext(ctx, copyStateSQL).Scan(&copying, &rows); err != nil {
				return err
			}
			if rows && copying == "" {
				return store.RefuseNotEmpty(s.path)
			}
			if _, err := w.conn.ExecContext(ctx, beginCopySQL, strings.ToLower(rand.Text()), source); err != nil {
				return err
			}
			if err := w.overwrite(ctx, true); err != nil {
				return err
			}
			for _, statement := range []string{
				"DELETE FROM allocation", "DELETE FROM history_index", "DELETE FROM host", "DELETE FROM quota", "DELETE FROM provider", "DELETE FROM refusal", "DELETE FROM launch",
			} {
				if _, err := w.conn.ExecContext(ctx, statement); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("store: beginning a copy: %w", classify(err))
	}
	return nil
}

// EndCopy implements store.CopyTarget.
func (s *Store) EndCopy(ctx context.Context, epoch uint64, source store.Meta) error {
	_, err := s.do(ctx, func(ctx context.Context, w *writer) error {
		defer w.endAny()
		if err := w.check(epoch); err != nil {
			return err
		}
		return w.transaction(ctx, func() error {
			result, err := w.conn.ExecContext(ctx, endCopySQL,
				store.Signed(source.Sequence), store.Signed(uint64(source.LastID)), int64(source.Time), source.Outages, store.Signed(epoch))
			if err != nil {
				return err
			}
			if n, err := result.RowsAffected(); err != nil || n != 1 {
				return errors.Join(err, fmt.Errorf("%w: no copy is under way", store.ErrDeposed))
			}
			return nil
		})
	})
	if err != nil && !errors.Is(err, store.ErrDeposed) {
		return fmt.Errorf("store: ending a copy: %w", classify(err))
	}
	return err
}
