package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/bursar/bursar/agent/contain"
	"github.com/bursar/bursar/agent/hoststate"
	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/loops"
	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/ready"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/osuser"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers/host"
)

const (
	// MeasureGap is the least time between two measurements, however much happens: a pass over the
	// process table of a busy host takes some 10 ms.
	MeasureGap = 250 * time.Millisecond
	// SettleTime is the delay of the measurement after an engine starts or ends: a new engine
	// touches its first memory meanwhile, and the launcher of an engine that has ended releases it
	// with its exit status.
	SettleTime = 500 * time.Millisecond
)

// Meter looks at processes and at their cgroups; *host.Meter is one.
type Meter interface {
	Marks(engine host.Engine) host.Marks
	Identify(pid int32) (host.Identity, error)
}

// Blinder is a Meter that knows whether it sees all processes. *host.Meter does.
type Blinder interface{ Blind() string }

// Options are the parts that Engines need. All of them are required.
type Options struct {
	State   *hoststate.State
	Meter   Meter
	Opener  *process.Opener
	Cgroups *contain.Cgroups
	// Records are where keepers write how their engines ended.
	Records launch.Records
	// Keeper is the program that starts engines, and LogDir the folder for the output of those
	// whose request names none.
	Keeper, LogDir string
	// Sight says which processes the agent can see, and Proc where the process table is.
	Sight ready.Sight
	Proc  string
	// MeasureDue and SyncDue say when the host is measured next, and when a Sync is sent next.
	MeasureDue, SyncDue *loops.Wakeup
	// Synced reports whether a coordinator has answered the last Sync.
	Synced func() bool
	// AskStop asks a coordinator to stop an engine, in the agent's own name. heard is false if none
	// has looked at the request.
	AskStop func(ctx context.Context, request *bursarv1.StopRequest) (heard bool, err error)
	// StopAsked counts that a coordinator was asked to stop an engine.
	StopAsked func(err error)
	// Output is told where the output of engines is.
	Output Output
	// Background runs a function that the agent waits for before it ends.
	Background func(f func())
	Log        *slog.Logger
}

// Output knows where the output of engines is; *logs.Logs is one, and documents its methods.
type Output interface {
	Begins(id, folder string, user osuser.User)
	Ended(id string)
}

// Engines are the engines of a host. Make it with New.
type Engines struct {
	state               *hoststate.State
	meter               Meter
	opener              *process.Opener
	cgroups             *contain.Cgroups
	records             launch.Records
	keeper, logDir      string
	sight               ready.Sight
	ready               *ready.Watcher
	measureDue, syncDue *loops.Wakeup
	synced              func() bool
	askStop             func(ctx context.Context, request *bursarv1.StopRequest) (heard bool, err error)
	stopAsked           func(err error)
	output              Output
	background          func(f func())
	log                 *slog.Logger

	set      set // guarded by the lock of state, except the part of the measuring loop
	keepers  keepers
	launches launches

	// Of the measuring loop alone:

	next    time.Duration // until the loop is to measure again; 0: a tick
	cleaned time.Time     // when records were last cleaned up
}

// New returns the engines of a host, none of which is watched yet.
func New(o Options) *Engines {
	s := &Engines{
		state: o.State, meter: o.Meter, opener: o.Opener, cgroups: o.Cgroups, records: o.Records, keeper: o.Keeper, logDir: o.LogDir,
		measureDue: o.MeasureDue, syncDue: o.SyncDue, synced: o.Synced, askStop: o.AskStop, stopAsked: o.StopAsked, output: o.Output,
		background: o.Background, log: o.Log, sight: o.Sight,
	}
	s.ready = ready.New(ready.Deps{Proc: o.Proc, Records: o.Records, Opener: o.Opener, Others: s.mainProcesses})
	s.keepers = keepers{engines: s, held: make(map[string]time.Time)}
	return s
}

// mainProcesses are those of all engines of the host.
func (s *Engines) mainProcesses() (list []process.Ref) {
	s.state.Locked(func(t *tracker.Tracker) {
		for _, e := range t.Engines() {
			list = append(list, process.Ref{PID: e.Process.GetPid(), StartTime: e.Process.GetStartTime()})
		}
	})
	return list
}

// hook is the part that one file of this package takes in measurements. Either function may be nil.
// Only the measuring loop calls them.
type hook struct {
	// measured is called for each engine that was measured. It adds to usage.
	measured func(ctx context.Context, e *engine, m measurement, usage *tracker.Usage)
	// passed is called after each measurement, once the tracker has taken it. began is when the
	// measurement has begun.
	passed func(ctx context.Context, began time.Time)
}

// measurement is the result of measuring one engine.
type measurement struct {
	engine host.Engine
	usage  host.Usage
}

// again brings the next measurement forward while one is made. Only the measuring loop calls it.
func (s *Engines) again(d time.Duration) {
	if s.next == 0 || d < s.next {
		s.next = d
	}
}

// MeasureAgain returns when the host is to be measured again for the sake of its engines, and
// forgets it; 0: at the next tick. Only the measuring loop calls it.
func (s *Engines) MeasureAgain() time.Duration {
	d := s.next
	s.next = 0
	return d
}

// runs reports whether an allocation has an engine that is measured.
func (s *Engines) runs(id string) (runs bool) {
	s.state.Locked(func(t *tracker.Tracker) { _, runs = t.Engine(id) })
	return runs
}

func (s *Engines) knows(id string) (known bool) {
	s.state.Locked(func(t *tracker.Tracker) { known = t.Knows(id) })
	return known
}
