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
	asBytes, err := store.AsideRows(table, key, []byte(key))
	if err != nil {
		return meta, err
	}
	asText, err := store.AsideRows(table, key, key)
	if err != nil {
		return meta, err
	}
	_, err = s.do(ctx, func(ctx context.Context, w *writer) error {
		w.endAny()
		return w.transaction(ctx, func() error {
			if _, err := w.conn.ExecContext(ctx, `UPDATE meta SET epoch = epoch + 1 WHERE one = 1`); err != nil {
				return err
			}
			// a key of bytes is garbage, even if there is a text of the same bytes
			wheres := asBytes
			all, err := w.readAside(ctx, wheres)
			if err == nil && len(all) == 0 {
				wheres = asText
				all, err = w.readAside(ctx, wheres)
			}
			switch {
			case err != nil:
				return err
			case len(all) == 0:
				return store.ErrNotFound
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

// readAside reads the rows that are set aside together; none if the first does not exist.
func (w *writer) readAside(ctx context.Context, wheres []store.AsideWhere) (all []store.AsideRow, err error) {
	for _, where := range wheres {
		rows, err := w.readRows(ctx, where)
		if err != nil {
			return nil, err
		}
		if all = append(all, rows...); len(all) == 0 {
			return nil, nil
		}
	}
	return all, nil
}

// readRows reads all columns of rows.
func (w *writer) readRows(ctx context.Context, where store.AsideWhere) (all []store.AsideRow, err error) {
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
