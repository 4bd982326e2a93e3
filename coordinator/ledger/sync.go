package ledger

import (
	"fmt"
)

// Sync applies an agent's report and answers what the agent has to do.
//
// Errors: *StaleError, an older incarnation or sequence than one already accepted: nothing of the
// report was applied. An unknown host, another boot or a missed load are not errors: the action is
// ActionResync.
func (l *Ledger) Sync(now Instant, c SyncCommand) (SyncResult, error) {
	l.begin(now)
	h := l.hosts[c.HostID]
	if h == nil || c.Incarnation > h.Incarnation || (c.Incarnation == h.Incarnation && validText(c.BootID) != h.BootID) || h.state == LostHost {
		return SyncResult{Revision: c.Seen, Interval: l.Interval(), Action: ActionResync}, nil
	}
	if c.Incarnation < h.Incarnation {
		return SyncResult{}, &StaleError{h.ID, "incarnation", c.Incarnation, h.Incarnation}
	}
	if c.Sequence <= h.sequence {
		return SyncResult{}, &StaleError{h.ID, "sequence", c.Sequence, h.sequence}
	}
	before := h.room()
	h.sequence = c.Sequence
	h.lastSync, h.heard = l.now, true
	seen := c.Seen
	if seen > l.revision { // of a ledger whose changes were not stored, or of another store
		seen = 0
		h.needFull = true
	}
	var result SyncResult
	l.releaseEnded(h, c.Ended, &result)
	fresh := c.Sample != nil && !h.hasSample(c.Sample)
	sampled := fresh && c.Sample.MemoryAvailable != nil
	l.updateMeasured(h, c.Engines, sampled)
	if c.Full {
		l.tokenArrived(h)
		h.needFull = l.reconcile(h, c.Engines, seen, sampled, &result)
	}
	for _, v := range c.Vetoes {
		l.veto(h, v)
	}
	if c.Capacity != nil {
		h.cutCapacity = c.CutCapacity
		l.updateCapacity(h, *c.Capacity)
	}
	if fresh {
		l.measure(h, c.Sample)
	}
	h.state = Healthy
	if c.Leaving && !h.Left {
		h.Left = true
		l.recordHost(h)
	}
	l.stopDrained(h)
	l.setHostTimer(h)
	l.updatePlacer(h)
	l.markGrown(h, before)
	l.grantWaiting()

	l.answer(h, &c, seen, &result)
	return result, nil
}

// room is what a report of a host may add to, other than by what it releases.
type room struct {
	open   bool // it gets new grants
	memory int64
}

func (h *host) room() room {
	note, _ := h.unschedulable()
	return room{note == "", h.free()[0]}
}

// markGrown marks the queues in which a request may fit on the host only since a report of it. Most
// reports show a little more or less memory, which makes no difference to any request.
func (l *Ledger) markGrown(h *host, before room) {
	now := h.room()
	switch {
	case !now.open:
	case !before.open, h.account.claim != nil && now.memory > before.memory:
		l.freed(&h.account)
	default:
		for _, q := range [...]*queue{&h.account.queue, &l.anyHost} {
			if q.needsBetween(before.memory, now.memory) {
				l.mark(q)
			}
		}
	}
}

// Heard records that a host's agent lives, and nothing else of its report. The host does not
// become lost while its reports cannot be applied, but it gets no new grants once its last sample
// is too old.
func (l *Ledger) Heard(now Instant, c SyncCommand) {
	l.begin(now)
	h := l.hosts[c.HostID]
	if h == nil || h.state == LostHost || c.Incarnation != h.Incarnation || validText(c.BootID) != h.BootID || c.Sequence <= h.sequence {
		return
	}
	h.sequence = c.Sequence
	h.lastSync, h.heard = l.now, true // its timer uses that when it is due
}

// answer fills in what is new to the agent.
func (l *Ledger) answer(h *host, c *SyncCommand, seen uint64, result *SyncResult) {
	result.Revision = l.revision
	result.Interval = l.Interval()
	result.Complete = c.Full || seen < h.gone.before || seen == 0
	reasons := stopReasonBytes
	for _, e := range h.entries {
		if result.Complete || e.Revision > seen {
			result.Grants = append(result.Grants, e.Allocation)
		}
		if e.Stopping {
			order := StopOrder{ID: e.ID, Grace: e.StopGrace}
			if reasons -= len(e.StopReason); reasons >= 0 {
				order.Reason = e.StopReason
			}
			result.Stops = append(result.Stops, order)
		}
	}
	kept := h.gone.list[:0]
	for _, d := range h.gone.list {
		if d.revision <= seen {
			continue
		}
		kept = append(kept, d)
		if e := l.entry(d.id); e == nil || e.host != h { // else it has come back since then
			result.Gone = append(result.Gone, d.id)
		}
	}
	h.gone.list = kept
	switch {
	case h.needFull, !c.Full && h.changed <= seen && c.Digest != h.digest:
		result.Action = ActionResync
	case h.Draining:
		result.Action = ActionDrain
	}
}

