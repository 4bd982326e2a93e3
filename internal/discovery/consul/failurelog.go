package consul

import (
	"log/slog"
	"sync"

	"github.com/bursar/bursar/internal/discovery"
)

// FailureLog logs a repeated failure: once when it begins, again when the reason changes, and once
// when it is over. It is safe for concurrent use.
type FailureLog struct {
	Log *slog.Logger

	mu   sync.Mutex // guards last
	last string
}

// Failed records a failure.
func (l *FailureLog) Failed(message string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if text := err.Error(); text != l.last {
		l.last = text
		// the error may name each entry of a catalog
		l.Log.Warn(message, "error", discovery.Cut(text, discovery.MaxShownError))
	}
}

// Worked records a success. It is logged only after a failure.
func (l *FailureLog) Worked(message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last != "" {
		l.last = ""
		l.Log.Info(message)
	}
}
