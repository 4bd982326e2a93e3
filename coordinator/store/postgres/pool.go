package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// readers is how many reads may run at the same time; more wait for each other.
const readers = 4

// limit sets the limits of the pool for reads. The address can lower its size, and can make it
// connect before connections are needed.
func limit(config *pgxpool.Config) {
	config.MaxConns = min(config.MaxConns, readers)
	// A read that finds its connection lost is run again, which costs nothing if none is lost. A
	// ping before a read would go on after its caller has given up, and Close would wait for a
	// silent server.
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
}

// borrow runs a function on a connection of a pool. It reports whether that connection was lost
// meanwhile.
func (s *server) borrow(ctx context.Context, pool *pgxpool.Pool, run func(conn *pgx.Conn) error) (lost bool, err error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		// Other errors are those of preparing a connection, which say what they are.
		if _, unconnected := errors.AsType[*pgconn.ConnectError](err); unconnected || ctx.Err() != nil {
			err = s.refuse(ctx, err)
		}
		return false, err
	}
	defer func() {
		if lost = broken(conn.Conn()); lost {
			// It does not go back to the pool, which would keep its place until the server has
			// closed it: 15 s if the server is silent.
			abandon(ctx, conn.Hijack())
			return
		}
		conn.Release()
	}()
	return false, run(conn.Conn())
}

// read runs a function that may be run twice: again if its connection was lost, because a server
// that was restarted has ended the idle connections. Then all connections of the pool are given
// up.
func (s *server) read(ctx context.Context, pool *pgxpool.Pool, run func(conn *pgx.Conn) error) error {
	lost, err := s.borrow(ctx, pool, run)
	if err == nil || !lost || ctx.Err() != nil {
		return err
	}
	pool.Reset()
	_, err = s.borrow(ctx, pool, run)
	return err
}

// broken reports whether a connection cannot be used for the next statement.
func broken(conn *pgx.Conn) bool { return conn.IsClosed() || conn.PgConn().TxStatus() != 'I' }
