package commit

import (
	"sync/atomic"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
)

// Leading reports whether this coordinator leads. Any goroutine may call it, as all that follow.
func (w *Loop) Leading() bool { return w.leads.Load() }

// Waiting is how many commands wait.
func (w *Loop) Waiting() int { return len(w.queue) }

// Ended is closed when the loop has ended.
func (w *Loop) Ended() <-chan struct{} { return w.done }

// HiddenProviders says what the file of providers hides of the stored ones; nothing while this coordinator does not lead.
func (w *Loop) HiddenProviders() []string { return stored(&w.hidden) }

// HiddenRules says which rules are not in force, and why; nothing while this coordinator does not lead.
func (w *Loop) HiddenRules() []string {
	return AtMost(stored(&w.rulesHidden), mostHidden, "bursar quotas")
}

func stored(list *atomic.Pointer[[]string]) []string {
	if known := list.Load(); known != nil {
		return *known
	}
	return nil
}

// HistorySize is how much has ended and is still known; nil: it is not counted yet.
func (w *Loop) HistorySize() *HistorySize { return w.history.size.Load() }

// HistoryWarnings says whose history is full.
func (w *Loop) HistoryWarnings() []string { return w.history.warnings() }

// Now is the ledger's time while this coordinator leads, else its clock's.
func (w *Loop) Now() ledger.Instant { return w.Clock.Now().Add(w.Behind()) }

// Behind is how far this coordinator's clock is behind the ledger's time; zero while it does not lead.
func (w *Loop) Behind() time.Duration {
	if s := w.skew.Load(); s != nil {
		return s.Left(w.Clock.Now())
	}
	return 0
}
