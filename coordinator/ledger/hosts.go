package ledger

import (
	"slices"
	"time"

	"github.com/bursar/bursar/resource"
)

// Register announces a host, new or known. Its next Sync must report everything.
//
// Errors: *StrangerError, *StaleError (a later incarnation of its agent has registered),
// *FieldError.
func (l *Ledger) Register(now Instant, c RegisterCommand) (time.Duration, error) {
	l.begin(now)
	if err := checkName("host_id", c.HostID); err != nil {
		return 0, err
	}
	if err := c.Capacity.Validate(); err != nil {
		return 0, outOfRange("capacity", err)
	}
	if err := c.Protected.Validate(); err != nil {
		return 0, outOfRange("protected", err)
	}
	h := l.hosts[c.HostID]
	if h != nil {
		if err := l.checkAgent(h, &c); err != nil {
			return 0, err
		}
	}
	if h != nil && c.Incarnation < h.Incarnation {
		return 0, &StaleError{h.ID, "incarnation", c.Incarnation, h.Incarnation}
	}
	isNew := h == nil
	if isNew {
		h = l.addHost(l.newHost(c.HostID))
	}
	reshaped := isNew || !h.Labels.Equal(c.Labels) || !h.Capacity.Equal(c.Capacity) || !h.Protected.Equal(c.Protected)
	if c.Incarnation > h.Incarnation {
		h.sequence = 0
	}
	h.Address, h.Labels, h.Incarnation, h.Version = validText(c.Address), c.Labels, c.Incarnation, validText(c.Version)
	h.BootID, h.MachineID, h.PIDNamespace = validText(c.BootID), validText(c.MachineID), validText(c.PIDNamespace)
	h.renewToken(&c)
	l.updateMachine(h, false)
	h.Lost, h.Left = false, false
	h.cutLabels, h.cutCapacity = c.CutLabels, c.CutCapacity
	if !h.Capacity.Equal(c.Capacity) || !h.Protected.Equal(c.Protected) {
		l.setCapacity(h, c.Capacity, c.Protected)
	}
	h.state = Healthy
	h.needFull = true
	h.lastSync, h.heard = l.now, true
	l.setHostTimer(h)
	l.recordHost(h)
	l.updatePlacer(h)
	if reshaped {
		l.hostShaped(h)
		l.grantWaiting()
	}
	return l.Interval(), nil // it gets no grants before its first report
}

// isReturning makes a host from the store returning until its agent reports.
func (h *host) isReturning() {
	h.state = Returning
	if h.Lost {
		h.state = LostHost
	}
	h.needFull = true
}

// setHostTimer sets the host's timer to when it becomes suspect, unmeasured or lost, or when an
// operator's order for a time ends.
func (l *Ledger) setHostTimer(h *host) {
	if h.StopTime > l.now || h.CordonedUntil > l.now {
		l.timed[&h.timer] = struct{}{}
	} else {
		delete(l.timed, &h.timer)
	}
	patience := time.Duration(l.cfg.SuspectAfter) * l.Interval()
	switch h.state {
	case Healthy, Returning:
		due := h.lastSync.Add(patience)
		if h.measured {
			due = min(due, h.sampleAt.Add(patience))
		}
		l.timers.set(&h.timer, l.orStop(h, due))
	case Suspect:
		l.timers.set(&h.timer, l.orStop(h, h.lastSync.Add(l.cfg.LostAfter)))
	case LostHost: // a drain also stops engines that are still booked there
		if due := l.orStop(h, MaxInstant); due != MaxInstant {
			l.timers.set(&h.timer, due)
		} else {
			l.timers.set(&h.timer, 0)
		}
	case ExpectedHost: // that of a name without a host
	}
}

// orStop is the earlier of due and the time when the engines of the host are stopped. If that time
// is past, they were stopped, or will be when the host next reports.
func (l *Ledger) orStop(h *host, due Instant) Instant {
	for _, at := range [...]Instant{h.StopTime, h.CordonedUntil} {
		if at > l.now {
			due = min(due, at)
		}
	}
	return due
}

// hostDue handles the host's timer.
func (l *Ledger) hostDue(h *host) {
	patience := time.Duration(l.cfg.SuspectAfter) * l.Interval()
	l.stopDrained(h)
	l.endCordon(h)
	switch {
	case h.state == LostHost:
	case h.state == Suspect:
		if h.lastSync.Add(l.cfg.LostAfter) <= l.now {
			l.markLost(h)
		}
	case h.lastSync.Add(patience) <= l.now:
		h.state, h.measured = Suspect, false
	case h.measured && h.sampleAt.Add(patience) <= l.now:
		h.measured = false
	}
	l.setHostTimer(h)
	l.updatePlacer(h)
}

// markLost ends the allocations of a host that was silent for too long: they become lost, except
// those of which clusters say when they have ended.
func (l *Ledger) markLost(h *host) {
	h.state, h.Lost, h.measured = LostHost, true, false
	for _, e := range slices.Backward(h.entries) { // ending an entry moves only those after it
		if !l.livesElsewhere(e) {
			l.becomeLost(e, "host "+h.ID+" stopped reporting")
		}
	}
	l.recordHost(h)
}

func (l *Ledger) endAll(h *host, reason string) {
	for len(h.entries) > 0 {
		l.becomeLost(h.entries[len(h.entries)-1], reason)
	}
}