// releaseEnded releases the engines that ended. Each is acknowledged, known or not.
func (l *Ledger) releaseEnded(h *host, ended []EngineEnd, result *SyncResult) {
	result.Acknowledged = make([]ID, 0, len(ended))
	for _, end := range ended {
		result.Acknowledged = append(result.Acknowledged, end.ID)
		e := l.entry(end.ID)
		if e == nil || e.host != h {
			continue
		}
		if end.Exit != nil || !e.Releasing { // otherwise the word of the caller stays
			e.Exit, e.ErrorOutput = end.Exit, validText(end.ErrorOutput)
		}
		e.noteStopError("")
		e.takeLeaderEnd(&end)
		if !end.Measured.IsUnset() {
			e.Measured = end.Measured
		}
		e.notePeak(end.Measured, end.Peak, end.PeakSource)
		e.noteCPUTime(end.CPUTime)
		l.lastIncidents(e, end.Incidents)
		result.Over = append(result.Over, end.ID)
		l.reportedBegun(e, end.LogDirectory)
		l.notePhase(e, end.Phase, validText(end.PhaseReason))
		l.endTried(e, e.endReason(end.Reason), !end.NotBegun)
	}
}

// updateMeasured stores what engines were measured to use. The memory that they have used counts
// only together with a sample of the machine that shows it as no longer available.
func (l *Ledger) updateMeasured(h *host, engines []EngineReport, sampled bool) {
	next := 0 // in the host's entries, where the next engine is looked for first
	for i := range engines {
		r := &engines[i]
		e := l.entryOn(h, r.ID, &next)
		if e == nil {
			continue
		}
		e.Measured = r.Measured
		e.notePeak(r.Measured, r.Peak, r.PeakSource)
		e.noteCPUTime(r.CPUTime)
		l.noteRule(e, r.Rule)
		if sampled {
			e.Unreclaimable = r.Unreclaimable
		}
		changed := false
		if e.State == Active {
			changed = e.noteStopError(validText(r.StopError)) || e.MemoryLimit != r.MemoryLimit
			e.MemoryLimit = r.MemoryLimit
			changed = l.updateOverUse(e, r.OverUse) || changed
			changed = l.updateIncidents(e, r.Incidents) || changed
			changed = e.noteLeaderEnd(r.LeaderEnd) || changed
			changed = l.reportedBegun(e, r.LogDirectory) || changed
			changed = l.reportedPhase(e, r) || changed
		}
		if changed {
			l.recordEntry(e)
		}
	}
}

// entryOn finds an entry of a host; nil: it has none with that id. Agents report their engines by
// id, and most hosts have them in that order: then it is the next one, or one of those after it,
// and the table of all entries, most of which is in no cache, is not searched.
func (l *Ledger) entryOn(h *host, id ID, next *int) *entry {
	for at := *next; at < min(*next+nextSearched, len(h.entries)); at++ {
		if e := h.entries[at]; e.ID == id {
			*next = at + 1
			return e
		}
	}
	e := l.entry(id)
	if e == nil || e.host != h {
		return nil
	}
	*next = int(e.hostIndex) + 1
	return e
}

// nextSearched is how many entries of a host are compared with an engine of a report.
const nextSearched = 4

// veto takes back a grant for which the agent did not find the memory. The request waits again in
// its old place, or is refused if its wait is over. If it was to be stopped, it ends.
func (l *Ledger) veto(h *host, v Veto) {
	e := l.entry(v.ID)
	if e == nil || e.host != h || e.State != Reserved || v.Revision < e.GrantRevision {
		return // it has ended, or the veto is about an earlier grant
	}
	// What the agent saw is newer than its sample: until the next sample this is all that is free.
	h.live = min(h.live, v.Headroom+h.promised-e.promise)
	reason := fmt.Sprintf("%s: host %s found %d bytes of memory left", ReasonVetoed, h.ID, v.Headroom)
	if why := validText(v.Reason); why != "" {
		reason = fmt.Sprintf("%s: host %s: %s", ReasonVetoed, h.ID, why)
	}
	if e.Stopping { // it does not run, and nobody wants it
		l.becomeCanceled(e, e.StopReason)
		return
	}
	if e.WaitDeadline <= l.now {
		e.Forget = !e.hasExecuted() // as with every refusal
		l.becomeCanceled(e, reason)
		return
	}
	blocked := &l.anyHost
	if e.wishedHost() != "" {
		blocked = &h.account.queue
	}
	l.becomeWaiting(e, blocked, reason)
	l.mark(blocked) // another host may have room
}
