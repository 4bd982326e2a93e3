package core

import (
	"sync/atomic"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// Batch is what one commit covers: the changed rows, and the callers that are answered when they
// are durable.
type Batch struct {
	store.Batch
	Commands []Command
	answered atomic.Bool
	after    uint64         // the revision of the batch before
	grace    time.Duration  // the least time to live after a load
	stored   ledger.Instant // when it became durable
}

// Stored says when the batch became durable, by the ledger's time. It is called before Answer.
// Done may come later.
func (b *Batch) Stored(at ledger.Instant) { b.stored = at }

// Answer answers every caller that the batch covers: nil if it is durable, else why that is not
// known. Only the first call has an effect, so a commit may be given up while it is still in
// flight.
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
