package auth

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// ErrRightsChanged ends a stream whose caller's rights have changed: its messages were filtered by
// the old rights.
var ErrRightsChanged = errors.New("the caller's rights have changed: call again")

// revokedError ends a stream whose caller would no longer be admitted.
type revokedError struct{ err error }

func (e *revokedError) Error() string { return e.err.Error() }

// Unwrap returns the refusal.
func (e *revokedError) Unwrap() error { return e.err }

// recheck authenticates and authorizes a request again. Meanwhile its token may have been revoked,
// its certificate may have expired, the CA may be gone, or the identity may have another role.
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

// watchRights ends the context of a stream when its caller's credentials are no longer valid, also
// if the stream is forwarded to the leader, which does not know the credentials. stop must be
// called with the error of the stream, and returns the cause.
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
