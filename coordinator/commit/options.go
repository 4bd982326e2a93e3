package commit

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/turns"
)

// Options configure a loop. All fields but the functions are required.
type Options struct {
	Store   store.Store
	Clock   core.Steady
	Feed    *ChangeFeed
	Metrics *Metrics
	Spans   *Tracer // nil: nothing is traced
	Log     *slog.Logger
	// Queue is how many commands of one caller may wait; four times as many of all together. Batch
	// is how many one commit may cover, CommitTimeout how long one may take.
	Queue, Batch  int
	CommitTimeout time.Duration
	// Remember is how long request ids are kept after the end.
	Remember time.Duration
	// History bounds the ended allocations.
	History HistoryBounds
	// Origin returns the origin of a call. Nil: not known.
	Origin func(ctx context.Context) *core.Origin
	// Owner returns the owner of a call's commands, which take turns by owner. Nil: one owner for
	// all.
	Owner func(ctx context.Context) turns.Owner
	// Parked is called when a call begins to wait for the loop, and Resumed when it was answered,
	// if its caller is still there. Resumed may wait. Nil: not called.
	Parked, Resumed func(ctx context.Context)
	// Rules returns the current rules of files, by source. Nil: the core has them already.
	Rules func() map[string][]ledger.Quota
	// ClustersChanged is called when the external clusters to poll may have changed. It must not
	// block. Nil: there is no polling.
	ClustersChanged func()
}

// New returns a loop that does not run yet. Only the loop may use the core.
func New(c *core.Core, o Options) *Loop {
	loop := &Loop{
		Options: o, core: c,
		calls:    sync.Pool{New: newPendingCall},
		requests: sync.Pool{New: newPendingRequest},
		queue:    newCommandQueue(&o),
		priority: priorityQueue{signal: make(chan struct{}, 1)},
		jobs:     make(chan job, 1),
		outcomes: make(chan outcome, 1),
		terms:    make(chan *Term),
		auditing: make(chan struct{}, 1),
		stopping: make(chan struct{}),
		done:     make(chan struct{}),
	}
	loop.history = newHistory(loop)
	loop.replica = newReplica(loop, c.EmptyLedger)
	loop.follower = newFollower(loop)
	return loop
}

// origin returns the origin of a call; nil if not known.
func (loop *Loop) origin(ctx context.Context) *core.Origin {
	if loop.Origin == nil {
		return nil
	}
	return loop.Origin(ctx)
}
