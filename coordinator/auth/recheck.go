package auth

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// ErrRightsChanged ends a stream that was opened with other rights: what it shows was cut down to
// those.
var ErrRightsChanged = errors.New("the caller's rights have changed: call again")

// revokedError ends a stream if its caller would not be let in any more.
type revokedError struct{ err error }

func (e *revokedError) Error() string { return e.err.Error() }

// Unwrap returns the refusal.
func (e *revokedError) Unwrap() error { return e.err }

// recheck admits a request once more. Meanwhile a token may have been revoked, a certificate may
// have expired, its CA may have gone, or an identity may have got another role.
func (a *authenticator) recheck(r *http.Request, before *Caller) error {
	now, err := a.admit(r)
	switch {
	case err != nil:
		return err
	case now.Actor.Encode() != before.Actor.Encode():
		return ErrRightsChanged
	default:
		return nil
	}
}

// watchRights ends the context of a stream when its caller's credentials do not hold any more. It
// does so whether the stream is answered here or passed on to the leader, who does not know the
// credentials. stop must be called with how the stream ended, and returns why.
func (a *Auditor) watchRights(ctx context.Context, c *Caller) (_ context.Context, stop func(error) error) {
	if c.recheck == nil {
		return ctx, func(err error) error { return err }
	}
	ctx, end := context.WithCancelCause(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		tick := time.NewTicker(a.time.Recheck)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if err := c.recheck(); err != nil {
					end(&revokedError{err})
					return
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return ctx, func(err error) error {
		end(nil)
		watcher.Wait()
		if revoked, ok := errors.AsType[*revokedError](context.Cause(ctx)); ok && err != nil {
			return revoked.err
		}
		return err
	}
}
