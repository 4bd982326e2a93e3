package consul

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/hashicorp/consul/api"

	"github.com/bursar/bursar/internal/pause"
)

// Watch is a repeated blocking query.
type Watch struct {
	// About is its purpose, for errors and logs.
	About string
	// Ask queries once with these options and uses the answer. It must return an error for an
	// implausible answer and not use it; the query is then repeated after a pause.
	Ask func(options *api.QueryOptions) (*api.QueryMeta, error)
	// Wait is how long Consul may hold the query; 0 means the configured time.
	Wait time.Duration
	// Gap is the shortest time between the starts of two queries: it bounds the load if answers
	// change all the time.
	Gap time.Duration
	// Hurried reports whether the next change is needed at once, and returns a channel that is
	// closed when this may have changed. No query is then held, because a hanging server would hold
	// it, too: queries are short, and hurriedGap apart. Default: never.
	Hurried func() (hurried bool, changed <-chan struct{})
	Log     *slog.Logger
}

const (
	// hurriedTime is the time limit of one query in a hurry. Consul's servers answer within
	// milliseconds; a server that hangs, or has just lost its leader, costs at most this time.
	hurriedTime = time.Second
	// hurriedGap is the shortest time between two of them.
	hurriedGap = 200 * time.Millisecond
	// lateAnswer is how long after Consul's own limit the answer of a held query may come.
	lateAnswer = 2 * time.Second
)

// errHurry ends a held query when the answer is needed at once.
var errHurry = errors.New("the answer is needed soon")

// Pauses after failures, jittered by half: short enough for a restarted Consul, and long enough for
// one that is down for a day.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second
)

// pauses returns the growing pauses between failed attempts.
func pauses(last time.Duration) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(backoff.WithInitialInterval(firstPause), backoff.WithMultiplier(2),
		backoff.WithMaxInterval(last), backoff.WithMaxElapsedTime(0))
}

// Watch queries until the context ends, and returns its error. It follows Consul's rules for
// blocking queries (https://developer.hashicorp.com/consul/api-docs/features/blocking): it resets
// an index that went back, never sends the index 0 in a query that is to be held, and does not let
// the first query after a failure be held. It is not safe for concurrent use.
func (c *Client) Watch(ctx context.Context, w Watch) error {
	var (
		index  uint64
		wait   = w.Wait
		pause  = pauses(lastPause)
		silent = FailureLog{Log: w.Log}
	)
	if wait == 0 {
		wait = c.config.WaitTime
	}
	for {
		asked := time.Now()
		if w.hurried() {
			index = 0
		}
		meta, err := c.ask(ctx, w, index, wait)
		rest := w.Gap - time.Since(asked)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errHurry):
			index = 0
		case err != nil:
			silent.Failed("Consul does not tell: what is known stays in use", c.Explain(w.About, err))
			// The next query must be answered at once. Consul may have lost its data meanwhile and
			// restarted its index: a query with the old index would be held for the whole wait
			// time.
			index = 0
			rest = pause.NextBackOff()
		default:
			silent.Worked("Consul tells again")
			if index > 0 {
				// Not after a query without an index: a proxy may answer that one and fail the
				// next.
				pause.Reset()
			}
			index = nextIndex(index, meta.LastIndex)
		}
		hurried := w.hurried()
		if hurried && err == nil {
			rest = hurriedGap - time.Since(asked)
		} else if hurried {
			rest = min(rest, hurriedTime)
		}
		if err := pauseFor(ctx, rest); err != nil {
			return err
		}
	}
}

// hurried calls Hurried, if it is set.
func (w Watch) hurried() bool {
	if w.Hurried == nil {
		return false
	}
	hurried, _ := w.Hurried()
	return hurried
}

// ask sends one query. Its deadline includes Consul's wait time, Consul's random addition (a
// sixteenth), and the time of a call. The error is errHurry if the answer is needed sooner.
func (c *Client) ask(ctx context.Context, w Watch, index uint64, wait time.Duration) (*api.QueryMeta, error) {
	deadline := c.config.Timeout
	switch {
	case w.hurried():
		deadline = min(deadline, hurriedTime)
	case index > 0 && w.Hurried != nil:
		deadline = wait + wait/16 + min(deadline, lateAnswer)
	case index > 0:
		deadline += wait + wait/16
	}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	options := c.Query(ctx)
	options.WaitIndex, options.WaitTime = index, wait
	if w.Hurried == nil || index == 0 {
		return w.Ask(options)
	}
	held, release := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.awaitHurry(held, release)
	}()
	meta, err := w.Ask(options.WithContext(held))
	if errors.Is(context.Cause(held), errHurry) && err != nil {
		err = errHurry
	}
	release(nil)
	<-done
	return meta, err
}

// awaitHurry ends a query when the answer is needed at once.
func (w Watch) awaitHurry(ctx context.Context, end context.CancelCauseFunc) {
	for {
		hurried, changed := w.Hurried()
		if hurried {
			end(errHurry)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// nextIndex follows Consul's rules for indexes. If an index went back, for example after a restored
// snapshot, it starts over. 0 would make a query that is not held.
func nextIndex(before, got uint64) uint64 {
	switch {
	case got < before:
		return 0
	case got == 0:
		return 1
	}
	return got
}

// pauseFor waits; the error is the context's.
func pauseFor(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	if !pause.For(d, ctx.Done(), nil) {
		return ctx.Err()
	}
	return nil
}

// jitter returns between 3/4 of d and d.
func jitter(d time.Duration) time.Duration {
	return d - rand.N(d/4+1)
}
