package report

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/bursar/bursar/agent/hoststate"
	"github.com/bursar/bursar/agent/loops"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/clusterid"
	"github.com/bursar/bursar/internal/discovery"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// ErrReplaced ends Loop: another agent has registered for this host after this one.
var ErrReplaced = errors.New("another agent has taken over this host: stop one of them, or, if they are of two machines, give each a hostId of its own")

// StrangerError says that a coordinator knows another agent by this one's hostId. It still hears
// from that agent, or has not given up that agent's engines yet.
type StrangerError struct {
	Err error // the coordinator's
}

func (e *StrangerError) Error() string {
	return fmt.Sprintf("this agent is not that of its host, and starts no engines: %v", e.Err)
}

// Unwrap returns the coordinator's refusal.
func (e *StrangerError) Unwrap() error { return e.Err }

// Orders carries out the orders in the answer to a Sync. Its functions return at once.
type Orders interface {
	// Stop begins to end an engine.
	Stop(ctx context.Context, order *bursarv1.StopOrder)
	// Watch watches the processes of the engines that the tracker lists by now.
	Watch(ctx context.Context)
}

// Options are the parts that a Reporter needs. All of them are required, unless their comment says
// otherwise.
type Options struct {
	State  *hoststate.State
	Hosts  bursarv1connect.HostServiceClient
	Orders Orders
	// Finder says which coordinator leads. Nil: that is not known.
	Finder discovery.Finder
	// Elsewhere has the next call go to another coordinator.
	Elsewhere func()
	// Pin is the cluster that the agent belongs to. Nil: it takes the coordinators that it is
	// given.
	Pin *clusterid.Pin
	// ForgetCluster makes the agent take the cluster of the coordinator that registers it first.
	ForgetCluster bool
	// MeasureDue and SyncDue say when the host is measured next, and when a Sync is sent next.
	MeasureDue, SyncDue *loops.Wakeup
	// Pass makes one pass of the loop.
	Pass func(func())
	// Uptime is how long the machine has been up.
	Uptime func() time.Duration
	// FreshMemory has the tracker know the memory that is available now, for the grants of an
	// answer.
	FreshMemory func(ctx context.Context)
	// Synced is told of each Sync that was sent, Vetoed of each grant that this host has refused.
	Synced func(took time.Duration, err error)
	Vetoed func(grant *bursarv1.Allocation, refused tracker.Refusal)
	Log    *slog.Logger
}

// Reporter reports for one host. Make it with New.
type Reporter struct {
	state               *hoststate.State
	hosts               bursarv1connect.HostServiceClient
	orders              Orders
	finder              discovery.Finder
	elsewhere           func()
	pin                 *clusterid.Pin
	forgetCluster       bool
	measureDue, syncDue *loops.Wakeup
	pass                func(func())
	uptime              func() time.Duration
	freshMemory         func(ctx context.Context)
	synced              func(took time.Duration, err error)
	vetoed              func(grant *bursarv1.Allocation, refused tracker.Refusal)
	log                 *slog.Logger

	ready     chan struct{}                 // closed when a coordinator has answered a Sync
	syncedAt  loops.Moment                  // when a Sync was last answered
	refusedAt loops.Moment                  // when the last Sync began that tells of refused grants
	unsynced  atomic.Bool                   // the last Sync failed
	stranger  atomic.Pointer[StrangerError] // the host is another agent's; nil: it is not
	newLeader atomic.Bool                   // another leader was named since the last Sync began
	asking    atomic.Int64                  // requests of callers that are not answered yet
	naming    naming                        // whether that leader has answered

	// Of the loop alone:

	draining bool   // as last logged
	token    []byte // the identity token that the next registration shows
	// otherClusters are those that were logged.
	otherClusters map[clusterid.Identity]bool
}

// New returns a reporter that has not reported yet.
func New(o Options) *Reporter {
	return &Reporter{
		state: o.State, hosts: o.Hosts, orders: o.Orders, finder: o.Finder, elsewhere: o.Elsewhere, pin: o.Pin, forgetCluster: o.ForgetCluster,
		measureDue: o.MeasureDue, syncDue: o.SyncDue, pass: o.Pass, uptime: o.Uptime, freshMemory: o.FreshMemory,
		synced: o.Synced, vetoed: o.Vetoed, log: o.Log, ready: make(chan struct{}),
	}
}

// Ready is closed when the coordinator has answered a Sync of the host that it knows.
func (r *Reporter) Ready() <-chan struct{} { return r.ready }

// SyncedAt is when a coordinator has last answered a Sync; the zero time: not yet.
func (r *Reporter) SyncedAt() time.Time { return r.syncedAt.Last() }

// IsSynced reports whether the last Sync was answered, or none was sent yet.
func (r *Reporter) IsSynced() bool { return !r.unsynced.Load() }

// Stranger says why the host is another agent's; nil: it is not.
func (r *Reporter) Stranger() *StrangerError { return r.stranger.Load() }

// Asks counts a request of a caller until answered is called: the host comes to a new leader at
// once if one waits for that.
func (r *Reporter) Asks() (answered func()) {
	r.asking.Add(1)
	return func() { r.asking.Add(-1) }
}
