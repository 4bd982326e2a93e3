package commit

import (
	"context"
	"errors"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/proto/convert"
)

const (
	// KeepAlive is how often a watch without changes sends its revision.
	KeepAlive = convert.KeepAlive
	// watchBatch is how many changes are taken from the feed at a time.
	watchBatch = 64
)

// Follow sends the changes after a revision until the caller goes away or falls too far behind. It
// begins with ping, which sends only a revision, and repeats it after a while without changes. send
// gets changes that can be sent together; it may skip any, and must not keep them.
func (loop *Loop) Follow(ctx context.Context, after uint64, ping func(revision uint64) error, send func([]*Event) error) error {
	counted := false
	defer func() {
		if counted {
			loop.Metrics.watchers.Dec()
		}
	}()
	begin := func() error {
		loop.Metrics.watchers.Inc()
		counted = true
		return nil
	}
	return loop.follow(ctx, after, begin, ping, send)
}

// FollowUncounted is Follow for the server itself, from now on. It does not count among the watches
// of callers. It calls begin once, after which every change will come.
func (loop *Loop) FollowUncounted(ctx context.Context, begin func() error, send func([]*Event) error) error {
	return loop.follow(ctx, 0, begin, func(uint64) error { return nil }, send)
}

func (loop *Loop) follow(ctx context.Context, after uint64, begin func() error, ping func(revision uint64) error, send func([]*Event) error) error {
	// This goes through the loop: a coordinator that does not lead must not name the latest
	// revision.
	if err := loop.Do(ctx, func(*ledger.Ledger, ledger.Instant) {}); err != nil {
		return err
	}
	from, revision, err := loop.Feed.newReader(after)
	if err != nil {
		if gone, is := errors.AsType[*RevisionError](err); is && after > gone.Newest {
			_ = loop.call(ctx, func(c *core.Core, _ ledger.Instant) { c.ObserveWatch(after) })
		}
		return err
	}
	defer from.close()
	if err := begin(); err != nil {
		return err
	}
	if err := ping(revision); err != nil {
		return err
	}
	tick := time.NewTicker(KeepAlive)
	defer tick.Stop()
	events := make([]*Event, 0, watchBatch)
	for {
		batch, caughtUp, err := from.poll(events)
		if err != nil {
			if errors.Is(err, ErrFellBehind) {
				loop.Metrics.cutOff.Inc()
			}
			return err
		}
		if ctx.Err() != nil { // without pauses between changes, nothing else checks it
			return ctx.Err()
		}
		if len(batch) > 0 {
			if err := send(batch); err != nil {
				return err
			}
			clear(batch)
		}
		if len(batch) == cap(events) { // there may be more
			continue
		}
		revision = max(revision, caughtUp)
		select {
		case <-from.wait():
		case <-tick.C:
			if err := ping(revision); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
