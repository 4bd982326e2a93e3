package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/bursar/bursar/resource"
)

// reconcile makes the ledger agree with a full report of a host's engines. Engines that run are
// adopted, if necessary over a limit: they use the machine in any case. Allocations that the agent
// no longer has are released, if the agent had got them. A reservation that was to be stopped ends
// if it does not run. The result tells which engines were not adopted. It returns whether another
// full report is needed for the rest.
func (l *Ledger) reconcile(h *host, engines []EngineReport, seen uint64, sampled bool, result *SyncResult) (more bool) {
	left := &result.NotTaken
	running := make(map[ID]bool, len(engines))
	var in intake
	for i := range engines {
		running[engines[i].ID] = true
		if elsewhere := l.adopt(h, &engines[i], sampled, &in); elsewhere != nil {
			if left.Count++; left.Count == 1 {
				left.First = *elsewhere
			}
		}
	}
	for _, e := range slices.Backward(h.entries) { // ending an entry moves only those after it
		switch {
		case running[e.ID]:
		case e.tracked() && e.Revision <= seen:
			result.Over = append(result.Over, e.ID)
			l.endTried(e, e.endReason(notReported), true)
		case e.State == Reserved && e.Stopping:
			l.becomeCanceled(e, e.StopReason)
		}
	}
	result.Unvouched = in.unvouched
	return in.rest && in.taken || in.recalled
}

// mostEngines is the number of engines on a host from which on the ledger adopts no more unknown
// ones. It is how many fit into the largest report by default.
const mostEngines = 16_384

// mostCreated is how many queues may exist only because a host's agent reported them. Queues that
// a provider has reported, or that requests name, do not count. A real host has a few dozen.
const mostCreated = 1024

// mostPlaces is how many places the engines that are adopted from one report may have together:
// the host, each queue of a part, and each queue above that. A place costs the loop, which other
// callers wait for, up to 7 µs.
const mostPlaces = 8192

// intake is the engines that were adopted from one report.
type intake struct {
	places      int
	taken, rest bool // some were adopted; some are left for the next report
	recalled    bool // some are left until the ledger is not Recalling any more
	unvouched   int  // how many of them are on their agent's word alone
	// claimable is the rest of the capacity for engines on the agent's word alone; nil: not known
	// yet.
	claimable *resource.Vector
}

// admits reports whether an engine with these parts may still be adopted from the report.
func (in *intake) admits(parts []resource.External) bool {
	places := 1 + queuesOf(parts)
	in.rest = in.rest || in.places+places > mostPlaces
	if !in.rest {
		in.places += places
	}
	return !in.rest
}

// mayCreate reports whether the host's agent may report these parts: the queues that do not exist
// yet must be few enough.
func (l *Ledger) mayCreate(h *host, parts []resource.External) bool {
	left := mostCreated - h.createdQueues
	for i := range parts {
		at := queueKey{parts[i].Path, parts[i].Partition}
		c := l.clusters[ClusterName{parts[i].Kind, parts[i].Cluster}]
		for below := true; below && (c == nil || c.queues[at] == nil); at.path, below = parentPath(at.path) {
			if left--; left < 0 {
				return false
			}
		}
	}
	return true
}

// mostNotTaken is how many records of a host that differ from the ledger are compared with it. If
// there are more, they are guesses.
const mostNotTaken = 1000

