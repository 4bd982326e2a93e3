package commit

import (
	"context"
	"sync"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/turns"
)

const (
	// batchTime and batchBytes bound a batch next to Options.Batch: a usual command takes 10 µs and
	// changes a row of 2 KiB. A longer batch makes each of its callers wait for all.
	batchTime  = time.Millisecond
	batchBytes = 256 << 10
	// allCallers is how many times as many commands may wait as those of one caller.
	allCallers = 4
)

// commandQueue has the commands that wait for the loop. Any goroutine may put one there; the loop
// takes them.
type commandQueue struct {
	mu    sync.Mutex
	turns *turns.Queue[core.Command] // guarded by mu
	// signal holds one while the loop may have something to take.
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

// put queues a command, and reports false if too many of its owner wait.
func (q *commandQueue) put(of turns.Owner, command core.Command) bool {
	q.mu.Lock()
	queued := q.turns.Put(of, command)
	q.mu.Unlock()
	if queued {
		q.wake()
	}
	return queued
}

// force queues a command without a bound: each ends one that was put, or there is one at a time.
func (q *commandQueue) force(of turns.Owner, command core.Command) {
	q.mu.Lock()
	q.turns.Force(of, command)
	q.mu.Unlock()
	q.wake()
}

func (q *commandQueue) wake() {
	select {
	case q.signal <- struct{}{}:
	default: // the loop knows already
	}
}

// take takes the command whose turn it is; nil: none waits. charge must follow.
func (q *commandQueue) take() core.Command {
	q.mu.Lock()
	defer q.mu.Unlock()
	command, _ := q.turns.Next()
	return command
}

// charge says what the command has cost that was taken last, and what was due before it.
func (q *commandQueue) charge(cost, due turns.Cost) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.turns.Charge(cost)
	q.turns.Spend(due)
}

// len is how many commands wait.
func (q *commandQueue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.turns.Len()
}

// full reports whether the batch has enough.
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

// owner is whose a call's commands are.
func (loop *Loop) owner(ctx context.Context) turns.Owner {
	if loop.Owner == nil {
		return turns.Owner{Class: turns.Callers}
	}
	return loop.Owner(ctx)
}
