package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"
)

// migrations are numbered from 1 without gaps.
//
//go:embed migrations/*.sql
var migrations embed.FS

// versionTable says which migrations have been done. Not goose's usual name: the tables of another program that uses goose
// would be taken for ours.
const versionTable = "bursar_schema"

// migrationLock is the number of the advisory lock under which tables are changed: "bursar" in ASCII.
const migrationLock = 0x627572736172

// latestSchema is the version of the tables after all migrations.
func latestSchema() (int64, error) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return 0, fmt.Errorf("store: migrations: %w", err)
	}
	return int64(len(files)), nil
}

// migrate brings the tables up to date, each step in a transaction of its own. It waits for another coordinator that is at
// it, and finds nothing to do then. The server ends the lock with the session, however that ends.
func migrate(ctx context.Context, conn *pgx.Conn) (err error) {
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(migrationLock)); err != nil {
		return fmt.Errorf("waiting for another migration: %w", err)
	}
	defer func() {
		_, failed := conn.Exec(ctx, "SELECT pg_advisory_unlock($1)", int64(migrationLock))
		err = errors.Join(err, failed)
	}()
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	db := database(conn)
	defer db.Close()
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
