package postgres

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

// migrations are numbered from 1 without gaps.
//
//go:embed migrations/*.sql
var migrations embed.FS

// versionTable lists the finished migrations. It does not have goose's usual name: otherwise the
// tables of another program that uses goose could be mistaken for those of a store.
const versionTable = "bursar_schema"

// migrationLock is the number of the advisory lock for changes of the tables: "bursar" in ASCII.
const migrationLock = 0x627572736172

// latestSchema is the version of the tables after all migrations.
func latestSchema() (int64, error) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return 0, fmt.Errorf("store: migrations: %w", err)
	}
	return int64(len(files)), nil
}

// migrate migrates the tables to the latest version, each step in a transaction of its own. If
// another coordinator migrates, it waits and then finds nothing to do.
func (s *server) migrate(ctx context.Context) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	// A session has the lock before it can be used, and the server ends the lock with the session,
	// however that ends.
	db := stdlib.OpenDB(*s.address.now(), stdlib.OptionAfterConnect(s.lock))
	defer db.Close()
	db.SetMaxOpenConns(1)
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithDisableGlobalRegistry(true), goose.WithTableName(versionTable))
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrating: %w", err)
	}
	return nil
}

// lock sets up a session for migrations. It does not use goose's locker: goose makes its own table
// without that lock, and checks only once a second whether the lock is free.
func (s *server) lock(ctx context.Context, conn *pgx.Conn) error {
	err := s.setUpSession(ctx, conn)
	if err == nil {
		_, err = conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(migrationLock))
	}
	if err != nil {
		abandon(ctx, conn)
		return fmt.Errorf("waiting for another migration: %w", err)
	}
	return nil
}
