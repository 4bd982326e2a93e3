package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

// migrations are numbered from 1 without gaps; each sets user_version to its number.
//
//go:embed migrations/*.sql
var migrations embed.FS

// latestSchema is the version of the tables after all migrations.
func latestSchema() (int64, error) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return 0, fmt.Errorf("store: migrations: %w", err)
	}
	return int64(len(files)), nil
}

// migrate migrates the tables from a version to the latest, each step in a transaction of its own.
func migrate(ctx context.Context, db *sql.DB, version int64) error {
	if latest, err := latestSchema(); err != nil || version == latest {
		return err
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("store: migrations: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("store: migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("store: migrating: %w", err)
	}
	return nil
}
