package commit

import (
	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/turns"
)

// batchFull reports whether the batch that gathers has enough. What comes while the core does not
// lead is answered at once, and is in no batch.
func (loop *Loop) batchFull() bool {
	return loop.core.Leading() && (loop.core.Pending() >= loop.Batch || loop.queue.full())
}

// gather applies what has arrived, each caller in its turn, until the batch has enough: one commit
// covers it. Each command is charged with the time that it took and with the rows that it changed.
// What was due before it, and the requests that waited and were tried then, are of the batch, and
// nobody is charged with them.
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
		at := now // later, more would be due
		due := loop.spent(&now, &rows)
		loop.apply(at, command)
		loop.queue.charge(loop.spent(&now, &rows), due)
	}
}

// spent is what has been spent since the time and the rows of before, which it moves on.
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
