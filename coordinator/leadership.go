package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/bursar/bursar/coordinator/election"
	"github.com/bursar/bursar/coordinator/store"
)

// leadership takes part in the election, and leads when it is this coordinator's turn. The store has the last word on who
// leads: a term is no more than the permission to ask it.
type leadership struct {
	election election.Election
	writer   *writer
	latest   func() uint64 // the last epoch that anybody is known to have led in
	log      *slog.Logger
}

// resignTime bounds what handing over may take: after it the others find out by themselves.
const resignTime = 2 * time.Second

// run campaigns until the writer's loop has ended. What became of the first attempt to lead is told to first, which holds one.
func (l *leadership) run(ctx context.Context, first chan<- error) {
	retry := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0))
	for {
		term, err := l.election.Campaign(ctx)
		if err == nil {
			var led bool
			if led, err = l.serve(ctx, term, first); led {
				retry.Reset()
			}
			l.resign(ctx, term)
		}
		if ctx.Err() != nil || l.writer.ended() {
			return
		}
		if err == nil {
			continue
		}
		wait := retry.NextBackOff()
		l.log.Error("cannot lead", "error", err, "retry_in", wait)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// serve leads for as long as the term lasts and the store lets it. A leadership that was lost is followed by another one: what was
// lost may have been a connection. Where that cannot begin the term is better given to somebody else, and err says why.
func (l *leadership) serve(ctx context.Context, term election.Term, first chan<- error) (led bool, err error) {
	for {
		tenure := l.writer.lead(l.latest() + 1)
		select {
		case meta := <-tenure.began:
			led = true
			tell(first, nil)
			if err := term.Announce(ctx, meta.Epoch, meta.StoreID); err != nil && ctx.Err() == nil {
				l.log.Warn("the others were not told who leads", "epoch", meta.Epoch, "error", err)
			}
		case err := <-tenure.over:
			tell(first, err)
			return led, err
		case <-term.Over():
			l.writer.stepDown()
			return led, nil
		case <-l.writer.done:
			return led, nil
		}
		select {
		case err := <-tenure.over:
			if errors.Is(err, store.ErrDeposed) { // somebody has been elected since
				return led, nil
			}
		case <-term.Over():
			l.log.Warn("the lock on the lead was lost")
			l.writer.stepDown()
			return led, nil
		case <-l.writer.done:
			return led, nil
		}
	}
}

func tell(first chan<- error, err error) {
	select {
	case first <- err:
	default: // it has been told
	}
}

// resign lets somebody else lead at once.
func (l *leadership) resign(ctx context.Context, term election.Term) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignTime)
	defer cancel()
	if err := term.Resign(ctx); err != nil {
		l.log.Warn("the lead was not handed over: the others wait until the lock runs out", "error", err)
	}
}
