package postgres

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/bursar/bursar/coordinator/store"
)

// writer is the connection that commits, and the leadership that may commit.
type writer struct {
	server *server
	// turn holds the connection while no call uses it; nil: not connected.
	turn chan *pgx.Conn
	// warned is set when the server has run a statement with a warning, for example without waiting
	// for its standbys.
	warned atomic.Bool
	// passes is how many of the next calls of connectAhead do nothing, and absent says that the
	// last one that did something failed. Used only with the turn.
	passes int
	absent bool
	// firstEnd is the earliest end that was sent since the index of the history began its present
	// step. Used only with the turn.
	firstEnd int64
	records  records // of this leadership's commits; used only with the turn

	mu   sync.Mutex
	term term // guarded by mu; of the last Lead
	over bool // guarded by mu; an error has ended it, or there is none
}

// term is a leadership, in the form of meta until another leader writes.
type term struct {
	epoch uint64
	// secret is a value that no other leadership has, not even one of the same epoch in a restored
	// database.
	secret   string
	sequence int64 // after its last commit
}

func newWriter(s *server) *writer {
	w := &writer{server: s, turn: make(chan *pgx.Conn, 1), over: true}
	w.turn <- nil
	return w
}

// notBegunError says that a statement was not sent, because there was no connection or no time.
type notBegunError struct{ err error }

func (e *notBegunError) Error() string { return e.err.Error() }
func (e *notBegunError) Unwrap() error { return e.err }

// use runs a statement on the connection, which it makes if there is none. If again is set, it
// replaces a broken connection and runs the statement again.
func (w *writer) use(ctx context.Context, again bool, run func(conn *pgx.Conn) error) error {
	var conn *pgx.Conn
	select {
	case conn = <-w.turn:
	case <-ctx.Done():
		return &notBegunError{ctx.Err()}
	}
	defer func() { w.turn <- conn }()
	if err := ctx.Err(); err != nil {
		return &notBegunError{err}
	}
	if conn != nil && broken(conn) {
		abandon(ctx, conn)
		conn = nil
	}
	if conn != nil {
		err := run(conn)
		if err == nil || !unusable(conn, err) {
			return err
		}
		abandon(ctx, conn)
		conn = nil
		if !again || ctx.Err() != nil {
			return err
		}
	}
	made, err := w.connect(ctx)
	if err != nil {
		return &notBegunError{err}
	}
	conn = made
	if err = run(conn); err != nil && unusable(conn, err) {
		abandon(ctx, conn)
		conn = nil
	}
	return err
}

// unusable reports whether a connection cannot be used after an error: it is broken, or its session
// has changed. The next connection is proven again.
func unusable(conn *pgx.Conn, err error) bool { return broken(conn) || errors.Is(err, errPooled) }

// aheadPasses is how many calls of connectAhead do nothing after one that did something. There are
// four calls a second.
const aheadPasses = 20

// connectAhead makes the connection for a future leadership, so that the leadership need not wait
// for one. From time to time it checks whether the server still takes writes. If that fails, the
// leadership will connect.
func (w *writer) connectAhead(ctx context.Context) {
	select {
	case conn := <-w.turn:
		defer func() { w.turn <- conn }()
		if w.passes > 0 {
			w.passes--
			return
		}
		w.passes = aheadPasses
		if conn != nil && (broken(conn) || refuseStandby(ctx, conn.PgConn()) != nil) {
			abandon(ctx, conn)
			conn = nil
		}
		if conn != nil {
			return
		}
		var err error
		if conn, err = w.connect(ctx); err == nil {
			w.absent = false
		} else if !w.absent && ctx.Err() == nil {
			w.absent = true
			w.server.log.Warn("there is no connection yet with which this coordinator could lead: trying again", "error", err)
		}
	default: // it is in use
	}
}

// connect makes the connection. It notes warnings.
func (w *writer) connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := w.server.connect(ctx, func(_ *pgconn.PgConn, notice *pgconn.Notice) {
		if notice.Code == codeWarning {
			w.warned.Store(true)
		}
	})
	if err != nil {
		return nil, err
	}
	if err := w.server.proveSession(ctx, conn); err != nil {
		abandon(ctx, conn)
		return nil, err
	}
	return conn, nil
}

// alone runs a function while no statement is in flight.
func (w *writer) alone(ctx context.Context, run func() error) error {
	select {
	case conn := <-w.turn:
		defer func() { w.turn <- conn }()
		return run()
	case <-ctx.Done():
		return &notBegunError{ctx.Err()}
	}
}

func (w *writer) close() {
	if conn := <-w.turn; conn != nil {
		abandon(context.Background(), conn)
	}
	w.turn <- nil
}

// begin makes a leadership the one that may write.
func (w *writer) begin(t term) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.term, w.over = t, false
}

// advance records that a commit has changed the sequence.
func (w *writer) advance(epoch uint64, sequence int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.term.epoch == epoch {
		w.term.sequence = sequence
	}
}

// endAny ends the current leadership.
func (w *writer) endAny() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
}

// end ends the leadership of an epoch, if it is still the current one.
func (w *writer) end(epoch uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.term.epoch == epoch {
		w.over = true
	}
}

// may returns the leadership of an epoch, or an ErrDeposed if it may not write.
func (w *writer) may(epoch uint64) (term, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if epoch != w.term.epoch || w.over {
		return term{}, &store.DeposedError{Epoch: epoch, Stored: w.term.epoch}
	}
	return w.term, nil
}

// begun reports whether a statement may have been sent.
func begun(err error) bool {
	var not *notBegunError
	return !errors.As(err, &not)
}
