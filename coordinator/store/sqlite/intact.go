package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"syscall"

	"github.com/bursar/bursar/coordinator/store"
)

// files are the files of an open store, which must stay in their places: data in a file without a
// name is lost, and a lock without a name excludes no process.
type files []named

// named identifies a file by its path, and by its number in its file system. It is open, so that no
// other file can get the number.
type named struct {
	path          string
	device, inode uint64
}

// add adds the current file of the path, without a check.
func (f *files) add(path string) error {
	var now syscall.Stat_t
	if err := syscall.Lstat(path, &now); err != nil {
		return &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	*f = append(*f, named{path: path, device: now.Dev, inode: now.Ino})
	return nil
}

// intact returns an ErrGone if one of the files was removed, moved or replaced. It takes a
// microsecond for each.
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

// anchor is an idle connection that is open for as long as the store: while there is one, SQLite
// keeps the log. When the last connection is closed, SQLite removes the log, unless the file is no
// longer in its place.
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
	_, err = readMeta(ctx, a.conn) // this opens the log
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
