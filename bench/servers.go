package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bursar/bursar/test/postgres"
)

// startPostgres starts an installed PostgreSQL on the disk of the other stores, and makes a
// database in it. Close ends it.
func (r *run) startPostgres(ctx context.Context) (server *postgres.Server, store string, err error) {
	// Beside this run's directory: the server's user must be able to enter it.
	dir, err := os.MkdirTemp(filepath.Dir(r.dir), "bursar-bench-postgres-")
	if err != nil {
		return nil, "", fmt.Errorf("a place for PostgreSQL: %w", err)
	}
	server, err = postgres.Launch(ctx, dir, postgres.Options{})
	if err != nil {
		return nil, "", errors.Join(err, os.RemoveAll(dir))
	}
	if store, err = server.CreateDatabase(ctx, "bursar"); err != nil {
		return nil, "", errors.Join(err, server.Close())
	}
	return server, store, nil
}
