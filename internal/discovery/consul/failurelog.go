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
func (q *FailureLog) Failed(message string, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if text := err.Error(); text != q.last {
		q.last = text
		// it may name each entry of a catalog
		q.Log.Warn(message, "error", discovery.Cut(text, discovery.MaxShownError))
	}
}

// Worked says that it worked. It is logged only if it had failed.
func (q *FailureLog) Worked(message string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.last != "" {
		q.last = ""
		q.Log.Info(message)
	}
}
