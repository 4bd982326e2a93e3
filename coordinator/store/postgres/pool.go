package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// pool lends connections, made on demand, at most as many as it has slots. Its methods may be called concurrently.
type pool struct {
	server *server
	slots  chan *pgx.Conn // nil: not connected
}

func newPool(s *server, most int) *pool {
	p := &pool{server: s, slots: make(chan *pgx.Conn, most)}
	for range most {
		p.slots <- nil
	}
	return p
}

// read runs something that may be run twice: a connection that turns out to be broken is replaced, once, because a server that was
// started anew has ended those that nobody was using.
func (p *pool) read(ctx context.Context, run func(conn *pgx.Conn) error) error {
	var conn *pgx.Conn
	select {
	case conn = <-p.slots:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { p.slots <- conn }()
	if conn != nil {
		err := run(conn)
		if err == nil || !broken(conn) {
			return err
		}
		abandon(ctx, conn)
		conn = nil
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
	}
	made, err := p.server.connect(ctx, nil)
	if err != nil {
		return err
	}
	conn = made
	if err = run(conn); err != nil && broken(conn) {
		abandon(ctx, conn)
		conn = nil
	}
	return err
}

// broken reports whether a connection cannot be used for the next statement.
func broken(conn *pgx.Conn) bool { return conn.IsClosed() || conn.PgConn().TxStatus() != 'I' }

// close waits for what is under way and closes all connections.
func (p *pool) close() {
	for range cap(p.slots) {
		if conn := <-p.slots; conn != nil {
			abandon(context.Background(), conn)
		}
	}
}
