package commit

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/internal/pause"
)

// A leadership begins before the ledger knows the request ids of the allocations that ended in the
// last day, which may be a million. A recaller loads them afterwards. Until the ledger has all of
// them, the coordinator asks the store for the id of each request before the request enters the
// loop.

const (
	// recallPage is how many request ids are read from the store at a time.
	recallPage = 4096
	// recallStep is how many the loop takes at a time: less than 0.5 ms on average.
	recallStep = 512
	// mostLookUps is how often one request is looked up: once, and again after each change of
	// leader meanwhile.
	mostLookUps = 3
	// lookUpTimeout bounds one look-up, which reads one row. A store that does not answer must not
	// hold a request that wants to wait for an hour.
	lookUpTimeout = 3 * time.Second
)

// recaller loads request ids in one leadership.
type recaller struct {
	*Loop

	leadership uint64
	since      ledger.Instant // earlier ends are not remembered
}

// rememberSince returns the time before which allocations have ended whose request ids are
// forgotten when a leadership begins.
func (loop *Loop) rememberSince(meta store.Meta) ledger.Instant {
	now := max(loop.Clock.Now(), meta.Time)
	outages, _ := ledger.ReadOutages(meta.Outages).Until(now, meta.Sequence, meta.Time)
	return outages.Before(now, loop.Remember)
}

// beginRecall starts the recaller if the ledger lacks request ids. The loop calls it before it
// publishes that it leads.
func (loop *Loop) beginRecall(meta store.Meta) {
	if !loop.core.Ledger().Recalling() {
		return
	}
	r := recaller{Loop: loop, leadership: loop.core.Leadership(), since: loop.rememberSince(meta)}
	loop.recalling.Store(r.leadership)
	ctx, cancel := context.WithCancel(context.Background())
	loop.stopRecaller = cancel
	loop.recallers.Go(func() { r.run(ctx) })
}

// endRecall stops the recaller, if there is one. The loop calls it.
func (loop *Loop) endRecall() {
	loop.recalling.Store(0)
	if loop.stopRecaller != nil {
		loop.stopRecaller()
		loop.stopRecaller = nil
	}
}

// run loads the request ids into the ledger until ctx ends. It begins with the latest ends, because
// callers repeat those.
func (r *recaller) run(ctx context.Context) {
	began, n := r.Clock.Now(), 0
	retry := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0))
	var at store.Position
	for last := false; !last; {
		page, next, err := r.read(ctx, at)
		if ctx.Err() != nil {
			return
		}
		if row, garbage := errors.AsType[*store.RowError](err); garbage {
			r.giveUp(ctx, badRow(err, row.Table, row.Key))
			return
		}
		if err != nil {
			wait := retry.NextBackOff()
			r.Log.Warn("the request ids of ended allocations cannot be read: until then each new request is looked up in the store, "+
				"and hosts that report engines which are not known get no grants", "error", err, "again_in", wait)
			if !pause.For(wait, ctx.Done(), nil) {
				return
			}
			continue
		}
		retry.Reset()
		last = next == (store.Position{})
		if !r.bring(ctx, page, last) {
			return
		}
		at, n = next, n+len(page)
	}
	r.recalling.CompareAndSwap(r.leadership, 0)
	r.Log.Info("the request ids of ended allocations are loaded", "ids", n, "took", r.Clock.Now().Sub(began))
}

// giveUp makes the loop end this leadership because of an unreadable row that may be live. The next
// leadership begins with the request ids, so it is refused while the row is there.
func (r *recaller) giveUp(ctx context.Context, err error) {
	_ = r.ownCall(ctx, func(c *core.Core, _ ledger.Instant) {
		if c.Leadership() == r.leadership {
			r.recallFailed = err
		}
	}, true) // if it fails, the leadership is over
}

func (r *recaller) read(ctx context.Context, at store.Position) ([]ledger.Remembered, store.Position, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	return r.Store.Remembered(ctx, at, r.since, recallPage) //nolint:wrapcheck // it is complete
}

// bring passes a page to the loop, in steps; last says that no other page follows. It returns false
// if the leadership is over.
func (r *recaller) bring(ctx context.Context, page []ledger.Remembered, last bool) bool {
	for first := true; first || len(page) > 0; first = false {
		step := page[:min(len(page), recallStep)]
		page = page[len(step):]
		end, current := last && len(page) == 0, false
		err := r.ownCall(ctx, func(c *core.Core, now ledger.Instant) {
			if c.Leadership() == r.leadership {
				c.Ledger().Recall(now, step, end)
				current = true
			}
		}, true)
		if err != nil || !current {
			return false
		}
	}
	return true
}

// lookUp asks the store for the request id of a command if the ledger may not know it, and returns
// the leadership in which it read.
func (loop *Loop) lookUp(ctx context.Context, command *ledger.AllocateCommand) (leadership uint64, err error) {
	// Load it before the read of the store: rows that are stored after that leadership has begun
	// are its own, and its ledger knows them.
	leadership = loop.recalling.Load()
	if leadership == 0 || command.RequestID == "" {
		return 0, nil
	}
	past, err := loop.Past(ctx, command.Actor.Name, command.RequestID)
	command.Past = &past
	return leadership, err
}

// withPast applies a command together with the store's row for its request id, if the ledger may
// not know that. apply gets the leadership in which the row was read, and is called again if
// another leadership has begun since then.
func (loop *Loop) withPast(
	ctx context.Context, command *ledger.AllocateCommand, apply func(pastOf uint64) (ledger.AllocateResult, error),
) (ledger.AllocateResult, error) {
	for range mostLookUps {
		of, err := loop.lookUp(ctx, command)
		if err != nil {
			return ledger.AllocateResult{}, err
		}
		if result, err := apply(of); !errors.Is(err, ledger.ErrNotRecalled) {
			return result, err
		}
	}
	return ledger.AllocateResult{}, core.ErrNotLeading
}

// Past returns the ended allocation of a request id from the store. ID 0: there is none.
func (loop *Loop) Past(ctx context.Context, caller, requestID string) (ledger.Remembered, error) {
	limited, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	past, err := loop.Store.RememberedOf(limited, caller, requestID)
	switch {
	case err == nil && min(past.Ended, loop.Now()) > loop.ago(loop.Now(), loop.Remember):
		return past, nil
	case err == nil, errors.Is(err, store.ErrNotFound):
		return ledger.Remembered{}, nil
	case ctx.Err() != nil:
		return ledger.Remembered{}, ctx.Err()
	}
	return ledger.Remembered{}, &LookUpError{RequestID: requestID, Err: err}
}

// IDOf finds the allocation of a request id, live or remembered; 0 if there is none.
func (loop *Loop) IDOf(ctx context.Context, caller, requestID string) (ledger.ID, error) {
	var id ledger.ID
	var recalling bool
	err := loop.Do(ctx, func(l *ledger.Ledger, _ ledger.Instant) {
		id, _, _ = l.ByRequest(caller, requestID)
		recalling = l.Recalling()
	})
	if err != nil || id != 0 || !recalling {
		return id, err
	}
	past, err := loop.Past(ctx, caller, requestID)
	return past.ID, err
}
