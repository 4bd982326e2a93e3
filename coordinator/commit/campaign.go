package commit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/election"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/internal/pause"
)

// Campaign takes part in the election, and leads when this coordinator wins. The store finally
// decides who leads: a term is only the permission to ask the store.
type Campaign struct {
	Election  election.Election
	Loop      *Loop
	Announced func() []uint64 // returns the announced epochs
	// Unreached reports whether no caller has reached this coordinator for long, since it began to
	// lead, although others could. It is called every second while it leads. Nil: never.
	Unreached func(since time.Time) bool
	Log       *slog.Logger
}

const (
	// resignTime bounds the handover: after it the others find out by themselves.
	resignTime = 2 * time.Second
	// steadyAfter is how long a leadership must last for its end not to count as another failure to
	// lead. Otherwise a ledger that cannot go on, or another leader on the same store, would keep
	// this coordinator loading for ever.
	steadyAfter = 10 * time.Second
	// unreachedRest is how long an unreachable coordinator leaves the lead to others: long enough
	// that it does not take the lead back as soon as the lock is free.
	unreachedRest = 30 * time.Second
)

// Run campaigns until the loop has ended, or until a permanent error, which it returns. It sends
// the outcome of the first attempt to lead to first, a channel with a buffer of one.
func (c *Campaign) Run(ctx context.Context, first chan<- error) error {
	retry := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0))
	for {
		term, err := c.Election.Campaign(ctx)
		if err == nil {
			began := time.Now()
			err = c.lead(ctx, term, first)
			c.Loop.setUnled(err)
			c.resign(ctx, term)
			if time.Since(began) > steadyAfter {
				retry.Reset()
			}
		}
		if ctx.Err() != nil || c.Loop.hasEnded() {
			return nil //nolint:nilerr // this is the regular end
		}
		if election.Permanent(err) {
			return err
		}
		wait := retry.NextBackOff()
		if errors.Is(err, errUnreached) {
			wait = unreachedRest
		}
		c.Log.Warn("does not lead", "reason", err, "campaigns_in", wait)
		if !pause.For(wait, c.Loop.done, ctx.Done()) {
			return nil
		}
	}
}

// errLockLost ends a leadership whose term is over.
var errLockLost = errors.New("the lock on the lead was lost in Consul")

// errUnreached ends the leadership of a coordinator that only Consul and the store can reach.
var errUnreached = errors.New("no caller and no other coordinator has reached this coordinator, although others are there: they shall lead; see its address and the network")

// lead leads for as long as the term lasts and the store allows it, and returns the reason of the
// end. If a leadership ends by a fault of this coordinator itself, it tries another one. It does
// not if the store does not answer, or if another coordinator has begun to lead: then a coordinator
// with a better connection to the store should lead.
func (c *Campaign) lead(ctx context.Context, term election.Term, first chan<- error) error {
	faults := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(50*time.Millisecond), backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0))
	for {
		began := time.Now()
		leadership := c.Loop.Lead(c.Announced()...)
		select {
		case meta := <-leadership.Began:
			c.Loop.setUnled(nil)
			reportFirst(first, nil)
			announcing, stop := context.WithCancel(ctx)
			announced := make(chan struct{})
			go func() {
				defer close(announced)
				c.announce(announcing, term, meta)
			}()
			again, err := c.awaitEnd(term, leadership)
			c.Loop.setEnded(meta.Epoch, err)
			stop()
			<-announced // otherwise the announcement could come after the term
			if !again {
				return err
			}
			if time.Since(began) > steadyAfter {
				faults.Reset()
			} else if !pause.For(faults.NextBackOff(), term.Over(), c.Loop.done) {
				continue // the next attempt finds the reason
			}
		case err := <-leadership.over:
			if isFault(err) || errors.Is(err, core.ErrUnproven) {
				// the next attempt refuses a stored request, or loads the whole store
				pause.For(faults.NextBackOff(), term.Over(), c.Loop.done)
				continue
			}
			reportFirst(first, err)
			return err
		case <-term.Over():
			c.Loop.StepDown()
			return errLockLost
		case <-c.Loop.done:
			return core.ErrStopping
		}
	}
}

// awaitEnd waits for the end of a leadership, and returns its reason. again says that another
// leadership may follow in the same term.
func (c *Campaign) awaitEnd(term election.Term, leadership *Term) (again bool, why error) {
	began := time.Now()
	unreached, stop := c.watchUnreached(began)
	defer stop()
	select {
	case <-unreached:
		c.Loop.StepDown()
		return false, errUnreached
	case err := <-leadership.over:
		switch {
		case errors.Is(err, store.ErrDeposed):
			return false, fmt.Errorf("another coordinator has begun to lead on this store (if that repeats, two clusters share it, or two coordinators are alone on it): %w", err)
		case isFault(err):
			// the loop now refuses the request that caused it: no other coordinator needs to find
			// that out
			return true, err
		case errors.Is(err, store.ErrUnknownOutcome), errors.Is(err, store.ErrAway), errors.Is(err, context.DeadlineExceeded),
			time.Since(began) < steadyAfter:
			return false, err
		}
		return true, err
	case <-term.Over():
		c.Loop.StepDown()
		return false, errLockLost
	case <-c.Loop.done:
		return false, core.ErrStopping
	}
}

// watchUnreached closes a channel once Unreached returns true. stop ends the watch, and waits for
// its goroutine.
func (c *Campaign) watchUnreached(began time.Time) (unreached <-chan struct{}, stop func()) {
	found, end, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for c.Unreached != nil && pause.For(time.Second, end, nil) {
			if c.Unreached(began) {
				close(found)
				return
			}
		}
	}()
	return found, func() { close(end); <-ended }
}

// isFault reports whether the ledger panicked over a known command.
func isFault(err error) bool {
	fault, ok := errors.AsType[*core.PanicError](err)
	return ok && fault.Refused != ""
}

// announce announces the leader, and retries until it succeeds: until then every caller takes a
// detour.
func (c *Campaign) announce(ctx context.Context, term election.Term, meta store.Meta) {
	retry := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMaxInterval(2*time.Second), backoff.WithMaxElapsedTime(0))
	for said := false; ; said = true {
		err := term.Announce(ctx, meta.Epoch, meta.StoreID)
		if err == nil || ctx.Err() != nil {
			return
		}
		if !said {
			c.Log.Warn("the others were not told who leads: trying again", "epoch", meta.Epoch, "error", err)
		}
		if !pause.For(retry.NextBackOff(), term.Over(), ctx.Done()) {
			return
		}
	}
}

func reportFirst(first chan<- error, err error) {
	select {
	case first <- err:
	default: // it was sent before
	}
}

// resign releases the lock, so that another coordinator can lead at once.
func (c *Campaign) resign(ctx context.Context, term election.Term) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignTime)
	defer cancel()
	if err := term.Resign(ctx); err != nil {
		c.Log.Warn("the lead was not handed over: the others wait until the lock runs out", "error", err)
	}
}