// adopt adds a running engine to the ledger as its agent describes it, unless the ledger has it
// already. An allocation that the ledger has elsewhere ends for it only if the agent's record is
// of that very request: anybody can guess ids, and an agent can speak for its own host only. An
// active allocation never moves. One that has ended comes back only as the same request, because
// its row in the store answers for that request. If the engine is not adopted for these reasons,
// adopt returns the allocation as the ledger has it.
func (l *Ledger) adopt(h *host, r *EngineReport, sampled bool, in *intake) (elsewhere *Allocation) {
	if r.Grant == nil || r.Grant.Process.PID == 0 || r.ID == 0 {
		return nil
	}
	known := l.entry(r.ID)
	switch {
	case known == nil && l.requests.isOther(r.ID, keyOf(validText(r.Grant.Caller), validText(r.Grant.RequestID))):
		return &Allocation{ID: r.ID}
	case known == nil && l.requests.recalling:
		in.recalled = true // it may have ended, even as another request
	case known == nil:
		l.adoptUnknown(h, r, sampled, in)
	case known.State == Active && known.host == h:
	case known.State == Reserved && known.host == h:
		// it started; its confirmation has not arrived yet
		l.startReported(known, r)
	case known.State != Active && h.notTaken < mostNotTaken && known.mayRunOn(h, r.Grant) && l.mayCreate(h, r.Grant.Entitled.External):
		// It waits, or is reserved elsewhere, but really runs here: the store is from another
		// time.
		ttl, record := known.ReservationTTL, *r
		if r.Unvouched {
			entitled, _ := confirmedResource(known.Entitled, &r.Grant.Entitled)
			record.Grant = &Allocation{}
			*record.Grant = *r.Grant
			record.Grant.Entitled = entitled
		}
		l.becomeLost(known, "its engine runs on host "+h.ID)
		l.adoptRecord(h, &record, sampled, ttl)
	default:
		h.notTaken++
		return &known.Allocation
	}
	return nil
}

// adoptUnknown adopts an engine that the ledger does not know, within the bounds of its host and
// of one report.
func (l *Ledger) adoptUnknown(h *host, r *EngineReport, sampled bool, in *intake) {
	if h.bytes >= adoptedTimes*l.cfg.HostLiveBytes || len(h.entries) >= mostEngines || in.rest {
		return
	}
	if r.Unvouched {
		if in.admits(nil) {
			l.adoptUnvouched(h, r, sampled, in)
		}
		return
	}
	if parts := r.Grant.Entitled.External; l.mayCreate(h, parts) && in.admits(parts) {
		in.taken = l.adoptRecord(h, r, sampled, 0) || in.taken
	}
}

// startReported makes a reservation active because its engine runs by its agent's report.
func (l *Ledger) startReported(e *entry, r *EngineReport) {
	// as reserved, if that is more or is wrong
	entitled, _ := confirmedResource(e.Entitled, &r.Grant.Entitled)
	l.updateOverUse(e, r.OverUse)
	l.updateIncidents(e, r.Incidents)
	e.noteStopError(validText(r.StopError))
	e.noteLeaderEnd(r.LeaderEnd)
	e.MemoryLimit = r.MemoryLimit
	l.becomeActive(e, entitled, &ConfirmCommand{
		Process: r.Grant.Process, Address: r.Grant.Address, ApplicationIDs: validTexts(r.Grant.ApplicationIDs),
	})
	begun := l.reportedBegun(e, r.LogDirectory)
	if l.reportedPhase(e, r) || begun {
		l.recordEntry(e)
	}
}

// adoptRecord makes an entry of an agent's record. ttl is the time to live of its reservation if
// the ledger knows the request; zero: the ledger does not. It reports whether the record can be
// counted.
func (l *Ledger) adoptRecord(h *host, r *EngineReport, sampled bool, ttl time.Duration) bool {
	a := l.adoptedAllocation(h, r, sampled)
	a.ReservationTTL, a.Claimed = ttl, nil
	l.identify(&a)
	if a.Releasing {
		a.Reason = orElse(r.Grant.Reason, "released by its caller")
	} else {
		a.Reason = "adopted from its agent's report"
	}
	if r.Without != "" {
		a.Reason += ", without what was damaged or too large there: " + r.Without
	}
	e := l.becomeAdopted(h, &a)
	if e == nil {
		return false
	}
	l.updateOverUse(e, r.OverUse)
	l.reportedBegun(e, r.LogDirectory)
	l.reportedPhase(e, r)
	l.recordEntry(e)
	l.takeProcess(e)
	return true
}

