package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bursar/bursar/coordinator/store"
)

// sessionSQL makes the settings that a session must have, whatever those of the server, the role
// and the database are: commits are flushed to disk, statements see the commits before them,
// policies hide no row, and neither idle sessions nor long statements end. The server also gives up
// a connection some 10 s after the other machine has vanished. Otherwise the session of a leader
// that vanished during a commit would lock the row that the next leader must write, until the
// server's kernel gives up, which takes hours. All searches use an index in its order. A server
// that knows little of the tables, or that plans for a host with few rows and is asked for one with
// many, would otherwise collect all rows and sort them.
//
// It marks the session with $1, and returns the earlier mark: none, if the session is new.
const sessionSQL = `SELECT ` + markText + `, set_config('bursar.session', $1::text, false),
 set_config('default_transaction_isolation', 'read committed', false),
 CASE WHEN current_setting('enable_bitmapscan', true) IS NOT NULL THEN set_config('enable_bitmapscan', 'off', false) END,
 ` + durably + `, 'on', false) END,
 CASE WHEN current_setting('row_security', true) IS NOT NULL THEN set_config('row_security', 'off', false) END,
 CASE WHEN current_setting('bytea_output', true) IS NOT NULL THEN set_config('bytea_output', 'hex', false) END,
 CASE WHEN current_setting('statement_timeout', true) IS NOT NULL THEN set_config('statement_timeout', '0', false) END,
 CASE WHEN current_setting('lock_timeout', true) IS NOT NULL THEN set_config('lock_timeout', '0', false) END,
 CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL THEN set_config('transaction_timeout', '0', false) END,
 CASE WHEN current_setting('idle_in_transaction_session_timeout', true) IS NOT NULL THEN set_config('idle_in_transaction_session_timeout', '0', false) END,
 CASE WHEN current_setting('idle_session_timeout', true) IS NOT NULL THEN set_config('idle_session_timeout', '0', false) END,
 CASE WHEN current_setting('tcp_keepalives_idle', true) IS NOT NULL THEN set_config('tcp_keepalives_idle', '4', false) END,
 CASE WHEN current_setting('tcp_keepalives_interval', true) IS NOT NULL THEN set_config('tcp_keepalives_interval', '2', false) END,
 CASE WHEN current_setting('tcp_keepalives_count', true) IS NOT NULL THEN set_config('tcp_keepalives_count', '3', false) END,
 CASE WHEN current_setting('tcp_user_timeout', true) IS NOT NULL THEN set_config('tcp_user_timeout', '10000', false) END`

const (
	// markText is the mark of the current session.
	markText = `coalesce(current_setting('bursar.session', true), '')`

	// durably begins the setting of synchronous_commit. It raises off and local: an acknowledged
	// change must outlive the server and the standbys that it must wait for. remote_write and
	// remote_apply stay.
	durably = `CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN set_config('synchronous_commit'`
	// durablyNow sets it for the current transaction. A commit relies on no setting of its session:
	// another client of the same pooler may change that.
	durablyNow = durably + `, 'on', true) END`

	// The address's own settings come last. A pooler may have dropped them.
	addressSQL = `SELECT set_config(p.name, p.value, false) FROM unnest($1::text[], $2::text[]) AS p (name, value)`
)

// addressSettings are the settings of an address that a session gets once more.
var addressSettings = []string{
	"search_path", "synchronous_commit", "statement_timeout", "lock_timeout", "transaction_timeout", "idle_in_transaction_session_timeout",
}

// errPooled says that the server's session behind a connection is not the one that was set up.
var errPooled = errors.New("the server's session behind a connection has changed")

// pooled refuses a pooler that changes sessions.
func (s *server) pooled() error {
	return s.refused(store.Denied,
		errPooled.Error()+": a pooler hands out sessions for single transactions or statements, so that settings, locks and prepared statements get lost",
		"a direct connection, or a pooler that keeps one session for each connection and resets it afterwards (PgBouncer: pool_mode=session, server_reset_query=DISCARD ALL)",
		errPooled)
}

// setUpSession sets up a new session, and checks that it belongs to the opened store. It has a time
// limit of its own: the pool continues to make a connection after its caller has given up.
func (s *server) setUpSession(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.ConnConfig.ConnectTimeout)
	defer cancel()
	mark := strings.ToLower(rand.Text())
	var before string
	found, err := conn.Query(ctx, sessionSQL, pgx.QueryExecModeExec, mark)
	if err == nil {
		if found.Next() {
			before = string(found.RawValues()[0])
		}
		found.Close()
		err = found.Err()
	}
	if err != nil {
		return fmt.Errorf("setting up a session: %w", classify(err))
	}
	if before != "" {
		return s.pooled()
	}
	conn.PgConn().CustomData()[markKey] = mark
	var names, values []string
	for _, name := range addressSettings {
		if value, set := conn.Config().RuntimeParams[name]; set {
			names, values = append(names, name), append(values, value)
		}
	}
	if len(names) > 0 {
		if _, err := conn.Exec(ctx, addressSQL, pgx.QueryExecModeExec, names, values); err != nil {
			return fmt.Errorf("setting up a session: %w", classify(err))
		}
	}
	return s.checkStoreID(ctx, conn)
}

// markKey is the key of a session's mark in the data of its connection.
const markKey = "bursar.session"

// markOf returns the mark of a connection's session.
func markOf(conn *pgx.Conn) string {
	mark, _ := conn.PgConn().CustomData()[markKey].(string)
	return mark
}

// checkSession refuses a connection whose session has changed.
func (s *server) checkSession(ctx context.Context, conn interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, mark string,
) error {
	var now string
	if err := conn.QueryRow(ctx, `SELECT `+markText).Scan(&now); err != nil {
		return fmt.Errorf("looking at the session: %w", err)
	}
	if now != mark {
		return s.pooled()
	}
	return nil
}

// proveSession refuses a pooler that hands out sessions for single transactions. Such a pooler
// usually gives the last used session to the next connection. So another connection then finds the
// mark of this one, or has overwritten it. If no other connection can be made, nothing is proven;
// each commit checks the mark.
func (s *server) proveSession(ctx context.Context, conn *pgx.Conn) error {
	other, err := s.connect(ctx, nil)
	if errors.Is(err, errPooled) {
		return err
	}
	if err == nil {
		defer abandon(ctx, other)
	}
	return s.checkSession(ctx, conn, markOf(conn))
}

// change runs a transaction that changes rows, with the settings that its commit relies on.
func (s *server) change(ctx context.Context, conn *pgx.Conn, run func(tx pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error { //nolint:wrapcheck // its callers do
		if _, err := tx.Exec(ctx, `SELECT `+durablyNow); err != nil {
			return fmt.Errorf("setting up a transaction: %w", err)
		}
		if err := s.checkSession(ctx, tx, markOf(conn)); err != nil {
			return err
		}
		return run(tx)
	})
}

// abandon closes a connection without waiting long for the server.
func abandon(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}
