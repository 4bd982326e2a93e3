package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/bursar/bursar/coordinator/store"
)

// Options of Open. The zero value of a field is its default.
type Options struct {
	// DSN is the database's address: a postgres:// URL, or PostgreSQL's keywords and values. Its
	// parameters and the environment (PGHOST, PGPASSFILE, PGSSLROOTCERT …) have the same meaning as
	// for psql; parameters that begin with pool_ are pgxpool's, for the connections that read. Of
	// several hosts the one that takes writes is used.
	DSN string
	// Read returns the current address. It is called before each connection is made; then the files
	// that the address names are read, too. Default: the address does not change.
	Read func() (string, error)
	// Cluster is the name of the cluster that opens the store. The store belongs to the first
	// cluster that leads, and is refused for others. Empty: no check.
	Cluster string
	// Adopt makes the store this cluster's, even if it was another cluster's. The present leader
	// is deposed.
	Adopt bool
	// Migrate allows Open to create or migrate the tables. Otherwise Open refuses a store that
	// needs it.
	Migrate bool
	// IntoCopy opens a store to copy into it: one with an unfinished copy is not refused.
	IntoCopy bool
	// Log gets messages for the operator. Default: no log.
	Log *slog.Logger
}

// Open opens the store in a database. It refuses an unusable store with a *store.RefusedError, and
// does not change it. If the server cannot be reached now, the error wraps store.ErrAway.
func Open(ctx context.Context, options Options) (*Store, error) {
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	server, err := newServer(options.DSN, options.Read, options.Log)
	if err != nil {
		return nil, err
	}
	reading, err := pgxpool.NewWithConfig(ctx, server.config)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", server.where, err)
	}
	_, err = server.borrow(ctx, reading, func(conn *pgx.Conn) error {
		if err := server.proveSession(ctx, conn); err != nil {
			return server.explain(err)
		}
		return server.explain(server.prepare(ctx, conn, options))
	})
	if err != nil {
		reading.Close()
		return nil, err
	}
	return &Store{
		server: server, reading: reading, writer: newWriter(server),
		cluster: options.Cluster, intoCopy: options.IntoCopy,
	}, nil
}

// explain adds the place to an error of Open, and refuses a store for lack of a permission, which
// an operator must grant.
func (s *server) explain(err error) error {
	if _, refused := errors.AsType[*store.RefusedError](err); refused || err == nil {
		return err
	}
	if failed := answer(err); failed != nil && failed.Code == codeNoPrivilege {
		// The privileges that the store needs were checked before. The message names this other
		// one.
		return s.refused(store.Denied, failed.Message, "that granted to the role of the address", err)
	}
	return fmt.Errorf("store %s: %w", s.where, classify(err))
}

// prepare checks the database and makes it a store of this cluster with the latest tables.
func (s *server) prepare(ctx context.Context, conn *pgx.Conn, options Options) error {
	latest, err := latestSchema()
	if err != nil {
		return err
	}
	version, err := s.inspect(ctx, conn)
	switch {
	case err != nil:
		return err
	case version > latest:
		return s.refused(store.Newer, fmt.Sprintf("its schema is version %d", version),
			fmt.Sprintf("a version of bursar that knows it (this one knows up to %d)", latest), nil)
	case version == latest:
	case !options.Migrate:
		found := fmt.Sprintf("its schema is version %d, this bursar's %d", version, latest)
		if version == 0 {
			found = "the database has no tables yet"
		}
		return s.refused(store.Older, found, "them made by: bursar coordinator migrate", nil)
	default:
		if err := s.checkMaking(ctx, conn, version, latest); err != nil {
			return err
		}
		if err := s.migrate(ctx); err != nil {
			return err
		}
		// another role may have made tables meanwhile
		if err := s.checkRows(ctx, conn); err != nil {
			return err
		}
		s.log.Info("the store's tables are up to date", "store", s.where, "from", version, "to", latest)
	}
	const once = `INSERT INTO meta (one, store_id, epoch, sequence, last_id) VALUES (1, $1, 0, 0, 0) ON CONFLICT (one) DO NOTHING`
	if _, err := conn.Exec(ctx, once, strings.ToLower(rand.Text())); err != nil {
		return fmt.Errorf("making the row of meta: %w", err)
	}
	if options.Adopt {
		// The epoch is raised, so that the leader of the other cluster cannot go on.
		const adopt = `UPDATE meta SET cluster = $1, epoch = epoch + 1 WHERE one = 1 AND cluster <> $1`
		tag, err := conn.Exec(ctx, adopt, options.Cluster)
		if err != nil {
			return fmt.Errorf("adopting: %w", err)
		}
		if tag.RowsAffected() > 0 {
			s.log.Warn("the store is this cluster's now, whosever it was", "store", s.where, "cluster", options.Cluster)
		}
	}
	return s.admit(ctx, conn, options.Cluster, options.IntoCopy)
}

