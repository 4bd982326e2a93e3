package ledger

import (
	"slices"
	"time"

	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/internal/spelling"
)

// LaunchStarted is the report of a host's agent that the process of a launch waits to begin.
type LaunchStarted struct {
	HostID        string
	Incarnation   uint64 // of its agent
	ID            ID
	GrantRevision uint64 // of the grant that the agent was ordered to launch
	Process       Process
	Address       string
}

// LaunchBegun is the report of a host's agent that the engine of a launch has begun.
type LaunchBegun struct {
	HostID       string
	Incarnation  uint64 // of its agent
	ID           ID
	LogDirectory string
}

// LaunchFailed is a report that a try to launch an engine failed on a host.
type LaunchFailed struct {
	HostID      string
	Incarnation uint64 // of its agent; 0: the coordinator says it
	ID          ID
	// GrantRevision is that of the grant that was tried. A later grant is another try.
	GrantRevision uint64
	Reason        string
	ErrorOutput   string
	Fault         Fault
	// Process was started for the launch, and has executed nothing; zero: none was started.
	Process Process
}

// retryWait is how long the next try of a launch waits at least for another host, in addition to
// the rest of its request's wait.
const retryWait = 30 * time.Second

// StartLaunch confirms the engine of a launch, which has not begun: once that is durable, its agent
// lets it begin. It may be repeated with the same process.
//
// Errors: those of Confirm, and *StaleError. On each of them the agent must end the process.
func (l *Ledger) StartLaunch(now Instant, c LaunchStarted) (Allocation, error) {
	l.begin(now)
	e, err := l.launchOn(c.HostID, c.Incarnation, c.ID)
	if err != nil {
		return Allocation{}, err
	}
	if e.State.Holds() && c.GrantRevision != e.GrantRevision {
		return Allocation{}, &StateError{"allocation", e.ID.String(), "granted anew", "the order for that grant"}
	}
	return l.Confirm(now, ConfirmCommand{
		Actor: identity.Actor{Name: "host:" + c.HostID, Anyone: true}, ID: c.ID, HostID: c.HostID, Process: c.Process, Address: c.Address,
	})
}

// BeginLaunch notes that the engine of a launch may have run: nothing launches it again unless it
// has retries. A repeated report changes nothing.
//
// Errors: *NotFoundError, *StateError and *StaleError: the agent must stop the engine.
func (l *Ledger) BeginLaunch(now Instant, c LaunchBegun) (Allocation, error) {
	l.begin(now)
	e, err := l.launchOn(c.HostID, c.Incarnation, c.ID)
	if err != nil {
		return Allocation{}, err
	}
	if e.State != Active {
		return Allocation{}, &StateError{"allocation", e.ID.String(), e.State.String(), "active"}
	}
	if l.noteBegun(e, validText(c.LogDirectory)) {
		l.recordEntry(e)
	}
	return e.Allocation, nil
}

// noteBegun notes that the engine of a launch may have run, and where its output goes. It reports
// whether that is news. The caller records the entry.
func (l *Ledger) noteBegun(e *entry, directory string) (changed bool) {
	launch := e.Launch()
	if launch.LogDirectory == directory && (launch.Row == 0 || launch.Retries > 0) {
		return false
	}
	if launch.Retries == 0 {
		l.dropLaunchRow(e)
	}
	e.changeLaunch(func(launch *Launch) { launch.LogDirectory = directory })
	return true
}

// reportedBegun takes the report of an engine's agent that the engine may have run: the answer to
// its order may be lost. It reports whether that is news.
func (l *Ledger) reportedBegun(e *entry, directory string) (changed bool) {
	directory = validText(directory)
	return directory != "" && e.Launch() != nil && l.noteBegun(e, directory)
}

// MayAttach refuses an agent that wants to take orders for a host, unless it is the one that is
// registered, or a later one.
//
// Errors: *NotFoundError and *StaleError.
func (l *Ledger) MayAttach(hostID string, incarnation uint64) error {
	h := l.hosts[hostID]
	switch {
	case h == nil:
		return &NotFoundError{What: "host", ID: hostID}
	case incarnation < h.Incarnation:
		return &StaleError{h.ID, "incarnation", incarnation, h.Incarnation}
	}
	return nil
}

