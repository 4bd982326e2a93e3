package ledger

import (
	"slices"
	"strings"
)

// Phase is how far an engine is on the way to being usable. The numbers are those of the contract.
type Phase uint8

// The phases.
const (
	PhaseUnknown Phase = iota // nobody said what makes it ready
	Starting
	Ready
	Failed
)

var phaseNames = [...]string{"unknown", "starting", "ready", "failed"}

// Known reports whether the phase is one of the contract.
func (p Phase) Known() bool { return p <= Failed }

// Start is what is known of an engine's start: its name, its phase, and the launch that came with
// the request. It never changes: a change makes another one.
type Start struct {
	Name        string
	Phase       Phase
	PhaseSince  Instant
	PhaseReason string // why it failed
	// Launch is set if an agent starts the engine. Nil: its caller does.
	Launch *Launch
}

// Launch is what the ledger knows of an engine that an agent starts. The command is in a row of its
// own, which the ledger never reads. It never changes: a change makes another one.
type Launch struct {
	Account      string // on the host; it runs the engine
	Program      string // without its folder
	LogDirectory string // empty until it has begun
	Watched      bool   // its agent watches whether it is ready
	// Retries is how often a try may follow one whose engine has begun. A try that began nothing
	// needs none.
	Retries int32
	Tries   []Try // that failed, at most mostTries
	// Row is the key of the launch's row: the id of its first allocation. 0: the row is deleted,
	// and nothing more is launched from it. RowBytes is what it takes in the store; it counts on
	// the caller until the row is deleted.
	Row      ID
	RowBytes int32
	// Successor is the allocation of the next try; 0: there is none.
	Successor ID
}

// Try is a try to launch an engine that failed.
type Try struct {
	HostID      string
	At          Instant
	Reason      string
	Executed    bool // the program may have run
	ErrorOutput string
	Fault       Fault
}

// Fault is what is wrong with a program that was not executed. The numbers are those of the
// contract.
type Fault uint8

// The faults.
const (
	FaultUnknown Fault = iota // something else was the cause
	NotFound
	NotExecutable
)

// Known reports whether the fault is one of the contract.
func (f Fault) Known() bool { return f <= NotExecutable }

// mostTries bounds the tries of one launch.
const mostTries = 8

// LaunchRequest is the launch of an AllocateCommand.
type LaunchRequest struct {
	Account, Program string
	Watched          bool
	Retries          int32
	Spec             []byte // for the row
}

// LaunchRow is the row of a launch.
type LaunchRow struct {
	ID   ID // of its first allocation
	Spec []byte
}

// Name is that of its Start.
func (a *Allocation) Name() string {
	if a.Start == nil {
		return ""
	}
	return a.Start.Name
}

// Phase is that of its Start.
func (a *Allocation) Phase() Phase {
	if a.Start == nil {
		return PhaseUnknown
	}
	return a.Start.Phase
}

// Launch is that of its Start; nil: its caller starts the engine.
func (a *Allocation) Launch() *Launch {
	if a.Start == nil {
		return nil
	}
	return a.Start.Launch
}

// newStart is the start of a new request; nil: there is nothing to know.
func newStart(c *AllocateCommand) *Start {
	name := validText(c.Name)
	if name == "" && c.Launch == nil {
		return nil
	}
	s := &Start{Name: name}
	if c.Launch != nil {
		s.Launch = &Launch{Account: validText(c.Launch.Account), Program: validText(c.Launch.Program), Watched: c.Launch.Watched, Retries: c.Launch.Retries, RowBytes: int32(len(c.Launch.Spec))} //nolint:gosec // a coordinator bounds it
	}
	return s
}