// inspect returns the version of the tables, zero if there are none yet.
func (s *server) inspect(ctx context.Context, conn *pgx.Conn) (version int64, err error) {
	var encoding string
	var schema, fsync, pages *string
	const settings = `SELECT current_setting('server_encoding'), current_schema(), current_setting('fsync', true), current_setting('full_page_writes', true)`
	if err := conn.QueryRow(ctx, settings).Scan(&encoding, &schema, &fsync, &pages); err != nil {
		return 0, fmt.Errorf("looking at the server: %w", err)
	}
	if encoding != "UTF8" {
		return 0, s.refused(store.Denied, "the database's encoding is "+encoding,
			"a database with UTF8: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0", nil)
	}
	if schema == nil {
		return 0, s.withoutSchema(ctx, conn)
	}
	if fsync != nil && *fsync == "off" {
		s.log.Warn("the server runs with fsync=off: what was acknowledged is lost if its machine fails", "store", s.where)
	}
	if pages != nil && *pages == "off" {
		s.log.Warn("the server runs with full_page_writes=off: a failure of its machine may damage tables, unless its file system writes whole pages", "store", s.where)
	}
	// Not from information_schema, which hides tables without privileges for this user.
	const tables = `SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename`
	found, err := conn.Query(ctx, tables)
	if err != nil {
		return 0, fmt.Errorf("looking for tables: %w", err)
	}
	names, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		return 0, fmt.Errorf("looking for tables: %w", err)
	}
	if slices.Contains(names, versionTable) {
		if err := s.checkRows(ctx, conn); err != nil {
			return 0, err
		}
		err := conn.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM `+versionTable).Scan(&version)
		return version, err //nolint:wrapcheck // explain does
	}
	if len(names) > 0 {
		return 0, s.refused(store.Foreign, fmt.Sprintf("schema %s holds tables of others: %s", *schema, some(names)),
			"a database of its own, or an empty schema: search_path=NAME in the address", nil)
	}
	return 0, nil
}

// some lists names, only the first few of many.
func some(names []string) string {
	const most = 5
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// admit refuses a store of another cluster, or one with an unfinished copy. After the first
// admitted store, it refuses connections to other stores.
func (s *server) admit(ctx context.Context, conn *pgx.Conn, cluster string, intoCopy bool) error {
	var id, owner, copying string
	err := conn.QueryRow(ctx, `SELECT store_id, cluster, copying FROM meta WHERE one = 1`).Scan(&id, &owner, &copying)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return s.noMeta()
	case err != nil:
		return fmt.Errorf("reading meta: %w", err)
	case copying != "" && !intoCopy:
		return store.RefuseUnfinished(s.where, copying)
	case cluster != "" && owner != "" && owner != cluster:
		return s.refused(store.OtherCluster, fmt.Sprintf("it belongs to cluster %q, this one is %q", owner, cluster),
			"a database for each cluster; to move this one here: bursar coordinator migrate --adopt", nil)
	}
	s.storeID.CompareAndSwap(nil, &id)
	return nil
}
