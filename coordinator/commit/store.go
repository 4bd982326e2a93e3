package commit

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/internal/discovery"
)

// storeLoop runs the jobs, one after the other.
func (loop *Loop) storeLoop(ctx context.Context) {
	for j := range loop.jobs {
		if j.batch != nil {
			loop.tell(ctx, outcome{job: j, err: loop.commit(ctx, j.batch)})
			continue
		}
		wanted, cancel := whileWanted(ctx, j.term)
		o := loop.load(wanted, j)
		loop.tell(ctx, o)
		if o.provesLater() {
			loop.tell(ctx, outcome{job: j, proof: true, err: loop.prove(wanted, &o)})
		}
		cancel()
	}
}

// whileWanted returns a context that ends with a term.
func whileWanted(ctx context.Context, t *Term) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-t.unwanted:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// tell sends an outcome to the loop, for as long as the loop runs.
func (loop *Loop) tell(ctx context.Context, o outcome) {
	select {
	case loop.outcomes <- o:
	case <-ctx.Done():
	}
}

// prove compares the loaded state with the store, while the loop restores the ledger. If the
// comparison fails, for example because it takes too long, the copy counts as wrong, because the
// whole store can still be loaded. This does not hold for a coordinator that cannot reach the
// store, or may not lead on it.
func (loop *Loop) prove(ctx context.Context, o *outcome) error {
	limited, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	err := o.loaded.Prove(limited)
	if err == nil || ctx.Err() != nil || errors.Is(err, core.ErrUnproven) || errors.Is(err, store.ErrAway) || errors.Is(err, store.ErrDeposed) {
		return err
	}
	return fmt.Errorf("%w: %w", core.ErrUnproven, err)
}

// loadTimeout bounds a load of the store: 100,000 live allocations take half a second.
const loadTimeout = time.Minute

// load takes the lead in the store and loads its state. The timeout is short, because the store may
// answer other coordinators, and these must be able to lead.
func (loop *Loop) load(ctx context.Context, j job) outcome {
	o, began := outcome{job: j}, loop.Clock.Now()
	leading, cancel := context.WithTimeout(ctx, loop.CommitTimeout)
	defer cancel()
	var atLeast uint64
	if atLeast, o.err = loop.epochFloor(leading, j); o.err == nil {
		o.meta, o.err = loop.Store.Lead(leading, atLeast)
	}
	if o.err != nil {
		return o
	}
	ctx, cancel = context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	o.loaded, o.err = loop.follower.load(ctx, o.meta, &j)
	o.read = loop.Clock.Now().Sub(began)
	if row, garbage := errors.AsType[*store.RowError](o.err); garbage {
		o.err = badRow(o.err, row.Table, row.Key)
	}
	return o
}

// badRow adds advice about a row that keeps every coordinator from leading.
func badRow(err error, table, key string) error {
	return fmt.Errorf("%w: no coordinator leads while this row is there: restore a backup, or take it out with bursar store set-aside %s %q", err, table, key)
}

// epochFloor returns the lowest allowed next epoch. It is above this coordinator's own epoch, and
// above each announced epoch that is at most one stride above that and the store's. A wrong
// announcement must not use up the numbers, and must not lead the agents to an epoch that a
// restored store cannot reach.
func (loop *Loop) epochFloor(ctx context.Context, j job) (uint64, error) {
	if len(j.term.announced) == 0 {
		return j.atLeast, nil
	}
	meta, err := loop.Store.Meta(ctx)
	if err != nil {
		return 0, err
	}
	certain := max(meta.Epoch, j.atLeast)
	atLeast := j.atLeast
	for _, epoch := range j.term.announced {
		if discovery.Believable(epoch, certain) {
			atLeast = max(atLeast, epoch+1)
			continue
		}
		loop.Log.Warn("an epoch that was announced in Consul is not believed, as it is more than a stride above the store's: somebody else has written it there, or the store is "+
			"older than anybody could know; in that case raise its epoch with bursar store epoch", "announced", epoch, "store", meta.Epoch, "stride", discovery.EpochStride)
	}
	return atLeast, nil
}

// commit makes a batch durable, then publishes it to the watchers and answers its callers.
func (loop *Loop) commit(ctx context.Context, b *core.Batch) error {
	ctx, cancel := context.WithTimeout(ctx, loop.CommitTimeout)
	defer cancel()
	start := loop.Clock.Now()
	ctx, span := loop.Spans.beginCommit(ctx, b)
	err := loop.Store.Commit(ctx, b.Batch)
	loop.Spans.endCommit(span, err)
	if err != nil {
		b.Answer(&Error{Err: err})
		return err
	}
	loop.Metrics.committed(b, loop.Clock.Now().Sub(start))
	if !b.Empty() {
		loop.Feed.Publish(&b.Changes)
	}
	b.Stored(loop.Now())
	b.Answer(nil)
	// Let the answered callers run first. Otherwise this goroutine and the loop's would wake each
	// other within one time slice of the processor, for 10 ms, and other goroutines would wait as
	// long.
	runtime.Gosched()
	return nil
}
