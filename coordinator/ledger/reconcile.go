package ledger

import (
	"slices"

	"github.com/bursar/bursar/resource"
)

// reconcile makes the books agree with a full report of a host's engines. What runs is adopted, over a limit if need be:
// it uses the machine whether or not the books say so. What the agent no longer has is released, provided that it had
// heard of it. A reservation that was to be stopped ends where it is none that runs.
func (l *Ledger) reconcile(h *host, engines []EngineReport, seen uint64, sampled bool) {
	running := make(map[ID]bool, len(engines))
	for i := range engines {
		running[engines[i].ID] = true
		l.adopt(h, &engines[i], sampled)
	}
	for _, e := range slices.Backward(h.entries) { // ending one moves only those after it
		switch {
		case running[e.ID]:
		case e.tracked() && e.Revision <= seen:
			l.end(e, Released, "its agent no longer has it")
		case e.State == Reserved && e.Stopping:
			l.end(e, Canceled, e.StopReason)
		}
	}
}

// adopt enters an engine that runs into the books as its agent describes it, unless it is there already.
func (l *Ledger) adopt(h *host, r *EngineReport, sampled bool) {
	if r.Grant == nil || r.Grant.Process.PID == 0 || r.ID == 0 {
		return
	}
	known := l.entries[r.ID]
	switch {
	case known == nil:
	case known.State == Active && known.host == h:
		return
	case known.State == Reserved && known.host == h: // started; its confirmation is still on its way
		entitled, err := confirmed(known.Entitled, &r.Grant.Entitled)
		if err != nil {
			entitled = known.Entitled
		}
		l.judge(known, r.OverUse)
		l.start(known, entitled, &ConfirmCommand{
			Process: r.Grant.Process, Address: r.Grant.Address, ApplicationIDs: r.Grant.ApplicationIDs,
		})
		return
	default:
		// Waiting, or held elsewhere, while it really runs here: the books are from another time.
		l.end(known, Lost, "its engine runs on host "+h.ID)
	}
	a := l.described(h, r, sampled)
	if before := l.requests.find(keyOf(a.Caller, a.RequestID)); before.id == a.ID {
		a.RequestHash = before.hash
	}
	if l.requests.find(keyOf(a.Caller, a.RequestID)).live() {
		a.RequestID = "" // taken by a newer request since
	}
	e := l.blank()
	e.Allocation = a
	l.open(e)
	l.tie(e)
	if !l.countable(e, h) {
		l.discard(e)
		return
	}
	e.OverLimit = !l.hasRoom(e, h)
	l.enter(e)
	l.hold(e, h)
	for _, account := range append([]*account{&h.account}, e.accounts...) {
		account.exceeded = account.overLimit()
	}
	for _, t := range e.touches() {
		t.branch.account.exceeded = t.branch.account.overLimit()
	}
	e.Reason = "adopted from its agent's report"
	l.judge(e, r.OverUse)
	l.touch(e)
	l.retime(e)
}

// described is an allocation as an agent's record tells it, made safe to enter.
func (l *Ledger) described(h *host, r *EngineReport, sampled bool) Allocation {
	a := *r.Grant
	a.ID, a.State = r.ID, Active
	a.HostID, a.HostAddress = h.ID, h.Address
	a.Measured, a.Unreclaimable = r.Measured, 0
	if sampled {
		a.Unreclaimable = r.Unreclaimable
	}
	a.Ended, a.Expires, a.Exit = 0, 0, nil
	a.Forget = false
	a.OverUse = nil // the report says
	if a.Stopping {
		a.StopGrace, a.StopReason = l.cfg.StopGrace, orElse(a.StopReason, "its agent was asked to stop it")
	}
	a.GrantRevision = l.revision + 1
	for _, at := range []*Instant{&a.Created, &a.Confirmed} { // by an agent's record, which must not be ahead of time
		if *at == 0 || *at > l.now {
			*at = l.now
		}
	}
	a.Reserved = min(a.Reserved, l.now)
	if a.Entitled.Validate() != nil {
		a.Entitled = resource.Resource{Vector: a.Measured}
	}
	return a
}

func (l *Ledger) countable(e *entry, h *host) bool {
	for _, a := range append([]*account{&h.account}, e.accounts...) {
		if !a.canCount(e.request()) {
			return false
		}
	}
	for _, t := range e.touches() {
		if !t.branch.account.canCount(t.vector) {
			return false
		}
	}
	return true
}

func (l *Ledger) hasRoom(e *entry, h *host) bool {
	for _, a := range append([]*account{&h.account}, e.accounts...) {
		if !a.fits(e.request()) {
			return false
		}
	}
	for _, t := range e.touches() { // by the books: that nothing is known of a cluster does not make it full
		if !t.branch.account.fits(t.vector) {
			return false
		}
	}
	return true
}
