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

// storeLoop does the jobs, one after the other.
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

// tell gives the loop an outcome, for as long as the loop takes any.
func (loop *Loop) tell(ctx context.Context, o outcome) {
	select {
	case loop.outcomes <- o:
	case <-ctx.Done():
	}
}

// prove compares what was loaded with the store. The loop restores the ledger meanwhile. If that
// cannot be done, for example because it takes too long, the copy counts as wrong: everything can
// be loaded. But who cannot reach the store, or must not lead on it, cannot do that either.
func (loop *Loop) prove(ctx context.Context, o *outcome) error {
	limited, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	err := o.loaded.Prove(limited)
	if err == nil || ctx.Err() != nil || errors.Is(err, core.ErrUnproven) || errors.Is(err, store.ErrAway) || errors.Is(err, store.ErrDeposed) {
		return err
	}
	return fmt.Errorf("%w: %w", core.ErrUnproven, err)
}

// loadTimeout bounds how long reading the store may take: 100,000 live allocations take half a
// second.
const loadTimeout = time.Minute

// load takes the lead in the store and reads what is there. A store that does not answer this
// coordinator must not keep others from leading: it may answer them.
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

// badRow says what to do about a row that keeps every coordinator from leading.
func badRow(err error, table, key string) error {
	return fmt.Errorf("%w: no coordinator leads while this row is there: restore a backup, or take it out with bursar store set-aside %s %q", err, table, key)
}

// epochFloor is the least that the next epoch may be. It is above this coordinator's own epoch,
// and above each announced epoch that is at most a stride above that and the store's. A wrong
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

// commit makes a batch durable, then shows it to the watchers and answers its callers.
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
	// Those who were answered go first. Otherwise this goroutine and the loop's would wake each
	// other in one slice of the processor's time, for 10 ms, and whoever waits for it would wait as
	// long.
	runtime.Gosched()
	return nil
}