// identify lets an adopted allocation keep its request id if that is free or was its own.
func (l *Ledger) identify(a *Allocation) {
	switch before := l.requests.find(keyOf(a.Caller, a.RequestID)); before.id {
	case 0:
	case a.ID: // it had ended here, and others may have got what it held
		a.RequestHash, a.ReservationTTL = before.hash, l.cfg.ReservationTTL
		a.Reserved, a.Confirmed = l.now, min(a.Confirmed, l.now-1) // see BroughtBack
	default:
		a.RequestID = "" // the id is another request's
	}
}

// mayRunOn reports whether an agent's record is of this very request, which may once have been
// granted on its host. Only the ledger and the agents of such hosts know all of these values,
// above all the nanoseconds of its creation.
func (e *entry) mayRunOn(h *host, record *Allocation) bool {
	wished := e.wishedHost()
	return (wished == "" || wished == h.ID) &&
		record.Created == e.Created && record.Caller == e.Caller && record.RequestID == e.RequestID &&
		record.Labels.Equal(e.Labels) && record.Requested.Equal(e.Requested)
}

// adoptedAllocation is the allocation of an agent's record, with values that the ledger can count.
func (l *Ledger) adoptedAllocation(h *host, r *EngineReport, sampled bool) Allocation {
	a := *r.Grant
	a.ID = r.ID
	a.HostID, a.HostAddress = h.ID, h.Address
	a.Measured, a.Peak, a.CPUTime, a.Unreclaimable = r.Measured, Peak{}, 0, 0
	a.notePeak(r.Measured, r.Peak, r.PeakSource)
	a.noteCPUTime(r.CPUTime)
	a.LeaderEnd, a.MemoryLimit = r.LeaderEnd, r.MemoryLimit
	if sampled {
		a.Unreclaimable = r.Unreclaimable
	}
	a.Ended, a.Expires, a.Exit, a.ErrorOutput = 0, 0, nil, ""
	a.Forget, a.RequestHash = false, 0
	a.OverUse = nil // the report has it
	incidents, _ := mergeIncidents(l.now, nil, r.Incidents)
	a.Notes = nil
	a.note(func(n *Notes) { *n = Notes{StopError: validText(r.StopError), Incidents: incidents, Rule: r.Rule} })
	a.Wishes = nil // it has its host
	a.Start = a.Start.adopted()
	if r.Unvouched {
		a.Start = nil
	}
	a.Caller, a.RequestID, a.Address, a.StopReason = validText(a.Caller), validText(a.RequestID), validText(a.Address), validText(a.StopReason)
	a.Subordinate = isSubordinate(a.Subordinate, a.Caller)
	a.Process, a.ApplicationIDs = a.Process.clean(), validTexts(a.ApplicationIDs)
	if a.Stopping {
		a.StopGrace, a.StopReason = l.cfg.StopGrace, orElse(a.StopReason, "its agent was asked to stop it")
	}
	a.GrantRevision = l.revision + 1
	// An agent's record must not have times in the future.
	a.Created, a.Reserved, a.Confirmed = min(cmp.Or(a.Created, l.now), l.now), min(a.Reserved, l.now), min(cmp.Or(a.Confirmed, l.now), l.now)
	if a.Requested.Validate() != nil {
		a.Requested = resource.Resource{}
	}
	if a.Entitled.Validate() != nil || a.Entitled.IsZero() && r.Without != "" {
		a.Entitled = resource.Resource{}
		if a.Measured.Validate() == nil {
			a.Entitled.Vector = a.Measured
		}
	}
	return a
}

// hasRoom reports whether every account has the room for an engine, by the account alone: it runs
// already, and an unknown cluster is not a full one.
func (l *Ledger) hasRoom(e *entry) bool {
	for c := range l.charges(e).all {
		v := c.vector
		if c.part != nil {
			v = c.part.queue.limited(v)
		}
		if !c.account.fits(v) {
			return false
		}
	}
	return true
}
