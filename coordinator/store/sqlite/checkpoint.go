package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/bursar/bursar/coordinator/store"
)

// The log is carried over into the file while commits go on, on a connection of its own. SQLite begins the log anew only when a
// commit finds all of it carried over, which under load never happens by itself: the next commit has always come in the
// meantime. So where the log has grown long in spite of it, the small rest is carried over between two commits.
const (
	// defaultCarry is how many pages commits may put into the log before it is carried over: 16 MiB.
	defaultCarry = 4096
	// longLog is how many times that the log is long when the goroutine that writes finishes the job: 64 MiB. It is also what a
	// start after a crash may have to read.
	longLog = 4
)

// logLimit is what the log's file has at most once it is begun anew, in bytes: SQLite cuts what a reader that held on for long, such as
// a backup, has made it grow by. Below that the file keeps its length, because growing it costs each time.
func logLimit(carry int) int { return (longLog + 1) * carry * pageSize }

// signal wakes carryOver where that has become worth its while. The goroutine that writes calls it.
func (s *Store) signal() {
	if s.writer.written < s.carry {
		return
	}
	s.writer.written = 0
	select {
	case s.filled <- struct{}{}:
	default: // it is at it
	}
}

// carryOver runs until the store closes. What fails is tried again with the next signal, and by the last connection to close.
func (s *Store) carryOver() {
	ctx := context.Background()
	for range s.filled {
		length, err := checkpoint(ctx, s.checkpoints)
		if err == nil && length >= longLog*s.carry {
			_, err = s.do(ctx, func(ctx context.Context, w *writer) error {
				if w.conn == nil {
					return nil // the next commit makes it, the next signal comes
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

// checkpoint carries over what no reader needs in the log, without waiting for anybody, and returns the log's length in pages.
func checkpoint(ctx context.Context, q querier) (length int, err error) {
	var blocked, carried int
	err = q.QueryRowContext(ctx, `PRAGMA wal_checkpoint(PASSIVE)`).Scan(&blocked, &length, &carried)
	return length, err
}

var _ querier = (*sql.Conn)(nil)
