package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/internal/regularfile"
)

// address reads the address of the server again for each connection. The text itself may be in a
// file, and it and the environment name more files, such as those of the password, of certificates,
// of their keys and of services. A changed file counts from the next connection on. If something
// cannot be read or used, the last good address stays in use, and the log has the error.
type address struct {
	read func() (string, error)
	log  *slog.Logger

	mu    sync.Mutex
	right *pgxpool.Config // guarded by mu: the last good one
	wrong string          // guarded by mu: the fault of the present one, as last logged
}

// files reads a regular file of at most so many bytes; tests replace it.
type files func(path string, most int64) ([]byte, error)

// parseAddress parses the text of an address, and reads the files that it names, for at most
// regularfile.Patience. The error names no part of it that may be secret.
func parseAddress(dsn string) (*pgxpool.Config, error) {
	return parseWith(dsn, regularfile.Read)
}

func parseWith(dsn string, read files) (*pgxpool.Config, error) {
	config, err := regularfile.Within("postgres "+dsn, regularfile.Patience, func(reads func(string)) (*pgxpool.Config, error) {
		reads(unnamedFile) // instead of dsn, which may contain the password
		return parse(dsn, read, reads)
	})
	if hangs, ok := errors.AsType[*regularfile.HangError](err); ok {
		return nil, &store.RefusedError{
			Where: "PostgreSQL", Reason: store.Denied, Found: "the address of the database names a file that does not answer", Err: hangs,
			Want: fmt.Sprintf("a file system that answers within %s: %s", hangs.After, hangs.Path),
		}
	}
	return config, err //nolint:wrapcheck // the error of parse
}

// unnamedFile stands for a file that the parser reads and whose name is not known here: one in a
// file of services.
const unnamedFile = "a file that the address, the environment or a service names"

// parse is parseAddress without a time limit. It reports each file that it reads to reads.
func parse(dsn string, read files, reads func(path string)) (*pgxpool.Config, error) {
	if err := checkFiles(dsn, read, reads); err != nil {
		return nil, err
	}
	pooled, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		found := "the address cannot be read"
		// The error in a text that is not a URL cannot be shown, because it may contain the
		// password.
		if _, broken := url.Parse(dsn); broken == nil && errors.Unwrap(err) != nil {
			found += ": " + errors.Unwrap(err).Error()
		}
		// A file may be there at the next attempt; the text will not change by itself.
		reason := store.Malformed
		if _, file := errors.AsType[*fs.PathError](err); file || filesAreWrong(dsn) {
			reason = store.Denied
		}
		return nil, &store.RefusedError{
			Where: "PostgreSQL", Reason: reason, Found: found,
			Want: "postgres://USER@HOST:PORT/DATABASE, with %-codes for what is special in the user and the password, and files that can be read",
		}
	}
	config := pooled.ConnConfig
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "bursar"
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	dialer := &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 5},
		Control:         limitSilence,
	}
	config.DialFunc = dialer.DialContext
	config.ValidateConnect = refuseStandby
	config.MaxProtocolMessageBodyLen = longestMessage
	return pooled, nil
}

// fileParameter matches a parameter of an address that names a file, or a part of one, in a URL or
// in a list of words.
var fileParameter = regexp.MustCompile(`[?&]?\b(sslcert|sslkey|sslrootcert|passfile|servicefile|service)\s*=\s*('(?:[^'\\]|\\.)*'|[^\s&]*)`)

// fileVariables are the environment variables that name such files.
var fileVariables = []string{"PGSSLCERT", "PGSSLKEY", "PGSSLROOTCERT", "PGPASSFILE", "PGSERVICEFILE", "PGSERVICE"}

// largestFile bounds the files that an address names, in bytes. Real ones are smaller.
const largestFile = 1 << 20

