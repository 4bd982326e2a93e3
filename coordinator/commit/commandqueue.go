package commit

import (
	"context"
	"sync"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/turns"
)

const (
	// batchTime and batchBytes bound a batch in addition to Options.Batch: a usual command takes 10
	// µs and changes a row of 2 KiB. All callers of a batch wait for the whole batch.
	batchTime  = time.Millisecond
	batchBytes = 256 << 10
	// allCallers is the ratio of the bound for all callers to that for one caller.
	allCallers = 4
)

// commandQueue holds the commands that wait for the loop. Any goroutine may add one; the loop takes
// them.
type commandQueue struct {
	mu    sync.Mutex
	turns *turns.Queue[core.Command] // guarded by mu
	// signal has one element while the loop may have something to take.
	signal chan struct{}
}

func newCommandQueue(o *Options) *commandQueue {
	return &commandQueue{
		turns: turns.New[core.Command](turns.Limits{
			Caller: o.Queue, All: allCallers * o.Queue, Commands: o.Batch, Bytes: batchBytes, Time: batchTime,
		}),
		signal: make(chan struct{}, 1),
	}
}

// put queues a command. It returns false if too many commands of its owner wait.
func (q *commandQueue) put(of turns.Owner, command core.Command) bool {
	q.mu.Lock()
	queued := q.turns.Put(of, command)
	q.mu.Unlock()
	if queued {
		q.wake()
	}
	return queued
}

// force queues a command without a bound. Such a command ends a queued one, or there is only one.
func (q *commandQueue) force(of turns.Owner, command core.Command) {
	q.mu.Lock()
	q.turns.Force(of, command)
	q.mu.Unlock()
	q.wake()
}

func (q *commandQueue) wake() {
	select {
	case q.signal <- struct{}{}:
	default: // the loop is signaled already
	}
}

// take returns the next command; nil if there is none. charge must follow.
func (q *commandQueue) take() core.Command {
	q.mu.Lock()
	defer q.mu.Unlock()
	command, _ := q.turns.Next()
	return command
}

// charge charges the cost of the last taken command, and the cost of the due work before it.
func (q *commandQueue) charge(cost, due turns.Cost) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.turns.Charge(cost)
	q.turns.Spend(due)
}

// len returns how many commands wait.
func (q *commandQueue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.turns.Len()
}

// full reports whether the batch has reached a bound.
func (q *commandQueue) full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.turns.Full()
}

// nextBatch begins a batch.
func (q *commandQueue) nextBatch() {
	q.mu.Lock()
	q.turns.NextBatch()
	waits := q.turns.Len() > 0
	q.mu.Unlock()
	if waits {
		q.wake()
	}
}

// owner returns the owner of a call's commands.
func (loop *Loop) owner(ctx context.Context) turns.Owner {
	if loop.Owner == nil {
		return turns.Owner{Class: turns.Callers}
	}
	return loop.Owner(ctx)
}
