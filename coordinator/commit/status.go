package commit

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/seal"
	"github.com/bursar/bursar/coordinator/store"
)

// Leading reports whether this coordinator leads. Any goroutine may call it and the methods below.
func (loop *Loop) Leading() bool { return loop.leads.Load() }

// Epoch is the epoch of the latest leadership of this coordinator; 0: there was none.
func (loop *Loop) Epoch() uint64 { return loop.lastEpoch.Load() }

// Unled returns the fault of the store because of which this coordinator does not lead; nil while
// it leads. It contains no text of callers. It does not say which coordinator leads.
func (loop *Loop) Unled() error {
	if why := loop.unled.Load(); why != nil && !loop.Leading() {
		return *why
	}
	return nil
}

// setUnled stores why a leadership did not begin, or ended.
func (loop *Loop) setUnled(err error) {
	switch {
	case err == nil, errors.Is(err, errLockLost), errors.Is(err, core.ErrStopping), errors.Is(err, store.ErrDeposed):
		loop.unled.Store(nil)
		return
	}
	loop.unled.Store(new(shownFault(err)))
}

// shownFault returns the part of a store's error that every caller may read. The log has the rest,
// such as the address of a database, or a key that a caller has chosen.
func shownFault(err error) error {
	if failed, answered := errors.AsType[*Error](err); answered {
		err = failed.Err // the rest is for the callers of that commit
	}
	if _, named := errors.AsType[*store.RowError](err); named {
		return errors.New("a row of the store cannot be read: the log names it")
	}
	if errors.Is(err, store.ErrGone) {
		return err // it contains only a path
	}
	for _, known := range []error{store.ErrFull, store.ErrReadOnly, store.ErrDamaged, store.ErrIO, store.ErrAway} {
		if errors.Is(err, known) {
			return fmt.Errorf("%w: the log says more", known)
		}
	}
	if refused, known := errors.AsType[*store.RefusedError](err); known {
		return fmt.Errorf("the store is %s: the log says more", refused.Reason)
	}
	return errors.New("the last leadership ended with an error: the log names it")
}

// Queued returns how many commands wait.
func (loop *Loop) Queued() int { return loop.queue.len() }

// Ended is closed when the loop has ended.
func (loop *Loop) Ended() <-chan struct{} { return loop.done }

// HiddenProviders lists the stored providers that the file of providers hides; empty while this
// coordinator does not lead.
func (loop *Loop) HiddenProviders() []string { return stored(&loop.hidden) }

// HiddenRules lists the rules that are not in force, with reasons; empty while this coordinator
// does not lead.
func (loop *Loop) HiddenRules() []string {
	return AtMost(stored(&loop.rulesHidden), mostHidden, "bursar quotas")
}

// UndeclaredDimensions lists the rules for undeclared dimensions; empty while this coordinator does
// not lead.
func (loop *Loop) UndeclaredDimensions() []string {
	return AtMost(stored(&loop.undeclared), mostHidden, "bursar quotas")
}

func stored(list *atomic.Pointer[[]string]) []string {
	if known := list.Load(); known != nil {
		return *known
	}
	return nil
}

// HistorySize returns the size of the history; nil: it is not counted yet.
func (loop *Loop) HistorySize() *HistorySize { return loop.history.size.Load() }

// HistoryWarnings warns if the history of callers is full.
func (loop *Loop) HistoryWarnings() []string { return loop.history.warnings() }

// Sealer seals grants and verifies seals at this moment, with the keys of the latest leadership.
func (loop *Loop) Sealer() seal.Sealer {
	s := seal.Sealer{Now: loop.Now(), Lifetime: loop.Remember}
	if keys := loop.sealKeys.Load(); keys != nil {
		s.Keys = *keys
	}
	return s
}

// ago returns the time since which coordinators have led for d. Time without a leader does not
// count.
func (loop *Loop) ago(now ledger.Instant, d time.Duration) ledger.Instant {
	if outages := loop.outages.Load(); outages != nil {
		return outages.Before(now, d)
	}
	return now.Add(-d)
}

// Now is the ledger's time while this coordinator leads, otherwise its clock's.
func (loop *Loop) Now() ledger.Instant { return loop.Clock.Now().Add(loop.Behind()) }

// Behind is how far this coordinator's clock is behind the ledger's time; zero while it does not
// lead.
func (loop *Loop) Behind() time.Duration {
	if s := loop.skew.Load(); s != nil {
		return s.Left(loop.Clock.Now())
	}
	return 0
}
