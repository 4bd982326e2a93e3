package consul

import (
	"log/slog"
	"sync"

	"github.com/bursar/bursar/internal/discovery"
)

// FailureLog logs what fails again and again: once when it begins, again when the reason is
// another one, and once when it is over. Many goroutines may use one.
type FailureLog struct {
	Log *slog.Logger

	mu   sync.Mutex // guards last
	last string
}

// Failed says that something failed.
func (l *FailureLog) Failed(message string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if text := err.Error(); text != l.last {
		l.last = text
		// it may name each entry of a catalog
		l.Log.Warn(message, "error", discovery.Cut(text, discovery.MaxShownError))
	}
}

// Worked says that it worked. It is logged only if it had failed.
func (l *FailureLog) Worked(message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last != "" {
		l.last = ""
		l.Log.Info(message)
	}
}
