package serve

import (
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/bursar/bursar/agent"
	"github.com/bursar/bursar/agent/statefile"
	"github.com/bursar/bursar/coordinator"
	"github.com/bursar/bursar/coordinator/election"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/opener"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/discovery/consul"
	"github.com/bursar/bursar/internal/regularfile"
	"github.com/bursar/bursar/internal/yamlfile"
	"github.com/bursar/bursar/label"
)

const (
	// slowestRetry is the most time between two attempts to start.
	slowestRetry = 5 * time.Second
	// remindEvery is how often a fault that stays the same is logged again.
	remindEvery = time.Minute
	// longestReason is how much of a fault the status of a service shows, in bytes.
	longestReason = 200
)

// transientError marks a fault of a start that time may mend, if the error's own chain does not
// tell.
type transientError struct {
	error

	cause error // what was explained
}

func (e *transientError) Unwrap() error { return e.error }

// transient marks the error of a file if it may be there, or readable, later.
func transient(explained, cause error) error {
	if regularfile.Transient(cause) {
		return &transientError{explained, cause}
	}
	return explained
}

// isTransient reports whether time may mend a fault of a start: a start goes on trying then. It is
// false only for faults that a person has to put right: files with a wrong content, the command
// line, a newer schema, the store of another cluster.
func isTransient(err error) bool {
	var (
		marked        *transientError
		later         *coordinator.TransientConfigError
		file          *credential.FileError
		toRead        *coordinator.FileError
		other         *election.StoreError
		garbled       *election.IDError
		refused       *store.RefusedError
		exit          *failure.ExitError
		usage         *failure.UsageError
		located       *yamlfile.Error
		newer         *statefile.VersionError
		ofConsul      *consul.ConfigError
		ofAgent       *agent.ConfigError
		ofCoordinator *coordinator.ConfigError
		ofLabels      *label.FieldError
	)
	switch {
	case err == nil, errors.As(err, &other):
		return false
	case errors.As(err, &marked), errors.As(err, &later):
		return true
	case errors.As(err, &refused):
		return refusalIsTransient(refused)
	case errors.As(err, &file):
		return file.Transient()
	case errors.As(err, &toRead):
		return regularfile.Transient(toRead.Err)
	case errors.As(err, &garbled), consul.Refused(err):
		return true
	}
	return !errors.As(err, &exit) && !errors.As(err, &usage) && !errors.As(err, &located) && !errors.As(err, &newer) &&
		!errors.As(err, &ofConsul) && !errors.As(err, &ofAgent) && !errors.As(err, &ofCoordinator) && !errors.As(err, &ofLabels)
}

// refusalIsTransient is isTransient for a store that was refused. A database may be restored,
// promoted or granted at the moment. Nobody changes a file, but its file system may not be there
// yet.
func refusalIsTransient(refused *store.RefusedError) bool {
	switch refused.Reason {
	case store.InUse, store.Unfinished:
		return true
	case store.Denied, store.Foreign, store.Damaged:
		return opener.IsDatabase(refused.Where) || refused.Where == "PostgreSQL" || regularfile.Transient(refused.Err) ||
			errors.Is(refused.Err, store.ErrReadOnly) || errors.Is(refused.Err, store.ErrFull) || errors.Is(refused.Err, store.ErrIO)
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

// startsLater describes, in one line, a start that waits.
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
