package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/bursar/bursar/coordinator/store"
)

const (
	// connectTimeout is for one server, unless the address sets it. After it the next of several
	// servers is tried.
	connectTimeout = 5 * time.Second
	// silence is how long a server may fail to acknowledge packets before the connection counts as
	// lost. Without it the kernel retries for a quarter of an hour.
	silence = 15 * time.Second
	// longestMessage is PostgreSQL's own limit, in bytes. A server that announces more is not
	// PostgreSQL.
	longestMessage = 1 << 30
)

// errStandby says that a server does not accept writes.
var errStandby = errors.New("the server is read-only: a standby, or set to be so")

// server makes connections.
type server struct {
	address *address
	config  *pgxpool.Config // of the pool
	where   string          // without the password
	log     *slog.Logger
	// storeID is the id of the opened store; nil: not known yet.
	storeID atomic.Pointer[string]
}

// Check refuses, with a *store.RefusedError, an address that cannot be parsed. It makes no
// connection.
func Check(dsn string) error {
	_, err := parseAddress(dsn)
	return err
}

// newServer reads an address for the first time.
func newServer(dsn string, read func() (string, error), log *slog.Logger) (*server, error) {
	from, err := newAddress(dsn, read, log)
	if err != nil {
		return nil, err
	}
	pooled := from.right.Copy()
	s := &server{address: from, config: pooled, where: place(pooled.ConnConfig), log: log}
	pooled.BeforeConnect = from.prepare
	pooled.AfterConnect = s.setUpSession
	limit(pooled)
	return s, nil
}

// Name returns an address in a form that may be shown: without the password. If it cannot be
// parsed, Name omits all parts that may be secret.
func Name(dsn string) string {
	config, err := parseAddress(dsn)
	if err != nil {
		return "PostgreSQL"
	}
	return place(config.ConnConfig)
}

// place returns the address without the password.
func place(config *pgx.ConnConfig) string {
	hosts := []string{net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))}
	for _, other := range config.Fallbacks {
		if host := net.JoinHostPort(other.Host, strconv.Itoa(int(other.Port))); !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return fmt.Sprintf("postgres://%s@%s/%s", url.PathEscape(config.User), strings.Join(hosts, ","), url.PathEscape(config.Database))
}

// refuseStandby accepts only a server that takes writes. Of several hosts the next one is tried.
func refuseStandby(ctx context.Context, conn *pgconn.PgConn) error {
	result := conn.ExecParams(ctx, "SHOW transaction_read_only", nil, nil, nil, nil).Read()
	if result.Err != nil {
		return result.Err
	}
	if len(result.Rows) != 1 || len(result.Rows[0]) != 1 || string(result.Rows[0][0]) == "on" {
		return errStandby
	}
	return nil
}

// connect makes a connection outside of the pool. notice gets the server's notices.
func (s *server) connect(ctx context.Context, notice pgconn.NoticeHandler) (*pgx.Conn, error) {
	config := s.address.now()
	config.OnNotice = notice
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, s.refuse(ctx, err)
	}
	if err := s.setUpSession(ctx, conn); err != nil {
		abandon(ctx, conn)
		return nil, err
	}
	return conn, nil
}

func (s *server) refused(reason store.Refusal, found, want string, err error) error {
	return &store.RefusedError{Where: s.where, Reason: reason, Found: strings.Join(strings.Fields(found), " "), Want: want, Err: err}
}
