package coordinator

import (
	"context"
	"time"
)

// talk does the jobs, one after the other.
func (w *writer) talk(ctx context.Context) {
	for j := range w.jobs {
		if j.batch != nil {
			w.outcomes <- outcome{job: j, err: w.commit(ctx, j.batch)}
		} else {
			w.outcomes <- w.load(ctx, j)
		}
	}
}

// loadTimeout bounds how long reading the store may take: 100,000 live allocations take half a second.
const loadTimeout = time.Minute

// load takes the lead in the store and reads what is there. A store that does not answer must not keep others from leading that it
// might answer.
func (w *writer) load(ctx context.Context, j job) outcome {
	o := outcome{job: j}
	leading, cancel := context.WithTimeout(ctx, w.limits.CommitTimeout)
	defer cancel()
	if o.meta, o.err = w.store.Lead(leading, j.atLeast); o.err != nil {
		return o
	}
	ctx, cancel = context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	since := w.clock.now().Add(-w.remember).Time()
	o.snapshot, o.err = w.store.Load(ctx, o.meta.Epoch, since)
	return o
}

// commit makes a batch durable, then shows it to the watchers and answers its callers.
func (w *writer) commit(ctx context.Context, b *Batch) error {
	ctx, cancel := context.WithTimeout(ctx, w.limits.CommitTimeout)
	defer cancel()
	start := w.clock.now()
	ctx, span := w.tracer.begin(ctx, b)
	err := w.store.Commit(ctx, b.Batch)
	span.end(err)
	if err != nil {
		b.Answer(&CommitError{Err: err})
		return err
	}
	w.meter.committed(b, w.clock.now().Sub(start))
	if !b.Empty() {
		w.feed.publish(&b.Changes)
	}
	b.Answer(nil)
	return nil
}
