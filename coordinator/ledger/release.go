package ledger

import "github.com/bursar/bursar/resource"

// Release ends an allocation in any state and gives everything back. While a process of its engine
// may live, it is only marked as Releasing, and counts until the process has ended. An engine that
// its agent launched is stopped.
//
// Errors: *NotFoundError, which callers may treat as success, *StateError (of another host) and
// *DeniedError.
func (l *Ledger) Release(now Instant, c ReleaseCommand) (Allocation, error) {
	l.begin(now)
	e, err := l.lookup(c.ID)
	if err != nil {
		return Allocation{}, err
	}
	if err := e.may(c.Actor, "release"); err != nil {
		return Allocation{}, err
	}
	if c.HostID != "" && e.State.Holds() && c.HostID != e.HostID {
		return Allocation{}, &StateError{"allocation", e.ID.String(), "on host " + e.HostID, "one on host " + c.HostID}
	}
	if c.Force && !c.Actor.IsOperator() {
		return Allocation{}, &DeniedError{Actor: c.Actor.Name, Wanted: "force the release of allocation " + e.ID.String()}
	}
	if c.HostID != "" || !e.tracked() { // otherwise its agent measures it
		e.notePeak(resource.Vector{}, c.Peak, c.PeakSource)
		e.noteCPUTime(c.CPUTime)
	}
	reason := orElse(c.Reason, "released by "+c.Actor.Name)
	if e.mayLive(&c) {
		return l.releaseLater(e, reason, &c), nil
	}
	e.Exit, e.ErrorOutput = c.Exit, validText(c.ErrorOutput)
	l.lastIncidents(e, c.Incidents)
	l.becomeReleased(e, reason)
	return l.lastTransition(), nil
}

// mayLive reports whether a process of the engine may live when it is released.
func (e *entry) mayLive(c *ReleaseCommand) bool {
	return e.tracked() && !c.Force && (!c.ProcessEnded || c.HostID == "")
}

// releaseLater marks an entry whose engine may live as released by its caller. A second release
// changes nothing.
func (l *Ledger) releaseLater(e *entry, reason string, c *ReleaseCommand) Allocation {
	if !e.Releasing {
		l.becomeReleasing(e, reason, c.Exit, validText(c.ErrorOutput))
	}
	if e.Process.Launched && !e.Stopping {
		l.becomeStopping(e, reason, l.cfg.StopGrace)
	}
	return e.Allocation
}

// endReason is why an entry ended whose agent has seen its end. If its caller had released it, the
// caller's reason says more than that its process ended.
func (e *entry) endReason(agents string) string {
	if e.Releasing && (agents == "" || agents == agentsProcessEnded || agents == notReported) {
		return e.Reason
	}
	return orElse(agents, "its process ended")
}

// Reasons that say nothing but that the engine has ended.
const (
	agentsProcessEnded = "process ended" // tracker.ProcessEnded of the agent
	notReported        = "its agent no longer has it"
)