// launchOn finds the entry of a launch on a host. The error is a *StaleError if an earlier agent of
// the host asks.
func (l *Ledger) launchOn(hostID string, incarnation uint64, id ID) (*entry, error) {
	if h := l.hosts[hostID]; h != nil && incarnation != 0 && incarnation < h.Incarnation {
		return nil, &StaleError{h.ID, "incarnation", incarnation, h.Incarnation}
	}
	e, err := l.lookup(id)
	switch {
	case err != nil:
		return nil, err
	case e.Launch() == nil:
		return nil, &StateError{"allocation", e.ID.String(), "without a launch", "one that was made by Start"}
	case e.State.Holds() && e.HostID != hostID:
		return nil, &StateError{"allocation", e.ID.String(), "on host " + e.HostID, "one on host " + hostID}
	}
	return e, nil
}

// FailLaunch ends a try that has begun nothing: the program was not executed. The launch is tried
// on another host, unless its request named the host, there is no other one, its caller wants it to
// end, or it had its tries. A report of an earlier grant changes nothing.
//
// Errors: *NotFoundError, *StateError and *StaleError.
func (l *Ledger) FailLaunch(now Instant, c LaunchFailed) (Allocation, error) {
	l.begin(now)
	e, err := l.launchOn(c.HostID, c.Incarnation, c.ID)
	if err != nil {
		return Allocation{}, err
	}
	if !e.State.Holds() || c.GrantRevision < e.GrantRevision || e.State != Reserved && !e.mayNotBegin(&c) {
		return e.Allocation, nil
	}
	h := e.host
	try := Try{HostID: h.ID, At: l.now, Reason: validText(c.Reason), ErrorOutput: validText(c.ErrorOutput), Fault: c.Fault}
	again := e.mayTryAgain(&try) && e.wishedHost() == ""
	e.noteTry(&try)
	again = again && l.possible(e)
	reason := notStarted(&try)
	switch {
	case again && e.State == Reserved:
		e.WaitDeadline = max(e.WaitDeadline, l.now.Add(retryWait))
		l.becomeWaiting(e, &l.anyHost, reason)
		l.mark(&l.anyHost)
	case again:
		l.succeed(e, func() { l.becomeReleased(e, reason) })
	case e.Stopping:
		l.becomeReleased(e, e.StopReason)
	default:
		e.ErrorOutput = try.ErrorOutput
		l.becomeReleased(e, reason)
	}
	l.grantWaiting()
	return l.lastTransition(), nil
}

// mayNotBegin reports whether a report of a failed try can be about an active engine. The agent
// that has started its process can find that the program cannot be executed. A coordinator knows
// only that its orders were not taken, and a later agent of the host only that it could not carry
// one out: both say nothing of a process that was confirmed before.
func (e *entry) mayNotBegin(c *LaunchFailed) bool {
	return c.Process.PID != 0 && sameProcess(e.Process, c.Process) && e.Process.Launched && e.waitsToBegin()
}

func notStarted(t *Try) string { return "not started on host " + t.HostID + ": " + t.Reason }

// mayTryAgain reports whether the launch of an entry is tried again after a try that failed.
func (e *entry) mayTryAgain(t *Try) bool {
	launch := e.Launch()
	switch {
	case launch == nil || launch.Row == 0 || len(launch.Tries) >= mostTries-1:
		return false
	case e.Releasing || e.Stopping && e.Phase() != Failed: // somebody wants it to end
		return false
	case !t.Executed:
		return true
	}
	return launch.Watched && e.Phase() != Ready && e.executedTries() < int(launch.Retries)
}

// hasExecuted reports whether a try before this one has begun an engine of the request. Its id is
// remembered then, also if the request ends without an engine: its caller could otherwise have more
// engines begin than the request has retries, by the same id.
func (e *entry) hasExecuted() bool { return e.Launch() != nil && e.executedTries() > 0 }

// executedTries is how many tries have begun their engine.
func (e *entry) executedTries() (n int) {
	for i := range e.Launch().Tries {
		if e.Launch().Tries[i].Executed {
			n++
		}
	}
	return n
}

// Bounds of the texts of a try, in bytes.
const (
	mostTryReason = 256
	mostTryOutput = 512
)

