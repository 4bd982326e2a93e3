package launches

import (
	"context"
	"errors"

	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/ledger"
)

// errFound stops the change feed: the allocation is found.
var errFound = errors.New("found")

// Await returns an allocation as soon as done accepts it or it has ended. If it ended before the
// call, only the ID is set. The error is that of ctx, or reports that the changes cannot be
// followed: the leadership is over, or the caller has fallen behind.
func (l *Launcher) Await(ctx context.Context, id ledger.ID, done func(*ledger.Allocation) bool) (ledger.Allocation, error) {
	var found ledger.Allocation
	look := func(a *ledger.Allocation) error {
		if !a.State.Live() || done(a) {
			found = *a
			return errFound
		}
		return nil
	}
	err := l.Loop.FollowUncounted(ctx, func() error {
		a := ledger.Allocation{ID: id}
		if err := l.Loop.Do(ctx, func(book *ledger.Ledger, _ ledger.Instant) {
			if live, there := book.Get(id); there {
				a = live
			}
		}); err != nil {
			return err //nolint:wrapcheck // says all
		}
		return look(&a)
	}, func(batch []*commit.Event) error {
		for _, e := range batch {
			if e.Allocation == nil || e.Allocation.ID != id {
				continue
			}
			if err := look(e.Allocation); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, errFound) {
		return found, nil
	}
	return found, err //nolint:wrapcheck // says all
}
