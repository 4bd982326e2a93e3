package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/internal/regularfile"
)

// Options of Open. The zero value of a field is its default.
type Options struct {
	// CheckTime bounds the search for damage when the file is opened; a file that takes longer is
	// opened unchecked. A check reads the whole file, some 400 MB a second from memory. Default
	// 200 ms, negative for none.
	CheckTime time.Duration
	// KeepSchema refuses a file with tables of an earlier version, instead of migrating it, and a
	// file without tables. If there is no file, the error wraps fs.ErrNotExist. Open creates
	// nothing.
	KeepSchema bool
	// IntoCopy opens a store to copy into it: one with an unfinished copy is not refused.
	IntoCopy bool
	// OthersFolder lets root open the store of another user, for example to maintain that user's
	// service. A coordinator of root refuses one, because its owner could change it at any time.
	OthersFolder bool
	// Log gets messages for the operator. Default: no log.
	Log *slog.Logger

	// carry is how many pages commits may write to the log before it is checkpointed; zero is
	// defaultCarry.
	carry int
}

// readers is how many reads may run at the same time; more wait for each other.
const readers = 4

// busyTimeout is how long a write waits for another program that writes to the file, such as a
// backup tool.
const busyTimeout = time.Second

// cacheKiB is the size of the writer's page cache. 100,000 live allocations with their indexes take
// about 60 MiB.
const cacheKiB = 64 << 10

// Open opens the store in a file, and creates it if there is none. It also creates the directory,
// for the owner alone. It refuses an unusable store with a *store.RefusedError, and does not change
// it.
func Open(ctx context.Context, path string, options Options) (*Store, error) {
	if options.CheckTime == 0 {
		options.CheckTime = 200 * time.Millisecond
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	if options.carry == 0 {
		options.carry = defaultCarry
	}
	if options.KeepSchema {
		if err := there(path); err != nil {
			return nil, err
		}
	}
	path, err := place(path, options.OthersFolder)
	if err != nil {
		return nil, err
	}
	held, err := acquire(path)
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, lock: held, log: options.Log, carry: options.carry}
	if err := s.open(ctx, options); err != nil {
		return nil, errors.Join(refusal(path, err), s.release())
	}
	s.start()
	return s, nil
}

// there refuses a missing or empty file, before anything is created next to it.
func there(path string) error {
	info, err := os.Stat(path) //nolint:gosec // the operator's own
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("store: %w", err)
	case err == nil && info.Mode().IsRegular() && info.Size() == 0:
		return noTables(path)
	}
	return nil // Open finds other faults
}

func noTables(path string) error {
	return &store.RefusedError{
		Where: path, Reason: store.Older, Found: "the file has no tables yet",
		Want: "the file of a coordinator, or tables made by: bursar coordinator migrate",
	}
}

// Check refuses, with a *store.RefusedError, a path that cannot be a store's file, as far as that
// can be checked without creating anything. Guard does the checks that apply only to a coordinator
// that root runs.
func Check(path string) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return foreign(path, "it is a "+kind(info.Mode()))
	}
	if err := regularfile.Folder(filepath.Dir(path)); err != nil {
		return foreign(path, err.Error())
	}
	target, err := resolve(path)
	if err == nil {
		err = checkFiles(target)
	}
	if errors.Is(err, fs.ErrPermission) {
		// this user cannot read it, but another user may open it
		return nil
	}
	return err
}

// place creates the directory and returns the file's path without symbolic links, so that one file
// has one lock.
func place(path string, othersFolder bool) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("store %s: %w", path, err)
	}
	root := os.Geteuid() == 0 && !othersFolder
	if root {
		// Before anything is created there.
		if err := unguarded(path, regularfile.Guarded(filepath.Dir(path), 0)); err != nil {
			return "", err
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil { //nolint:gosec // the operator says where
		if regularfile.CannotBeMade(err) {
			return "", &store.RefusedError{Where: path, Reason: store.Denied, Found: err.Error(), Want: regularfile.WantFolder, Err: err}
		}
		return "", refusal(path, err)
	}
	target, err := resolve(path)
	if err == nil {
		err = checkFiles(target)
	}
	if err == nil && root {
		err = Guard(path)
	}
	return target, err // before a lock file is created next to it
}

// resolve returns a path without symbolic links. A link to the file itself must be this user's, or
// root's.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("store %s: %w", path, err)
	}
	if err := unguarded(path, regularfile.GuardedLink(path, uint32(os.Geteuid()))); err != nil { //nolint:gosec // a uid
		return "", err
	}
	target, err := filepath.EvalSymlinks(path)
	if err == nil {
		return target, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", refusal(path, err)
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil // the directory is not there yet
	}
	if err != nil {
		return "", refusal(path, err)
	}
	return filepath.Join(dir, filepath.Base(path)), nil
}

