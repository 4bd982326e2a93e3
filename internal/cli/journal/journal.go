// Package journal writes lines for journald, which reads the priority of a line from its
// beginning. It has no state.
package journal

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"syscall"
)

// The priorities of syslog(3), which journald reads from the beginning of a line.
const (
	Error           = "<3>"
	priorityWarning = "<4>"
	priorityInfo    = "<6>"
	priorityDebug   = "<7>"
)

// Handler writes lines for journald, which adds the time itself and takes the priority from
// the beginning of the line: "<4>msg="…" key=value". The rest is as in text.
type Handler struct {
	byPriority []leveled
}

// leveled writes records from its level up to the next.
type leveled struct {
	level   slog.Level
	handler slog.Handler
}

// NewHandler returns a handler of the records from a level up.
func NewHandler(out io.Writer, level slog.Leveler) *Handler {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, attr slog.Attr) slog.Attr {
		if len(groups) == 0 && (attr.Key == slog.TimeKey || attr.Key == slog.LevelKey) {
			return slog.Attr{}
		}
		return attr
	}}
	with := func(level slog.Level, priority string) leveled {
		return leveled{level, slog.NewTextHandler(Prefixed{out, priority}, options)}
	}
	return &Handler{[]leveled{
		with(slog.LevelError, Error), with(slog.LevelWarn, priorityWarning), with(slog.LevelInfo, priorityInfo), with(slog.LevelDebug, priorityDebug),
	}}
}

// Prefixed writes a prefix before every line. A line comes in one piece.
type Prefixed struct {
	Out    io.Writer
	Prefix string
}

func (p Prefixed) Write(line []byte) (int, error) {
	if _, err := p.Out.Write(slices.Concat([]byte(p.Prefix), line)); err != nil {
		return 0, err
	}
	return len(line), nil
}

func (h *Handler) of(level slog.Level) slog.Handler {
	for _, l := range h.byPriority {
		if level >= l.level {
			return l.handler
		}
	}
	return h.byPriority[len(h.byPriority)-1].handler
}

// Enabled reports whether records of a level are written.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.of(level).Enabled(ctx, level)
}

// Handle writes a record with the priority of its level.
func (h *Handler) Handle(ctx context.Context, record slog.Record) error {
	return h.of(record.Level).Handle(ctx, record)
}

// WithAttrs returns a handler that adds attributes.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.each(func(handler slog.Handler) slog.Handler { return handler.WithAttrs(attrs) })
}

// WithGroup returns a handler that puts attributes into a group.
func (h *Handler) WithGroup(name string) slog.Handler {
	return h.each(func(handler slog.Handler) slog.Handler { return handler.WithGroup(name) })
}

func (h *Handler) each(change func(slog.Handler) slog.Handler) slog.Handler {
	changed := make([]leveled, len(h.byPriority))
	for i, l := range h.byPriority {
		changed[i] = leveled{l.level, change(l.handler)}
	}
	return &Handler{changed}
}

// Reads reports whether a file goes to journald: systemd names that file in JOURNAL_STREAM.
func Reads(out *os.File) bool {
	info, err := out.Stat()
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && os.Getenv("JOURNAL_STREAM") == fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
}
