package failure

import (
	"context"
	"log/slog"
	"sync"
)

// warningLog is a log that remembers the last warning, so that a command can say why it found
// nobody.
type warningLog struct {
	mu   sync.Mutex
	last string // guarded by mu
}

// Enabled takes warnings and errors.
func (t *warningLog) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn
}

// Handle remembers a record.
func (t *warningLog) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" {
			text = a.Value.String()
		}
		return true
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = text
	return nil
}

// WithAttrs changes nothing: attributes are not remembered.
func (t *warningLog) WithAttrs([]slog.Attr) slog.Handler { return t }

// WithGroup is WithAttrs for groups.
func (t *warningLog) WithGroup(string) slog.Handler { return t }

// String is the last warning; empty if there was none.
func (t *warningLog) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}