// checkFiles refuses an address with a file whose reading would not end, such as a pipe or a
// device: the parser opens all of them and has no limit. The parser handles a file that cannot be
// opened.
func checkFiles(dsn string, read files, reads func(path string)) error {
	var paths []string
	for _, found := range fileParameter.FindAllStringSubmatch(dsn, -1) {
		path := strings.Trim(found[2], "'")
		if decoded, err := url.QueryUnescape(path); err == nil && strings.Contains(dsn, "://") {
			path = decoded
		}
		if found[1] != "service" {
			paths = append(paths, path)
		}
	}
	for _, name := range fileVariables {
		if name != "PGSERVICE" {
			paths = append(paths, os.Getenv(name))
		}
	}
	if home, err := os.UserHomeDir(); err == nil {
		for _, name := range []string{".pgpass", ".pg_service.conf", ".postgresql/postgresql.crt", ".postgresql/postgresql.key", ".postgresql/root.crt"} {
			paths = append(paths, filepath.Join(home, name))
		}
	}
	parsed := unnamedFile // the file for which the parser may wait
	for _, path := range paths {
		if path == "" {
			continue
		}
		reads(path)
		_, err := read(path, largestFile)
		if errors.Is(err, syscall.EAGAIN) { // a lease, as a file server has one (fcntl(2))
			parsed = path
		}
		if _, noSuchFile := errors.AsType[*fs.PathError](err); err != nil && !noSuchFile {
			return &store.RefusedError{
				Where: "PostgreSQL", Reason: store.Denied, Found: "the address names a file that cannot be read", Err: err,
				Want: fmt.Sprintf("a regular file of at most %d bytes that this user may read: %s", largestFile, path),
			}
		}
	}
	reads(parsed)
	return nil
}

// filesAreWrong reports whether the files are the only reason why an address cannot be parsed.
func filesAreWrong(dsn string) bool {
	names := slices.ContainsFunc(fileVariables, func(name string) bool { return os.Getenv(name) != "" })
	if strings.Contains(dsn, "sslcert") != strings.Contains(dsn, "sslkey") && !names {
		return false // one needs the other
	}
	bare := fileParameter.ReplaceAllStringFunc(dsn, func(found string) string {
		if found[0] == '?' {
			return "?"
		}
		return ""
	})
	_, err := pgxpool.ParseConfig(strings.Replace(bare, "?&", "?", 1))
	return names || bare != dsn && err == nil
}

// newAddress reads an address for the first time. read may be nil: the text never changes.
func newAddress(dsn string, read func() (string, error), log *slog.Logger) (*address, error) {
	right, err := parseAddress(dsn)
	if err != nil {
		return nil, err
	}
	if read == nil {
		read = func() (string, error) { return dsn, nil }
	}
	return &address{read: read, log: log, right: right}, nil
}

// now returns the current address.
func (a *address) now() *pgx.ConnConfig {
	a.mu.Lock()
	defer a.mu.Unlock()
	dsn, err := a.read()
	var fresh *pgxpool.Config
	if err == nil {
		fresh, err = parseAddress(dsn)
	}
	switch {
	case err == nil:
		a.right, a.wrong = fresh, ""
	case err.Error() != a.wrong:
		a.wrong = err.Error()
		a.log.Error("the address of the database cannot be used as it is now: the earlier one stays in use", "error", err)
	}
	return a.right.ConnConfig.Copy()
}

// prepare is pgxpool's hook before each connection.
func (a *address) prepare(_ context.Context, config *pgx.ConnConfig) error {
	notice := config.OnNotice
	*config = *a.now()
	config.OnNotice = notice
	return nil
}

// storeIDSQL reads the id of the store of the tables.
const storeIDSQL = `SELECT store_id, copying FROM meta WHERE one = 1`

// checkStoreID refuses a connection to another store than the opened one: the name in the address
// may now belong to another server, or another server may have taken over.
func (s *server) checkStoreID(ctx context.Context, conn *pgx.Conn) error {
	want := s.storeID.Load()
	if want == nil {
		return nil
	}
	var id, copying string
	if err := conn.QueryRow(ctx, storeIDSQL, pgx.QueryExecModeExec).Scan(&id, &copying); err != nil {
		if failed := answer(err); failed != nil && failed.Code == codeNoTable {
			return s.refused(store.OtherStore, "the database has no tables of a store now", s.wantStore(*want), err)
		}
		if errors.Is(err, pgx.ErrNoRows) {
			return s.noMeta()
		}
		return fmt.Errorf("looking whose store this is: %w", classify(err))
	}
	if id != *want && copying != "" {
		return store.RefuseUnfinished(s.where, copying)
	}
	if id != *want {
		return s.refused(store.OtherStore, "the database is the store "+id+" now", s.wantStore(*want), nil)
	}
	return nil
}

// noMeta refuses a store whose tables exist without the row of meta.
func (s *server) noMeta() error {
	return s.refused(store.Damaged, "the row of meta is gone", "a backup in its place", nil)
}

func (s *server) wantStore(id string) string {
	return "the store " + id + ", which this process has opened; if another one takes its place on purpose, start this process again"
}