// noteTry adds a try that failed, and has the next one avoid its host unless the request names it.
func (e *entry) noteTry(t *Try) {
	t.Reason, t.ErrorOutput = spelling.Cut(t.Reason, mostTryReason), spelling.Cut(t.ErrorOutput, mostTryOutput)
	e.changeLaunch(func(launch *Launch) { launch.Tries = append(slices.Clip(launch.Tries), *t) })
	if e.wishedHost() != "" {
		return
	}
	var w Wishes
	if e.Wishes != nil {
		w = *e.Wishes
	}
	w.Avoid = append(slices.Clip(w.Avoid), t.HostID)
	e.Wishes = &w
}

// endTried ends an entry whose engine has ended. If the engine was to become ready and has not, the
// try has failed, and the engine is launched again if its request has retries. If nothing of it was
// executed, because its host's agent ended first, the engine is launched again in any case.
func (l *Ledger) endTried(e *entry, reason string, executed bool) {
	end := func() { l.becomeReleased(e, reason) }
	executed = executed || !e.waitsToBegin()
	if executed && !e.failedToStart() {
		end()
		return
	}
	try := Try{HostID: e.HostID, At: l.now, Reason: reason, Executed: executed, ErrorOutput: e.ErrorOutput}
	if !executed {
		try.Reason = neverBegan
		if !e.Releasing && !e.Stopping {
			reason = notStarted(&try)
		}
	}
	again := e.mayTryAgain(&try)
	avoided := e.Wishes
	e.noteTry(&try)
	if !again {
		end()
		return
	}
	if !l.possible(e) { // no other host could take it: better the same one again than none
		e.Wishes = avoided
	}
	l.succeed(e, end)
}

// neverBegan is the reason of a try whose engine waited to begin when its host's agent ended.
const neverBegan = "the host's agent ended before the engine began"

// waitsToBegin reports whether the engine of a launch has not begun, as far as its agent has said.
func (e *entry) waitsToBegin() bool {
	launch := e.Launch()
	return launch != nil && launch.Row != 0 && launch.LogDirectory == "" && len(launch.Tries) < mostTries
}

// failedToStart reports whether the engine of a launch that has ended was to become ready, and was
// not stopped by somebody before.
func (e *entry) failedToStart() bool {
	launch := e.Launch()
	return launch != nil && launch.Watched && len(launch.Tries) < mostTries && e.Phase() != Ready && !e.Releasing && (!e.Stopping || e.Phase() == Failed)
}

// succeed ends an entry whose launch is tried again, and puts its successor into the tables: the
// same request, under the same request id, that waits for a host.
func (l *Ledger) succeed(e *entry, end func()) {
	next := e.successor(l.now)
	next.ID = l.nextID()
	l.leaveLaunchRow(e) // its successor has the row
	e.changeLaunch(func(launch *Launch) { launch.Successor = next.ID })
	e.Forget = true // and the request id
	key := e.key
	end()
	n := l.newEntry()
	n.Allocation = next
	l.link(n)
	l.attachExternal(n, nil)
	n.key = key
	l.index(n)
	l.becomeWaiting(n, &l.anyHost, "its engine is launched again: "+next.lastTry())
	l.mark(&l.anyHost)
}

// successor is the request of an entry anew.
func (e *entry) successor(now Instant) Allocation {
	a := Allocation{
		RequestID: e.RequestID, Caller: e.Caller, RequestHash: e.RequestHash, Labels: e.Labels, Subordinate: e.Subordinate,
		Requested: e.Requested, Entitled: e.Entitled, Wishes: e.Wishes, Priority: e.Priority,
		Created: now, ReservationTTL: e.ReservationTTL, Async: e.Async, WaitDeadline: max(e.WaitDeadline, now.Add(retryWait)), Start: e.Start,
		HostID: e.wishedHost(),
	}
	a.changeStart(func(s *Start) { s.Phase, s.PhaseSince, s.PhaseReason = PhaseUnknown, 0, "" })
	a.changeLaunch(func(launch *Launch) { launch.LogDirectory = "" })
	return a
}

// lastTry says why the last try failed.
func (a *Allocation) lastTry() string {
	tries := a.Launch().Tries
	return tries[len(tries)-1].Reason
}
