package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"

	"github.com/jackc/pgx/v5"
)

// database makes a connection of ours one of database/sql, which is what the migrations' library speaks: the migrations run in
// the session that holds their lock. It closes nothing. It can do what migrations need: no prepared statements, and answers
// that fit into memory.
func database(conn *pgx.Conn) *sql.DB {
	db := sql.OpenDB(session{conn})
	db.SetMaxOpenConns(1)
	return db
}

// session is the driver, its only connection, and what makes it.
type session struct{ conn *pgx.Conn }

var (
	_ driver.Connector      = session{}
	_ driver.ConnBeginTx    = session{}
	_ driver.ExecerContext  = session{}
	_ driver.QueryerContext = session{}
)

var errUnsupported = errors.New("postgres: not for migrations")

func (s session) Connect(context.Context) (driver.Conn, error) { return s, nil }
func (s session) Driver() driver.Driver                        { return s }
func (s session) Open(string) (driver.Conn, error)             { return s, nil }
func (s session) Prepare(string) (driver.Stmt, error)          { return nil, errUnsupported }
func (s session) Begin() (driver.Tx, error)                    { return nil, errUnsupported }
func (s session) Close() error                                 { return nil }

func (s session) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	tx, err := s.conn.Begin(ctx)
	if err != nil {
		return nil, err //nolint:wrapcheck // its caller does
	}
	return transaction{ctx, tx}, nil
}

func (s session) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	tag, err := s.conn.Exec(ctx, query, values(args)...)
	return driver.RowsAffected(tag.RowsAffected()), err //nolint:wrapcheck // its caller does
}

func (s session) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	found, err := s.conn.Query(ctx, query, values(args)...)
	if err != nil {
		return nil, err //nolint:wrapcheck // its caller does
	}
	defer found.Close()
	var all rows
	for _, field := range found.FieldDescriptions() {
		all.columns = append(all.columns, field.Name)
	}
	for found.Next() {
		row, err := found.Values()
		if err != nil {
			return nil, err //nolint:wrapcheck // its caller does
		}
		all.rows = append(all.rows, row)
	}
	return &all, found.Err() //nolint:wrapcheck // its caller does
}

func values(args []driver.NamedValue) []any {
	list := make([]any, len(args))
	for i := range args {
		list[i] = args[i].Value
	}
	return list
}

type transaction struct {
	ctx context.Context //nolint:containedctx // database/sql ends a transaction without one
	tx  pgx.Tx
}

func (t transaction) Commit() error   { return t.tx.Commit(t.ctx) }   //nolint:wrapcheck // its caller does
func (t transaction) Rollback() error { return t.tx.Rollback(t.ctx) } //nolint:wrapcheck // its caller does

// rows are an answer in full.
type rows struct {
	columns []string
	rows    [][]any
}

func (r *rows) Columns() []string { return r.columns }
func (r *rows) Close() error      { return nil }

func (r *rows) Next(into []driver.Value) error {
	if len(r.rows) == 0 {
		return io.EOF
	}
	for i, value := range r.rows[0] {
		into[i] = value
	}
	r.rows = r.rows[1:]
	return nil
}
