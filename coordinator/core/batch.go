package core

import (
	"sync/atomic"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// Batch is the content of one commit: the changed rows, and the callers to answer when they are
// durable.
type Batch struct {
	store.Batch
	Commands []Command
	answered atomic.Bool
	after    uint64         // the revision of the previous batch
	grace    time.Duration  // the least time to live after a load
	stored   ledger.Instant // when it became durable
}

// Stored sets the ledger's time at which the batch became durable. It is called before Answer. Done
// may come later.
func (b *Batch) Stored(at ledger.Instant) { b.stored = at }

// Answer answers every caller of the batch: with nil if it is durable, otherwise with the reason
// why that is unknown. Only the first call has an effect, so the loop may give up a commit that is
// still in flight.
func (b *Batch) Answer(err error) {
	if !b.answered.CompareAndSwap(false, true) {
		return
	}
	for _, command := range b.Commands {
		if request, ok := command.(*Request); ok && err == nil {
			request.stored(b)
		}
		command.Answer(err)
	}
}

// Size is the number of callers that wait for the batch.
func (b *Batch) Size() int { return len(b.Commands) }