// open inspects the file and makes its connections. If it fails, release closes them.
func (s *Store) open(ctx context.Context, options Options) error {
	if err := prepareFile(s.path); err != nil {
		return err
	}
	var opened files
	for _, suffix := range []string{"", lockSuffix} {
		if err := opened.add(s.path + suffix); err != nil {
			return err
		}
	}
	look := pool(s.path, "mode=ro", 1)
	defer look.Close()
	version, err := inspect(ctx, look, s.path, options.CheckTime, s.log)
	if err != nil {
		return err
	}
	latest, err := latestSchema()
	if err != nil {
		return err
	}
	older := version > 0 && version < latest
	if version == 0 && options.KeepSchema {
		return noTables(s.path)
	}
	if older && options.KeepSchema {
		return &store.RefusedError{
			Where: s.path, Reason: store.Older, Found: fmt.Sprintf("its schema is version %d, this bursar's %d", version, latest),
			Want: "`bursar coordinator migrate`, which changes the file: keep a copy for the version before",
		}
	}
	s.writing = pool(s.path, "mode=rw&_txlock=immediate", 1, "journal_mode(WAL)", "synchronous(FULL)", "fullfsync(ON)",
		"wal_autocheckpoint(0)", "journal_size_limit("+strconv.Itoa(logLimit(options.carry))+")", "cache_size(-"+strconv.Itoa(cacheKiB)+")", busy(busyTimeout))
	s.reading = pool(s.path, "mode=rw", readers, "query_only(ON)", "synchronous(FULL)", busy(busyTimeout))
	s.checkpoints = pool(s.path, "mode=rw", 1, "synchronous(FULL)", "fullfsync(ON)", busy(0))
	if err := migrate(ctx, s.writing, version); err != nil {
		return err
	}
	if older {
		s.log.Info("the store's tables are up to date", "store", s.path, "from", version, "to", latest)
	}
	s.writer = &writer{pool: s.writing}
	if err := s.writer.connect(ctx); err != nil {
		return err
	}
	if err := s.identify(ctx, options.IntoCopy); err != nil {
		return err
	}
	if err := s.anchor.open(ctx, s.path); err != nil {
		return err
	}
	if err := opened.add(s.path + walSuffix); err != nil {
		return err
	}
	s.files, s.writer.files = opened, opened
	return errors.Join(s.files.intact(), s.reads.prepare(ctx, s.reading))
}

// identify gives a new store its identity, and refuses one with an unfinished copy.
func (s *Store) identify(ctx context.Context, intoCopy bool) error {
	id := strings.ToLower(rand.Text())
	const once = `INSERT INTO meta (one, store_id, epoch, sequence, last_id) SELECT 1, ?, 0, 0, 0 WHERE NOT EXISTS (SELECT 1 FROM meta)`
	if _, err := s.writer.conn.ExecContext(ctx, once, id); err != nil {
		return err
	}
	meta, err := readMeta(ctx, s.writer.conn)
	s.writer.epoch, s.writer.over = meta.Epoch, true
	if err != nil || intoCopy {
		return err
	}
	var copying string
	if err = s.writer.conn.QueryRowContext(ctx, `SELECT copying FROM meta WHERE one = 1`).Scan(&copying); err == nil && copying != "" {
		err = store.RefuseUnfinished(s.path, copying)
	}
	return err
}

func busy(d time.Duration) string { return fmt.Sprintf("busy_timeout(%d)", d.Milliseconds()) }

// pool returns a pool of connections to the file, made on demand: most is the largest number.
func pool(path, query string, most int, pragmas ...string) *sql.DB {
	for _, pragma := range pragmas {
		query += "&_pragma=" + url.QueryEscape(pragma)
	}
	file := url.URL{Scheme: "file", Path: path, RawQuery: query}
	db, err := sql.Open("sqlite", file.String())
	if err != nil {
		panic("sqlite: " + err.Error()) // only for an unknown driver
	}
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns(most)
	return db
}
