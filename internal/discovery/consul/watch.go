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

// Watch is a question that is asked again and again, each time to be answered when the answer is
// another one.
type Watch struct {
	// About is what it is about, for errors and logs.
	About string
	// Ask asks once, with these options, and takes what it learns. It returns an error for an
	// answer that cannot be right as well: nothing of that may be taken, and it is asked again
	// after a pause.
	Ask func(options *api.QueryOptions) (*api.QueryMeta, error)
	// Wait is how long Consul may hold the question; 0 is the configuration's.
	Wait time.Duration
	// Gap is the least time from one question to the next: it bounds the load if answers come all
	// the time.
	Gap time.Duration
	// Hurried reports whether the answer is needed as soon as it is another one, and a channel that
	// is closed when that may have changed. Then no question is held, since a server that hangs
	// would hold it, too: they are short, and follow each other at hurriedGap. Default: never.
	Hurried func() (hurried bool, changed <-chan struct{})
	Log     *slog.Logger
}

const (
	// hurriedTime is how long one question may take in a hurry. Consul's servers answer within
	// milliseconds; one that hangs, or has just lost its leader, costs no more than this.
	hurriedTime = time.Second
	// hurriedGap is the least time between two of them.
	hurriedGap = 200 * time.Millisecond
	// lateAnswer is how much later than Consul's own limit the answer to a held question may come.
	lateAnswer = 2 * time.Second
)

// errHurry ends a question that is held when the answer is needed soon.
var errHurry = errors.New("the answer is needed soon")

// Pauses after failures, jittered by half: soon enough for a Consul that was restarted, rare
// enough for one that is down for a day.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second
)

// pauses returns the growing pauses between attempts that fail.
func pauses(last time.Duration) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(backoff.WithInitialInterval(firstPause), backoff.WithMultiplier(2),
		backoff.WithMaxInterval(last), backoff.WithMaxElapsedTime(0))
}

// Watch asks until the context ends, and returns its error. It follows Consul's rules for blocking
// queries (https://developer.hashicorp.com/consul/api-docs/features/blocking): an index that went
// back is given up, an index is never 0 in a question that is to be held, and after a failure the
// next question is not held at all. One goroutine may use it.
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
			// The next question is answered at once. Consul may have lost its data meanwhile and
			// count from the beginning: a question with the earlier index would be held for its
			// whole wait.
			index = 0
			rest = pause.NextBackOff()
		default:
			silent.Worked("Consul tells again")
			if index > 0 {
				// Not after a question without an index, which may be answered by what fails the
				// one after it.
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

// hurried is Hurried with its default.
func (w Watch) hurried() bool {
	if w.Hurried == nil {
		return false
	}
	hurried, _ := w.Hurried()
	return hurried
}

// ask gives Consul the time to hold the question, what it adds to spread the answers (a
// sixteenth), and that of a call. The error is errHurry if the answer is needed sooner.
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

// awaitHurry ends a question when the answer is needed soon.
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

// nextIndex follows Consul's rules for its indexes. If an index went back, as after a restored
// snapshot, it begins again. 0 would make a question that does not wait.
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
