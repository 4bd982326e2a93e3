package coordinator

import (
	"context"
	"errors"
	"fmt"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/ledger"
)

// A caller knows an engine by the id in the answer to its request, which is the id of the first
// try. The ended allocation of a try names its successor, so any try's id leads to the last try.
// Calls about an engine act on its last try, and rights are checked there.

// successorOf returns the allocation of the next try; 0 if there is none.
func successorOf(a *ledger.Allocation) ledger.ID {
	if launch := a.Launch(); launch != nil {
		return launch.Successor
	}
	return 0
}

// onLastTry runs a command of the ledger on the last try of an engine. id may be that of any try;
// the returned id is the last one. If the call comes through a host's agent, the try must be on
// that host. The command's error is a *ledger.NotFoundError for an ended allocation.
func onLastTry[T any](
	ctx context.Context, s *allocationService, id ledger.ID, command func(l *ledger.Ledger, now ledger.Instant, id ledger.ID) (T, error),
) (T, ledger.ID, error) {
	actor := auth.ActorOf(ctx)
	for {
		result, err := commit.Decide(ctx, s.loop, func(l *ledger.Ledger, now ledger.Instant) (T, error) {
			if err := checkOwnHost(l, actor, id); err != nil {
				var none T
				return none, err
			}
			return command(l, now, id)
		})
		if _, unknown := errors.AsType[*ledger.NotFoundError](err); !unknown {
			return result, id, err
		}
		row, failed := s.ended(ctx, id)
		next := successorOf(&row)
		if failed != nil || next <= id { // ids rise, so this ends even if a store is wrong
			return result, id, err
		}
		id = next
	}
}

// ofLastTry names the try that an error is about, if the caller asked for another one.
func ofLastTry(asked, last ledger.ID, err error) error {
	if err == nil || asked == last {
		return err
	}
	return fmt.Errorf("the engine of allocation %s was tried again as %s: %w", asked, last, err)
}

// lastTryOf follows an allocation to the last known try.
func (s *allocationService) lastTryOf(ctx context.Context, allowStale bool, a ledger.Allocation) (ledger.Allocation, error) {
	for next := successorOf(&a); next > a.ID; next = successorOf(&a) {
		var following ledger.Allocation
		var live bool
		err := s.loop.Reader(allowStale).Do(ctx, func(l *ledger.Ledger, _ ledger.Instant) { following, live = l.Get(next) })
		if err != nil {
			return a, err
		}
		if !live {
			following, err = s.ended(ctx, next)
		}
		if _, unknown := errors.AsType[*ledger.NotFoundError](err); unknown {
			return a, nil // a standby has not seen it yet
		}
		if err != nil {
			return a, err
		}
		a = following
	}
	return a, nil
}
