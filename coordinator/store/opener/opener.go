// Package opener opens a store by its address: a file, or a PostgreSQL database.
//
// It only chooses the backend and passes the options on. Its functions may be called concurrently.
package opener

import (
	"context"
	"log/slog"
	"regexp"
	"strings"

	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/postgres"
	"github.com/bursar/bursar/coordinator/store/sqlite"
)

// Options of Open. The zero value of a field is its default.
type Options struct {
	// Cluster is the name of the cluster that opens the store. A database of another cluster is
	// refused. Empty: no check. A file is never checked: the process that holds its lock is its
	// only user.
	Cluster string
	// Adopt makes the store this cluster's, even if it was another cluster's. The present leader
	// is deposed.
	Adopt bool
	// Migrate allows Open to create or migrate a database's tables. A file is migrated in any case,
	// unless KeepSchema is set.
	Migrate bool
	// KeepSchema refuses a file with tables of an earlier version, instead of migrating it, and a
	// file without tables. It creates no file.
	KeepSchema bool
	// IntoCopy opens a store to copy into it: an empty one, or one with an unfinished copy.
	IntoCopy bool
	// OthersFolder lets root open another user's file, for example to maintain that user's service.
	OthersFolder bool
	// Read reads the address of a database again, before each connection is made. Default: the
	// address does not change.
	Read func() (string, error)
	// Log gets messages for the operator. Default: no log.
	Log *slog.Logger
}

// Open opens the store at an address: the path of a file, or the URL of a database, postgres://… or
// postgresql://…. It refuses an unusable store with a *store.RefusedError. If a database cannot be
// reached now, the error wraps store.ErrAway.
func Open(ctx context.Context, where string, options Options) (store.Store, error) {
	if err := Check(where); err != nil {
		return nil, err
	}
	if IsDatabase(where) {
		opened, err := postgres.Open(ctx, postgres.Options{
			DSN: where, Read: options.Read, Cluster: options.Cluster, Adopt: options.Adopt, Migrate: options.Migrate, IntoCopy: options.IntoCopy, Log: options.Log,
		})
		if err != nil {
			return nil, err //nolint:wrapcheck // it has the place and the reason
		}
		return opened, nil
	}
	opened, err := sqlite.Open(ctx, where, sqlite.Options{KeepSchema: options.KeepSchema, IntoCopy: options.IntoCopy, OthersFolder: options.OthersFolder, Log: options.Log})
	if err != nil {
		return nil, err //nolint:wrapcheck // as above
	}
	return opened, nil
}

// Check refuses, with a *store.RefusedError, addresses that Open would always refuse, and creates
// nothing: a URL that cannot be parsed, a path that cannot be a file, and the address of a database
// in a form that Open does not accept. Open would use the last one as the path of a file, and
// create a file with a password in its name.
func Check(where string) error {
	switch {
	case IsDatabase(where):
		return postgres.Check(where) //nolint:wrapcheck // it has the place and the reason
	case !misread(where):
		return sqlite.Check(where) //nolint:wrapcheck // as above
	}
	return &store.RefusedError{
		Where: Name(where), Reason: store.Denied, Found: "it reads as an address, and not as one that is known here",
		Want: "postgres://USER@HOST:PORT/DATABASE (PostgreSQL's keywords go behind it: ?sslmode=verify-full), or for a file of that name a path that begins with / or ./",
	}
}

// Guard refuses, with a *store.RefusedError, a file that other users could change while a
// coordinator of root uses it. A database is guarded by its server.
func Guard(where string) error {
	if IsDatabase(where) {
		return nil
	}
	return sqlite.Guard(where) //nolint:wrapcheck // it has the place and the reason
}

// keyword matches the parts of PostgreSQL's other form of an address: host=db1 password=….
var keyword = regexp.MustCompile(`(?i)(^|\s)[a-z_]+\s*=`)

// misread reports whether a text that would be used as a path may be an address, possibly with a
// password.
func misread(where string) bool {
	if IsDatabase(where) || strings.HasPrefix(where, "/") || strings.HasPrefix(where, "./") || strings.HasPrefix(where, "../") {
		return false
	}
	return strings.Contains(where, "://") || strings.Contains(where, "@") || keyword.MatchString(where)
}

// Name returns an address in a form that may be shown: without the password.
func Name(where string) string {
	switch {
	case IsDatabase(where):
		return postgres.Name(where)
	case misread(where):
		return "(not shown)"
	}
	return where
}

// IsDatabase reports whether a place is the address of a database, not the path of a file.
func IsDatabase(where string) bool {
	return strings.HasPrefix(where, "postgres://") || strings.HasPrefix(where, "postgresql://")
}