// adopted is the start by an agent's record: nothing is launched from it.
func (s *Start) adopted() *Start {
	if s == nil {
		return nil
	}
	c := Start{Name: validText(s.Name), Phase: s.Phase, PhaseSince: s.PhaseSince, PhaseReason: validText(s.PhaseReason)}
	if !c.Phase.Known() {
		c.Phase = PhaseUnknown
	}
	if launch := s.Launch; launch != nil {
		c.Launch = &Launch{
			Account: validText(launch.Account), Program: validText(launch.Program), LogDirectory: validText(launch.LogDirectory), Watched: launch.Watched,
		}
	}
	return &c
}

// changeStart changes a copy of the start.
func (a *Allocation) changeStart(change func(*Start)) {
	var s Start
	if a.Start != nil {
		s = *a.Start
	}
	change(&s)
	a.Start = &s
}

// changeLaunch changes a copy of the launch, which there must be.
func (a *Allocation) changeLaunch(change func(*Launch)) {
	a.changeStart(func(s *Start) {
		launch := *s.Launch
		change(&launch)
		s.Launch = &launch
	})
}

// notePhase takes the phase that an agent or a caller says. It reports whether that is news. Ready
// and failed stay.
func (l *Ledger) notePhase(e *entry, p Phase, reason string) (changed bool) {
	now := e.Phase()
	if p == PhaseUnknown || !p.Known() || p == now || now == Ready || now == Failed {
		return false
	}
	e.changeStart(func(s *Start) { s.Phase, s.PhaseSince, s.PhaseReason = p, l.now, reason })
	if launch := e.Launch(); launch != nil && p == Ready {
		l.dropLaunchRow(e)
	}
	return true
}

// reportedPhase takes the phase that an engine's agent reports. It stops a launched engine
// that is not ready in time. It reports whether the phase is news.
func (l *Ledger) reportedPhase(e *entry, r *EngineReport) (changed bool) {
	changed = l.notePhase(e, r.Phase, validText(r.PhaseReason))
	if r.Phase == Failed && e.Phase() == Failed && e.Launch() != nil && !e.Stopping && e.State == Active {
		reason := e.Start.PhaseReason
		if !strings.HasPrefix(reason, "not ready") { // as agents begin it
			reason = withReason("not ready", reason)
		}
		l.becomeStopping(e, reason, l.cfg.StopGrace)
	}
	return changed
}

// dropLaunchRow deletes the row of an entry's launch. The caller records the entry.
func (l *Ledger) dropLaunchRow(e *entry) {
	if launch := e.Launch(); launch != nil && launch.Row != 0 {
		l.changes.LaunchesRemoved = append(l.changes.LaunchesRemoved, launch.Row)
		l.leaveLaunchRow(e)
	}
}

// leaveLaunchRow notes that an entry has no row any more.
func (l *Ledger) leaveLaunchRow(e *entry) {
	l.countCallerBytes(e, -int64(e.Launch().RowBytes))
	e.changeLaunch(func(launch *Launch) { launch.Row, launch.RowBytes = 0, 0 })
}

// bytes is what the start takes in a row, with the room that its tries may take.
func (s *Start) bytes() int {
	if s == nil {
		return 0
	}
	n := startBytes + len(s.Name) + len(s.PhaseReason)
	if launch := s.Launch; launch != nil {
		n += launchBytes + len(launch.Account) + len(launch.Program) + len(launch.LogDirectory)
		if launch.Successor != 0 {
			n += successorBytes
		}
		for i := range launch.Tries {
			n += tryBytes + len(launch.Tries[i].HostID) + len(launch.Tries[i].Reason) + len(launch.Tries[i].ErrorOutput)
		}
	}
	return n
}

const (
	startBytes  = 32
	launchBytes = 48
	tryBytes    = 36
	// successorBytes is the text of an id, with its tag.
	successorBytes = 16
)

// HasOutput reports whether the tries have words of engines, which few callers see.
func (l *Launch) HasOutput() bool {
	return l != nil && slices.ContainsFunc(l.Tries, func(t Try) bool { return t.ErrorOutput != "" })
}
