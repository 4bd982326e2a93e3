package postgres

import (
	"context"
	"log/slog"

	"github.com/bursar/bursar/coordinator/store"
)

// Options of Open. The zero value of a field is its default.
type Options struct {
	// DSN is the database's address, a postgres:// URL or PostgreSQL's keywords and values.
	DSN string
	// PasswordFile holds the password on its first line.
	PasswordFile string
	// Cluster is the name of the cluster that opens the store. Empty: it is not asked.
	Cluster string
	// Adopt makes the store this cluster's, whosever it was.
	Adopt bool
	// Migrate lets the tables be made or brought up to date.
	Migrate bool
	// IntoCopy opens a store to copy into it.
	IntoCopy bool
	// Log is told what an operator should know. Default: nobody.
	Log *slog.Logger
}

// Open opens the store in a database.
func Open(_ context.Context, _ Options) (store.Store, error) {
	return nil, &store.RefusedError{
		Where: "PostgreSQL", Reason: store.Denied, Found: "this build cannot open it", Want: "the path of a file",
	}
}
