// Package opener opens the store that a text names: a file, or a database of PostgreSQL.
//
// It only chooses the backend and hands the options on. Its functions may be called concurrently.
package opener

import (
	"context"
	"log/slog"
	"strings"

	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/postgres"
	"github.com/bursar/bursar/coordinator/store/sqlite"
)

// Options of Open. The zero value of a field is its default.
type Options struct {
	// Cluster is the name of the cluster that opens the store. A database that belongs to another one is refused. Empty: it is
	// not asked. A file is not asked either: whoever holds its lock has it to itself.
	Cluster string
	// Adopt makes the store this cluster's, whosever it was. The leader that it had is deposed.
	Adopt bool
	// Migrate lets a database's tables be made or brought up to date. A file is always brought up to date.
	Migrate bool
	// PasswordFile holds the password for a database, on its first line. It is read anew for every connection.
	PasswordFile string
	// IntoCopy opens a store to copy into it: one that is empty, or that an earlier copy did not finish.
	IntoCopy bool
	// Log is told what an operator should know. Default: nobody.
	Log *slog.Logger
}

// Open opens the store at a place: the path of a file, or the address of a database, postgres://… or postgresql://….
// What cannot be used is refused with a *store.RefusedError; a database that cannot be reached now is an error that wraps
// store.ErrAway.
func Open(ctx context.Context, where string, options Options) (store.Store, error) {
	if IsDatabase(where) {
		opened, err := postgres.Open(ctx, postgres.Options{
			DSN: where, PasswordFile: options.PasswordFile, Cluster: options.Cluster, Adopt: options.Adopt, Migrate: options.Migrate,
			IntoCopy: options.IntoCopy, Log: options.Log,
		})
		if err != nil {
			return nil, err //nolint:wrapcheck // says where and why
		}
		return opened, nil
	}
	opened, err := sqlite.Open(ctx, where, sqlite.Options{IntoCopy: options.IntoCopy, Log: options.Log})
	if err != nil {
		return nil, err //nolint:wrapcheck // as above
	}
	return opened, nil
}

// Name is a place as it may be shown: without the password.
func Name(where string) string {
	if IsDatabase(where) {
		return postgres.Name(where)
	}
	return where
}

// IsDatabase reports whether a place is the address of a database, not the path of a file.
func IsDatabase(where string) bool {
	return strings.HasPrefix(where, "postgres://") || strings.HasPrefix(where, "postgresql://")
}
