package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/bursar/bursar/coordinator/store"
)

var _ store.Aside = (*Store)(nil)

// SetAside implements store.Aside.
func (s *Store) SetAside(ctx context.Context, table, key string, keep func([]store.AsideRow) error) (meta store.Meta, err error) {
	asWritten, err := store.AsideRows(table, key, escape(key))
	if err != nil {
		return meta, err //nolint:wrapcheck // names table and key
	}
	asGiven, err := store.AsideRows(table, key, key) // the key may not have been escaped
	if err != nil {
		return meta, err //nolint:wrapcheck // names table and key
	}
	if err := s.enter(); err != nil {
		return meta, err
	}
	defer s.leave()
	s.writer.endAny()
	err = s.writer.use(ctx, false, func(conn *pgx.Conn) error {
		return s.server.change(ctx, conn, func(tx pgx.Tx) (err error) {
			meta, err = setAside(ctx, tx, asWritten, keep)
			if errors.Is(err, store.ErrNotFound) && escape(key) != key && !strings.Contains(key, "\x00") {
				meta, err = setAside(ctx, tx, asGiven, keep)
			}
			return err
		})
	})
	if err != nil {
		return store.Meta{}, fmt.Errorf("store: setting aside %s %q: %w", table, key, classify(err))
	}
	return meta, nil
}

func setAside(ctx context.Context, tx pgx.Tx, wheres []store.AsideWhere, keep func([]store.AsideRow) error) (meta store.Meta, err error) {
	// The row of meta stays locked until the transaction ends: a commit of the leader waits, and
	// the leader is then deposed.
	if _, err := tx.Exec(ctx, `UPDATE meta SET epoch = epoch + 1, leadership = '' WHERE one = 1`); err != nil {
		return meta, fmt.Errorf("raising the epoch: %w", err)
	}
	var all []store.AsideRow
	for _, where := range wheres {
		rows, err := readRows(ctx, tx, where)
		if err != nil {
			return meta, err
		}
		if all = append(all, rows...); len(all) == 0 {
			return meta, store.ErrNotFound
		}
	}
	if err := keep(all); err != nil {
		return meta, err
	}
	for _, where := range wheres {
		if _, err := tx.Exec(ctx, where.Delete("$1"), where.Value); err != nil {
			return meta, fmt.Errorf("taking them out: %w", err)
		}
	}
	// standbys have these rows, and no commit has removed them
	if _, err := tx.Exec(ctx, `DELETE FROM change`); err != nil {
		return meta, fmt.Errorf("forgetting the records of changes: %w", err)
	}
	return scanMeta(tx.QueryRow(ctx, metaSQL))
}

// readRows reads all columns of rows.
func readRows(ctx context.Context, tx pgx.Tx, where store.AsideWhere) ([]store.AsideRow, error) {
	rows, err := tx.Query(ctx, where.Select("$1"), where.Value)
	if err != nil {
		return nil, fmt.Errorf("reading them: %w", err)
	}
	defer rows.Close()
	var names []string
	for _, field := range rows.FieldDescriptions() {
		names = append(names, field.Name)
	}
	var all []store.AsideRow
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return nil, fmt.Errorf("reading them: %w", err)
		}
		all = append(all, where.Row(names, values))
	}
	return all, rows.Err() //nolint:wrapcheck // SetAside does
}
