package commit

import (
	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/turns"
)

// batchFull reports whether the current batch is full. Commands that come while the core does not
// lead are answered at once, outside of a batch.
func (loop *Loop) batchFull() bool {
	return loop.core.Leading() && (loop.core.Pending() >= loop.Batch || loop.queue.full())
}

// gather applies the waiting commands, in turns of their callers, until the batch is full: one
// commit covers it. The caller of a command is charged for its time and its changed rows. Timers
// that were due before it, and waiting requests that were tried then, belong to the batch, and no
// caller is charged for them.
func (loop *Loop) gather() {
	now, rows := loop.Clock.Now(), loop.core.Recorded()
	for !loop.batchFull() {
		command := loop.queue.take()
		if command == nil {
			return
		}
		if err := loop.core.Begin(now); err != nil {
			command.Answer(core.ErrNotLeading)
			loop.endAfterPanic(err)
			continue
		}
		at := now // at a later time, more would be due
		due := loop.spent(&now, &rows)
		loop.apply(at, command)
		loop.queue.charge(loop.spent(&now, &rows), due)
	}
}

// spent returns the cost since the given time and rows, and updates them.
func (loop *Loop) spent(now *ledger.Instant, rows *int64) turns.Cost {
	began, before := *now, *rows
	*now, *rows = loop.Clock.Now(), loop.core.Recorded()
	return turns.Cost{Time: now.Sub(began), Bytes: *rows - before}
}

func (loop *Loop) apply(now ledger.Instant, command core.Command) {
	markApplied(command.Trace())
	if err := loop.core.Do(now, command); err != nil {
		loop.endAfterPanic(err)
	}
}
