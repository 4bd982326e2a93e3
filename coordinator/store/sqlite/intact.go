package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"syscall"

	"github.com/bursar/bursar/coordinator/store"
)

// files are those of an open store that must stay where they are: what is written to a file
// without a name is not found again, and a lock without a name keeps nobody out.
type files []named

// named is a file by its path, and by its number in its file system. It is open, so that no other
// file gets the number.
type named struct {
	path          string
	device, inode uint64
}

// add takes in the file that has the path now. Nothing is checked before.
func (f *files) add(path string) error {
	var now syscall.Stat_t
	if err := syscall.Lstat(path, &now); err != nil {
		return &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	*f = append(*f, named{path: path, device: now.Dev, inode: now.Ino})
	return nil
}

// intact returns an ErrGone if one of them was removed, moved or replaced. It takes a microsecond
// for each.
func (f files) intact() error {
	for i := range f {
		var now syscall.Stat_t
		err := syscall.Lstat(f[i].path, &now)
		if err == nil && now.Dev == f[i].device && now.Ino == f[i].inode {
			continue
		}
		what := "another file is in its place"
		if err != nil {
			what = err.Error()
		}
		return fmt.Errorf("%w: %s was removed, moved or replaced while it was in use (%s): want the same file back in its place, "+
			"or a backup there and this coordinator restarted; without a file the ledger begins empty, and agents report the engines that run once replacesStores names the lost store", store.ErrGone, f[i].path, what)
	}
	return nil
}

// anchor is a connection that is open for as long as the store is, and does nothing: while there is
// one, SQLite keeps the log. When the last one is closed, SQLite removes the log, unless the file
// is not in its place any more.
type anchor struct {
	pool *sql.DB
	conn *sql.Conn
}

func (a *anchor) open(ctx context.Context, path string) error {
	a.pool = pool(path, "mode=rw", 1, "query_only(ON)", busy(busyTimeout))
	var err error
	if a.conn, err = a.pool.Conn(ctx); err != nil {
		return err
	}
	_, err = readMeta(ctx, a.conn) // which opens the log
	return err
}

func (a *anchor) close() error {
	if a.pool == nil {
		return nil
	}
	if a.conn != nil {
		if err := a.conn.Close(); err != nil {
			return err
		}
	}
	return a.pool.Close()
}
