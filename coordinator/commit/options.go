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

// Options are what a loop works with. All but the functions are required.
type Options struct {
	Store   store.Store
	Clock   core.Steady
	Feed    *ChangeFeed
	Metrics *Metrics
	Spans   *Tracer // nil: nothing is traced
	Log     *slog.Logger
	// Queue is how many commands of one caller may wait, of all together four times as many. Batch
	// is how many one commit may cover, CommitTimeout how long one may take.
	Queue, Batch  int
	CommitTimeout time.Duration
	// Remember is how long request ids are kept after the end.
	Remember time.Duration
	// History bounds what has ended.
	History HistoryBounds
	// Origin is where a call comes from. Nil: it is not known.
	Origin func(ctx context.Context) *core.Origin
	// Owner is whose turn a call's commands wait for. Nil: all are the same caller's.
	Owner func(ctx context.Context) turns.Owner
	// Parked is called when a call begins to wait for the loop, and Resumed when it was answered,
	// if its caller is still there. Resumed may wait. Nil: nobody wants to know.
	Parked, Resumed func(ctx context.Context)
	// Rules are those of the files at the moment, by source. Nil: they are the core's already.
	Rules func() map[string][]ledger.Quota
	// ClustersChanged is called when other external clusters may have to be read. It must not
	// block. Nil: no clusters are read.
	ClustersChanged func()
}

// New returns a loop that does not run yet. Nothing else may use the core.
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

// origin is where a call comes from; nil if it is not known.
func (loop *Loop) origin(ctx context.Context) *core.Origin {
	if loop.Origin == nil {
		return nil
	}
	return loop.Origin(ctx)
}
