package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/bursar/bursar/coordinator/store"
)

// The log is checkpointed into the file during commits, on a connection of its own. SQLite starts
// the log from its beginning again only if a commit finds all of it checkpointed. Under load that
// never happens by itself, because the next commit always comes first. So if the log has still
// grown long, its small rest is checkpointed between two commits.
const (
	// defaultCarry is how many pages commits may write to the log before it is checkpointed: 16
	// MiB.
	defaultCarry = 4096
	// longLog times carry is the length of the log at which the writing goroutine checkpoints the
	// rest: 64 MiB. A start after a crash may have to read as much.
	longLog = 4
)

// logLimit is the size in bytes to which SQLite cuts the log's file when it starts the log again. A
// long read, such as a backup, can make it grow beyond that. Below it the file keeps its length,
// because each growth has a cost.
func logLimit(carry int) int { return (longLog + 1) * carry * pageSize }

// signal wakes carryOver if the log is long enough. The writing goroutine calls it.
func (s *Store) signal() {
	if s.writer.written < s.carry {
		return
	}
	s.writer.written = 0
	select {
	case s.filled <- struct{}{}:
	default: // it is running
	}
}

// carryOver runs until the store closes. After a failure it tries again at the next signal; so does
// the last connection when it closes.
func (s *Store) carryOver() {
	ctx := context.Background()
	for range s.filled {
		length, err := checkpoint(ctx, s.checkpoints)
		if err == nil && length >= longLog*s.carry {
			_, err = s.do(ctx, func(ctx context.Context, w *writer) error {
				if w.conn == nil {
					return nil // the next commit makes the connection, and another signal comes
				}
				_, err := checkpoint(ctx, w.conn)
				return err
			})
		}
		if err != nil && !errors.Is(err, store.ErrClosed) {
			s.log.Warn("the store's log could not be carried over into its file", "path", s.path, "error", err)
		}
	}
}

// checkpoint copies the part of the log that no reader needs into the file, without waiting, and
// returns the log's length in pages.
func checkpoint(ctx context.Context, q querier) (length int, err error) {
	var blocked, carried int
	err = q.QueryRowContext(ctx, `PRAGMA wal_checkpoint(PASSIVE)`).Scan(&blocked, &length, &carried)
	return length, err
}

var _ querier = (*sql.Conn)(nil)
