package commit

import (
	"context"
	"errors"
	"fmt"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// EndedLeadership is an ended leadership of this coordinator.
type EndedLeadership struct {
	Epoch uint64
	Time  ledger.Instant // of the coordinator's clock
	// Reason names the part that failed. It contains nothing about callers or addresses, because
	// every caller may read it.
	Reason string
}

// LastEnded returns the last ended leadership of this process; nil if there is none.
func (loop *Loop) LastEnded() *EndedLeadership { return loop.ended.Load() }

func (loop *Loop) setEnded(epoch uint64, why error) {
	loop.ended.Store(&EndedLeadership{Epoch: epoch, Time: loop.Clock.Now(), Reason: endReason(why)})
}

// endReason describes why a leadership ended.
func endReason(why error) string {
	switch {
	case why == nil:
		return "it was handed over"
	case errors.Is(why, errLockLost), errors.Is(why, errUnreached):
		return why.Error()
	case errors.Is(why, core.ErrStopping):
		return "the coordinator was told to stop"
	case errors.Is(why, store.ErrDeposed):
		return "the store: another coordinator has begun to lead on it"
	case errors.Is(why, store.ErrUnknownOutcome), errors.Is(why, context.DeadlineExceeded):
		return "the store: a commit was not answered in time, or its connection broke"
	case isFault(why):
		return "the ledger failed over a command, which is refused from now on: bursar status lists it"
	case errors.Is(why, core.ErrNotLeading):
		return "an agent knows a later leadership: the store went back in time, or another coordinator leads"
	}
	return fmt.Sprintf("the store: %v", shownFault(why))
}
