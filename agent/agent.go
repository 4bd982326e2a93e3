package agent

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/agent/callers"
	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/agent/contain"
	"github.com/bursar/bursar/agent/engine"
	"github.com/bursar/bursar/agent/hoststate"
	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/logs"
	"github.com/bursar/bursar/agent/loops"
	"github.com/bursar/bursar/agent/machine"
	"github.com/bursar/bursar/agent/orders"
	"github.com/bursar/bursar/agent/report"
	"github.com/bursar/bursar/agent/socket"
	"github.com/bursar/bursar/internal/clusterid"
	"github.com/bursar/bursar/internal/discovery"
	"github.com/bursar/bursar/internal/osuser"
	"github.com/bursar/bursar/internal/tracing"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/providers/host"
)

// ErrReplaced ends Run: another agent has registered for this host after this one.
var ErrReplaced = report.ErrReplaced

// StrangerError says that a coordinator knows another agent by this one's hostId.
type StrangerError = report.StrangerError

// Meter measures the machine; *host.Meter is one.
type Meter interface {
	Capacity(ctx context.Context) (host.Capacity, error)
	Sample(ctx context.Context) host.Sample
	Available(ctx context.Context) (int64, error)
	Engines(ctx context.Context, engines []host.Engine) []host.Usage
	Marks(engine host.Engine) host.Marks
	BootID() (string, error)
	Identify(pid int32) (host.Identity, error)
	OwnCgroup(pid int32) (string, error)
	View(pid int32) (host.View, error)
	Place() host.Place
}

// Deps are the parts that an agent is given.
type Deps struct {
	// Allocations and Hosts are the coordinator. They need not retry: the agent does, and it knows
	// better until when. Calls made for a caller carry that caller in identity.Header. Both are
	// required.
	Allocations bursarv1connect.AllocationServiceClient
	Hosts       bursarv1connect.HostServiceClient
	// Waiting are the same coordinators for requests that wait: better over HTTP/2, where a
	// thousand of them share a connection. Nil: Allocations.
	Waiting bursarv1connect.AllocationServiceClient
	// Engines are the same coordinators for calls that wait for engines. Nil: the agent asks
	// Allocations after each heartbeat.
	Engines bursarv1connect.EngineServiceClient
	// Finder says which coordinator leads, so that the agent reports to a new leader at once. Nil:
	// the agent does not know. The clients may use the same.
	Finder discovery.Finder
	// DialOutput makes a client of one of the Finder's coordinators, for the output of an engine,
	// over a connection of its own; "": of any of them. Nil: the clients that Hosts has.
	DialOutput func(url string) (hosts bursarv1connect.HostServiceClient, closed func(), err error)
	// Elsewhere is called when a coordinator has answered from a leadership that is over: the
	// clients' next call should go to another one. Default: nothing happens.
	Elsewhere func()
	// Meter measures. Default: a host.Meter of this machine.
	Meter Meter
	// Logger is where the agent logs. Default: nowhere.
	Logger *slog.Logger
	// Socket is a socket that a service manager has opened. The agent serves on it, and does not
	// remove its path. Default: the agent makes its own. Connections that are not those of a Unix
	// socket are refused.
	Socket net.Listener
	// Metrics is where the agent's metrics go, and what /metrics shows. Default: a registry of its
	// own.
	Metrics *prometheus.Registry
	// Version is reported to the coordinator.
	Version string
	// Tracing is where traces of calls go; the clients have their own. The agent does not close
	// it. Nil: there are no traces.
	Tracing *tracing.Tracing
	// ForgetEpoch makes the agent take the epoch of the coordinator that answers first, also if it
	// has seen a higher one. It is for a host that has seen an epoch which no coordinator of its
	// cluster gave out.
	ForgetEpoch bool
	// AsItself lets engines of callers elsewhere run as the agent's own account, unless that is
	// root's: for one process with coordinator and agent, whose user starts them.
	AsItself bool
	// Pin is the cluster that the agent belongs to, which its clients keep to. The agent adds the
	// one that it has stored, and pins at its first registration. Nil: it takes the coordinators
	// that it is given.
	Pin *clusterid.Pin
	// ForgetCluster makes the agent take the cluster of the coordinator that registers it first,
	// and that one's epoch, in place of its own.
	ForgetCluster bool
	// Proc is the path of the process table, by which Stop finds processes. Default /proc.
	Proc string
	// OpenState opens the state directory, once a Run. Default: statefile.Open.
	OpenState func(path string) (State, error)
	// Cgroups makes cgroups of engines, and is closed with the agent. Default: as configured.
	Cgroups cgroup.Driver
	// KernelLog says which engines the kernel killed. Default: that of this machine, if it can be
	// read.
	KernelLog *cgroup.KernelLog
}

// State is where the state is kept; *statefile.Dir is one, and documents its methods.
type State = hoststate.Dir

// Agent is the agent of one host. Make it with New, then Run it once.
type Agent struct {
	live     atomic.Pointer[settings]
	deps     Deps
	log      *slog.Logger
	ownMeter bool // Deps had none
	users    osuser.Users
	running  sync.WaitGroup // work of the parts in the background
	metrics  *metrics

	// The state of the host, and when it is brought up to date:
	state               *hoststate.State
	measureDue, syncDue *loops.Wakeup
	loops               watchedLoops

	// Its parts:
	socket  *socket.Server
	direct  *launch.Direct
	cgroups *contain.Cgroups
	engines *engine.Engines
	reports *report.Reporter
	callers *callers.API
	orders  *orders.Taker
	logs    *logs.Logs
	trusted *callers.TrustedLoop

	// Resources of the machine besides memory and cpu, and its health:
	workDirs   *machine.WorkDirs
	countables *machine.Countables
	health     *machine.HealthLoop

	freshMemory freshMemory
	measuredAt  loops.Moment // when the machine was last measured
	// serving is closed when the socket is served and the machine was measured.
	serving chan struct{}

	// Of the measuring loop alone:

	degraded map[string]time.Time // when sources that were logged could last not be read
	sight    sight
	// protectsAll is which settings protect all that there is, as last logged.
	protectsAll []*ConfigError
}

// settings are those in force: a reload replaces them.
func (a *Agent) settings() *settings { return a.live.Load() }

// Ready is closed when the socket is served and the coordinator has answered the first Sync.
func (a *Agent) Ready() <-chan struct{} { return a.reports.Ready() }

// HostID is the host's name, as configured or found.
func (a *Agent) HostID() string { return a.settings().HostID }

// Socket is the path of the Unix socket.
func (a *Agent) Socket() string { return a.settings().Socket }

// StateError says that the state directory cannot be opened. Nothing was begun.
type StateError struct{ Err error }

func (e *StateError) Error() string { return "agent: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *StateError) Unwrap() error { return e.Err }

// ExitText says how an engine's process ended, as the reason of its end does.
func ExitText(exit *bursarv1.ExitStatus) string { return engine.ExitText(exit) }
