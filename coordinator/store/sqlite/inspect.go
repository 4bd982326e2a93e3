package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/bursar/bursar/coordinator/store"
)

// The application id of Bursar's files: "Brsr". The migrations set it.
const applicationID = 0x42727372

// magic is the beginning of every SQLite file.
const magic = "SQLite format 3\x00"

// prepareFile creates the file if there is none, and checks the header of an existing one.
func prepareFile(path string) error {
	file, err := regular(os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)) //nolint:gosec // the operator says where
	if errors.Is(err, fs.ErrNotExist) {
		return create(path)
	}
	if err != nil {
		return err
	}
	// This process has no open connection to it yet: closing the file would drop its locks.
	defer file.Close()
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	application, err := readHeader(file)
	if err != nil {
		return err
	}
	if application == applicationID && info.Mode().Perm()&0o077 != 0 {
		// Other users must not read it, or the files that SQLite makes next to it: rows contain
		// labels, addresses and reasons that callers gave.
		return file.Chmod(0o600)
	}
	return nil
}

func create(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the operator says where
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "directory"
	case mode&fs.ModeDevice != 0:
		return "device"
	case mode&fs.ModeSymlink != 0:
		return "symbolic link"
	default:
		return "special file"
	}
}

// readHeader checks that a file is an SQLite file and returns its application id.
func readHeader(file *os.File) (application uint32, err error) {
	header := make([]byte, 100)
	n, err := io.ReadFull(file, header)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, err
	}
	if begin := header[:min(n, len(magic))]; string(begin) != magic {
		return 0, foreign(file.Name(), fmt.Sprintf("it is no SQLite file: it begins with %q", begin))
	}
	return binary.BigEndian.Uint32(header[68:]), nil
}

// inspect checks a file through a connection that cannot change it. It returns the version of its
// tables, zero if there are none yet.
func inspect(ctx context.Context, db *sql.DB, path string, checkTime time.Duration, log *slog.Logger) (version int64, err error) {
	var application, tables int64
	for _, q := range []struct {
		query string
		to    *int64
	}{
		{"PRAGMA application_id", &application},
		{"PRAGMA user_version", &version},
		{"SELECT count(*) FROM sqlite_schema", &tables},
	} {
		if err := db.QueryRowContext(ctx, q.query).Scan(q.to); err != nil {
			return 0, err
		}
	}
	latest, err := latestSchema()
	switch {
	case err != nil:
		return 0, err
	case application == 0 && tables == 0:
		return 0, nil // new, or its first migration failed
	case application != applicationID:
		return 0, foreign(path, fmt.Sprintf("it is an SQLite file of another application (id %#x, %d tables and indexes)", application, tables))
	case version > latest:
		return 0, &store.RefusedError{
			Where: path, Reason: store.Newer, Found: fmt.Sprintf("its schema is version %d", version),
			Want: fmt.Sprintf("a version of bursar that knows it (this one knows up to %d)", latest),
		}
	case checkTime < 0:
		return version, nil
	}
	return version, check(ctx, db, path, checkTime, log)
}

// check searches for damage, for a limited time.
func check(ctx context.Context, db *sql.DB, path string, limit time.Duration, log *slog.Logger) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var finding string
	err := db.QueryRowContext(limited, "PRAGMA quick_check(1)").Scan(&finding)
	switch {
	case err == nil && finding != "ok":
		return damaged(path, strings.Join(strings.Fields(finding), " "), nil)
	case err == nil:
		return nil
	case limited.Err() != nil && ctx.Err() == nil:
		log.Info("the store is too large to be checked whole at the start", "path", path, "limit", limit)
		return nil
	default:
		return err
	}
}

func foreign(path, found string) error {
	return &store.RefusedError{
		Where: path, Reason: store.Foreign, Found: found, Want: "a file that bursar made, or a path where there is none yet",
	}
}

func damaged(path, found string, err error) error {
	return &store.RefusedError{
		Where: path, Reason: store.Damaged, Found: found,
		Want: "a backup in its place, or no file: then the ledger begins empty, and agents report the engines that run once replacesStores names the lost store", Err: err,
	}
}
