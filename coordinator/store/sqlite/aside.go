package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/bursar/bursar/coordinator/store"
)

var _ store.Aside = (*Store)(nil)

// SetAside implements store.Aside.
func (s *Store) SetAside(ctx context.Context, table, key string, keep func([]store.AsideRow) error) (meta store.Meta, err error) {
	wheres, err := store.AsideRows(table, key, func(text string) string { return text })
	if err != nil {
		return meta, err
	}
	_, err = s.do(ctx, func(ctx context.Context, w *writer) error {
		w.endAny()
		return w.transaction(ctx, func() error {
			if _, err := w.conn.ExecContext(ctx, `UPDATE meta SET epoch = epoch + 1 WHERE one = 1`); err != nil {
				return err
			}
			var all []store.AsideRow
			for _, where := range wheres {
				rows, err := w.whole(ctx, where)
				if err != nil {
					return err
				}
				if all = append(all, rows...); len(all) == 0 {
					return store.ErrNotFound
				}
			}
			if err := keep(all); err != nil {
				return err
			}
			for _, where := range wheres {
				if _, err := w.conn.ExecContext(ctx, where.Delete("?"), where.Value); err != nil {
					return err
				}
			}
			meta, err = readMeta(ctx, w.conn)
			return err
		})
	})
	if err != nil {
		return store.Meta{}, fmt.Errorf("store: setting aside %s %q: %w", table, key, classify(err))
	}
	return meta, nil
}

// whole reads all columns of rows.
func (w *writer) whole(ctx context.Context, where store.AsideWhere) (all []store.AsideRow, err error) {
	rows, err := w.conn.QueryContext(ctx, where.Select("?"), where.Value)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	values, into := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		all = append(all, where.Row(names, values))
	}
	return all, rows.Err()
}
