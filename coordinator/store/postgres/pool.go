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

// limit limits the pool for reads. The address can lower its size, and can make it connect before
// connections are needed.
func limit(config *pgxpool.Config) {
	config.MaxConns = min(config.MaxConns, readers)
	// A read whose connection was lost runs again, which costs nothing if none is lost. A ping
	// before a read would go on after its caller has given up, and Close would wait for a silent
	// server.
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
}

// borrow runs a function on a connection of a pool. It reports whether that connection was lost
// meanwhile.
func (s *server) borrow(ctx context.Context, pool *pgxpool.Pool, run func(conn *pgx.Conn) error) (lost bool, err error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		// Other errors come from preparing a connection, and are complete.
		if _, unconnected := errors.AsType[*pgconn.ConnectError](err); unconnected || ctx.Err() != nil {
			err = s.refuse(ctx, err)
		}
		return false, err
	}
	defer func() {
		if lost = broken(conn.Conn()); lost {
			// Do not return it to the pool, which would keep its slot until the server has closed
			// it: 15 s if the server is silent.
			abandon(ctx, conn.Hijack())
			return
		}
		conn.Release()
	}()
	return false, run(conn.Conn())
}

// read runs a function, and runs it again if its connection was lost, because a restarted server
// has closed the idle connections. Then it drops all connections of the pool.
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
