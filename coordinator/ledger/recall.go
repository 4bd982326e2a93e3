package ledger

import "errors"

// ErrNotRecalled refuses a request whose id may be remembered: the ledger is Recalling, and the
// command does not have the store's record. Nothing was done.
var ErrNotRecalled = errors.New("request_id: the store was not asked whether an allocation that has ended had it: try again")

// Recalling reports whether there are request ids of ended allocations that Recall did not bring
// yet. Until then
//
//   - an Allocate with a request id that the ledger does not know needs to say in Past what the
//     store has under it;
//   - no engine is adopted that the ledger does not know: its allocation may have ended. Its host
//     is asked for another full report.
func (l *Ledger) Recalling() bool { return l.requests.recalling }

// Recall tells a ledger that is Recalling of ended allocations from before it was restored, those
// that ended last first; last says that there are no more. What the ledger knows already stays.
// Its cost grows with the length of the list only.
func (l *Ledger) Recall(now Instant, list []Remembered, last bool) {
	l.begin(now)
	for i := range list {
		r := &list[i]
		if until := l.rememberedUntil(r.Ended); until > l.now && l.entry(r.ID) == nil {
			l.requests.recall(keyOf(r.Caller, r.RequestID), r.RequestHash, r.ID, until)
		}
	}
	if last {
		l.requests.recalling = false
	}
}

// rememberedUntil is until when an allocation is remembered that ended before this ledger was
// restored. A time after that is of a clock that was ahead.
func (l *Ledger) rememberedUntil(ended Instant) Instant {
	return l.outages.After(min(ended, l.restored), l.cfg.RequestRetention)
}

// repeatPast answers a request whose id the ledger does not know while it is recalling: all that
// has happened since it was restored is known, so the store's rows from before decide.
func (l *Ledger) repeatPast(c *AllocateCommand) (AllocateResult, bool, error) {
	p := c.Past
	switch {
	case p == nil:
		return AllocateResult{}, true, ErrNotRecalled
	case p.ID == 0 || l.rememberedUntil(p.Ended) <= l.now:
		return AllocateResult{}, false, nil
	case p.RequestHash != c.RequestHash && p.RequestHash != 0:
		return AllocateResult{}, true, &ConflictError{c.RequestID, p.ID}
	}
	return AllocateResult{Allocation: Allocation{ID: p.ID}, Ended: true}, true, nil
}
