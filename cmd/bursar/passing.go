package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/bursar/bursar/coordinator"
	"github.com/bursar/bursar/coordinator/election"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/opener"
	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/discovery/consul"
)

const (
	// slowestRetry is the most time between two attempts to start.
	slowestRetry = 5 * time.Second
	// remindEvery is how often a fault that stays the same is logged again.
	remindEvery = time.Minute
	// longestReason is how much of a fault the status of a service shows, in bytes.
	longestReason = 200
)

// passingError marks a fault of a start that time may mend, if the error's own chain does not tell.
type passingError struct{ error }

func (e *passingError) Unwrap() error { return e.error }

// passing marks an error of a file that cannot be read: it may be there, or readable, later.
func passing(explained, cause error) error {
	var errno syscall.Errno
	if errors.As(cause, &errno) || errors.Is(cause, fs.ErrNotExist) || errors.Is(cause, fs.ErrPermission) {
		return &passingError{explained}
	}
	return explained
}

// passes reports whether time may mend a fault of a start: a start goes on trying then. What
// remains is for a person: files, the command line, a newer schema, another cluster's store.
func passes(err error) bool {
	var (
		marked  *passingError
		later   *coordinator.PassingError
		file    *credential.FileError
		other   *election.StoreError
		garbled *election.IDError
		refused *store.RefusedError
		sql     interface{ SQLState() string }
		network *net.OpError
		lookup  *net.DNSError
	)
	switch {
	case err == nil, errors.As(err, &other):
		return false
	case errors.As(err, &refused):
		return refusalPasses(refused)
	case errors.As(err, &marked), errors.As(err, &later), errors.As(err, &garbled), consul.Refused(err), errors.As(err, &sql),
		errors.As(err, &network), errors.As(err, &lookup):
		return true
	case errors.As(err, &file):
		return file.Passes()
	}
	for _, passing := range []error{
		store.ErrAway, store.ErrFull, store.ErrReadOnly, store.ErrIO,
		syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO, syscall.ESTALE, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM,
		syscall.EADDRINUSE, syscall.EADDRNOTAVAIL,
	} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}

// refusalPasses is passes for a store that was refused. A database may be restored, promoted or
// granted at the moment; nobody changes a file.
func refusalPasses(refused *store.RefusedError) bool {
	switch refused.Reason {
	case store.InUse, store.Unfinished:
		return true
	case store.Denied, store.Foreign, store.Damaged:
		return opener.IsDatabase(refused.Where) || refused.Where == "PostgreSQL" || refused.Err != nil && passes(refused.Err)
	case store.Newer, store.Older, store.OtherCluster, store.NotEmpty, store.OtherStore, store.Malformed:
	}
	return false
}

// attempts paces the attempts of a start, and logs why they fail.
type attempts struct {
	log    *slog.Logger
	now    func() time.Time
	pace   *backoff.ExponentialBackOff
	last   string // the fault that was logged last
	logged time.Time
}

func newAttempts(log *slog.Logger) *attempts {
	return &attempts{log: log, now: time.Now, pace: backoff.NewExponentialBackOff(backoff.WithMaxInterval(slowestRetry), backoff.WithMaxElapsedTime(0))}
}

// failed notes a fault, and returns how long to wait. It logs each fault once, and reminds of one
// that stays.
func (p *attempts) failed(err error) time.Duration {
	if text := err.Error(); text != p.last || p.now().Sub(p.logged) >= remindEvery {
		p.last, p.logged = text, p.now()
		p.log.Warn("the start waits for something that fails now: trying again", "error", err)
	}
	return p.pace.NextBackOff()
}

// wait waits; false if the context ends first.
func (p *attempts) wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// startsLater is what a start that waits says of itself in one line.
func startsLater(err error) string {
	if errors.Is(err, store.ErrAway) {
		return "starting; the store does not answer"
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > longestReason {
		text = strings.ToValidUTF8(text[:longestReason], "") + "…"
	}
	return "starting; " + text
}
