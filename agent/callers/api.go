package callers

import (
	"context"
	"log/slog"
	"time"

	"github.com/bursar/bursar/agent/contain"
	"github.com/bursar/bursar/agent/engine"
	"github.com/bursar/bursar/agent/hoststate"
	"github.com/bursar/bursar/agent/loops"
	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/report"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/osuser"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/providers/host"
)

// Meter looks at processes; *host.Meter is one.
type Meter interface {
	Identify(pid int32) (host.Identity, error)
	OwnCgroup(pid int32) (string, error)
}

// Settings are those that the API needs. They may change while the agent runs.
type Settings struct {
	// HostID is the host's id.
	HostID string
	// Patience is how long a call without a deadline waits for a coordinator.
	Patience time.Duration
	// MinUserID, SystemUsers and BannedUsers say which accounts engines may run as, as the
	// configuration does.
	MinUserID                int64
	SystemUsers, BannedUsers []string
}

// Options are the parts that the API needs. All of them are required but Upstream.
type Options struct {
	State   *hoststate.State
	Engines *engine.Engines
	Reports *report.Reporter
	Cgroups *contain.Cgroups
	Meter   Meter
	Opener  *process.Opener
	// Allocations are the coordinators, and Waiting the same for requests that wait.
	Allocations, Waiting bursarv1connect.AllocationServiceClient
	// Upstream are the same for engines: Wait. Nil: the coordinators are asked after each
	// heartbeat.
	Upstream bursarv1connect.EngineServiceClient
	// Users finds accounts of the machine.
	Users osuser.Users
	// Logs has the output of the host's engines.
	Logs Logs
	// Admit takes a call that may last in, or says why its caller has too many of them.
	Admit    func(caller admission.Caller) (ended func(), err error)
	Settings func() Settings
	// MeasureDue and SyncDue say when the host is measured next, and when a Sync is sent next.
	MeasureDue, SyncDue *loops.Wakeup
	// FreshMemory has the tracker know the memory that is available now, before it decides on a
	// grant.
	FreshMemory func(ctx context.Context)
	// Vetoed is told of each grant that this host has refused.
	Vetoed func(grant *bursarv1.Allocation, refused tracker.Refusal)
	// OutputRead is told how a reader of an engine's output has ended.
	OutputRead func(err error)
	// Background runs a function that the agent waits for before it ends.
	Background func(f func())
	Log        *slog.Logger
}

// API is the agent's local API. Make it with New.
type API struct {
	state                *hoststate.State
	engines              *engine.Engines
	reports              *report.Reporter
	cgroups              *contain.Cgroups
	meter                Meter
	opener               *process.Opener
	allocations, waiting bursarv1connect.AllocationServiceClient
	upstream             bursarv1connect.EngineServiceClient // nil: there is none
	users                osuser.Users
	logs                 Logs
	admit                func(caller admission.Caller) (ended func(), err error)
	settings             func() Settings
	measureDue, syncDue  *loops.Wakeup
	freshMemory          func(ctx context.Context)
	vetoed               func(grant *bursarv1.Allocation, refused tracker.Refusal)
	outputRead           func(err error)
	background           func(f func())
	log                  *slog.Logger

	waits    *waitStreams // of requests that wait
	detached detachedCalls
	denials  denials
	// unconfirmed are the reservations of callers that will confirm a process; guarded by the lock
	// of state, by id
	unconfirmed map[string]*unconfirmed
}

// unconfirmed is a reservation whose caller is to confirm a process. If the caller ends before, the
// agent gives the reservation back: nobody else knows of it. After a restart of the agent it
// expires by itself.
type unconfirmed struct{ cancel context.CancelFunc }