// Deregister removes a host. With live allocations it is refused unless forced; then they become
// lost. Requests that wait for this very host are canceled. Of an expected host it ends the orders.
//
// Errors: *NotFoundError, *StateError.
func (l *Ledger) Deregister(now Instant, hostID string, force bool) error {
	l.begin(now)
	if _, found := l.forgetExpected(hostID); found {
		return nil
	}
	h, err := l.host(hostID)
	if err != nil {
		return err
	}
	if len(h.entries) > 0 && !force {
		return &StateError{"host", hostID, "in use by live allocations", "none, or force (--force)"}
	}
	l.endAll(h, "host "+hostID+" was removed")
	for _, e := range l.entries.Values() {
		if e.State == Waiting && e.HostID == hostID {
			l.becomeCanceled(e, "host "+hostID+" was removed")
		}
	}
	l.removeHost(h)
	l.mark(&l.anyHost) // for those whom no other host could take
	l.grantWaiting()
	return nil
}

func (l *Ledger) host(id string) (*host, error) {
	if h := l.hosts[id]; h != nil {
		return h, nil
	}
	return nil, &NotFoundError{What: "host", ID: id}
}

// Cordon stops new grants on a host; engines there go on. The host need not have come yet. Errors:
// *FieldError; *StateError if too many hosts are expected.
func (l *Ledger) Cordon(now Instant, hostID, reason string) (HostInfo, error) {
	return l.CordonFor(now, hostID, reason, 0)
}

// CordonFor is Cordon for a time after which it ends by itself; zero: it does not. Errors: those of
// Cordon.
func (l *Ledger) CordonFor(now Instant, hostID, reason string, length time.Duration) (HostInfo, error) {
	return l.close(now, hostID, closing{reason: reason, cordoned: true, length: length})
}

// Drain cordons a host and tells its agent. Engines that are left after the deadline are stopped;
// nil: they end by themselves. Errors: those of Cordon.
func (l *Ledger) Drain(now Instant, hostID, reason string, deadline *time.Duration) (HostInfo, error) {
	return l.close(now, hostID, closing{reason: reason, cordoned: true, draining: true, deadline: deadline})
}

// Uncordon ends a cordon or a drain. An expected host is forgotten. The error is a *NotFoundError.
func (l *Ledger) Uncordon(now Instant, hostID string) (HostInfo, error) {
	return l.close(now, hostID, closing{})
}

// closing is an operator's order for a host: that it takes no new engines, or that it does again.
type closing struct {
	reason             string
	cordoned, draining bool
	deadline           *time.Duration // of a drain, for the engines of its host; nil: none
	length             time.Duration  // of a cordon; zero: it does not end by itself
}

// close writes an order into the row of a host.
func (r *HostRecord) close(now Instant, c closing) {
	if c.cordoned && r.Cordoned && c.reason == "" {
		c.reason = r.Reason // an order without a reason keeps that of the order before
	}
	r.Cordoned, r.Draining, r.Reason, r.StopTime = c.cordoned, c.draining, validText(c.reason), 0
	r.Left = r.Left && c.cordoned // an operator who uncordons a host wants it to take engines
	if c.deadline != nil {
		r.StopTime = now.Add(*c.deadline)
	}
	if r.CordonedUntil = 0; c.length > 0 {
		r.CordonedUntil = later(now, c.length)
	}
}

func (l *Ledger) close(now Instant, hostID string, c closing) (HostInfo, error) {
	l.begin(now)
	h := l.hosts[hostID]
	if h == nil {
		return l.closeExpected(hostID, c)
	}
	h.close(l.now, c)
	l.recordHost(h)
	l.stopDrained(h)
	l.setHostTimer(h)
	l.updatePlacer(h)
	l.freed(&h.account)
	l.grantWaiting()
	return l.hostInfo(h), nil
}

// endCordon ends a cordon that was to end by now. Its caller updates the Placer and grants waiting
// requests.
func (l *Ledger) endCordon(h *host) {
	if h.CordonedUntil == 0 || h.CordonedUntil > l.now {
		return
	}
	h.Cordoned, h.Reason, h.CordonedUntil = false, "", 0
	l.recordHost(h)
	l.freed(&h.account)
}

// resetPromises recomputes the host's promised memory: the sum that its allocations may still use.
func (l *Ledger) resetPromises(h *host) {
	h.promised = 0
	for _, e := range h.entries {
		e.promise = e.untouchedMemory()
		h.promised += e.promise
	}
}

// hasSample reports whether a sample is the one that the host has, sent again: it must not count
// as fresh.
func (h *host) hasSample(s *Sample) bool {
	return h.sample != nil && s.Time != 0 && s.Time == h.sample.Time
}

// measure stores a sample.
func (l *Ledger) measure(h *host, s *Sample) {
	h.sample, h.sampleAt = s, l.now
	h.pressure, h.refusal, h.load = s.Pressure, s.Refusal, 0
	if s.Load1Millis != nil {
		h.load = *s.Load1Millis
	}
	h.measured = s.MemoryAvailable != nil
	if h.measured {
		h.live = *s.MemoryAvailable - s.MemorySafety
		l.resetPromises(h)
	}
}

// updateCapacity applies another capacity that an agent reports.
func (l *Ledger) updateCapacity(h *host, capacity resource.Vector) {
	if capacity.Equal(h.Capacity) || capacity.Validate() != nil {
		return
	}
	l.setCapacity(h, capacity, h.Protected)
	l.recordHost(h)
	l.freed(&h.account)
	l.hostShaped(h)
}
