package machine

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/bursar/bursar/agent/loops"
	"github.com/bursar/bursar/internal/command"
	"github.com/bursar/bursar/internal/spelling"
)

// errNotYet is the problem of a host until its health command has ended for the first time.
var errNotYet = errors.New("has not ended yet")

// HealthLoop runs the health command of the settings. One goroutine runs the loop; any may ask for
// the problem.
type HealthLoop struct {
	// run runs the command, and returns why the host is not fit.
	run func(ctx context.Context, of HealthSettings) error
	// changed is called if another problem is there, or none any more.
	changed func()
	log     *slog.Logger
	due     *loops.Wakeup

	mu       sync.Mutex
	settings HealthSettings // guarded by mu
	err      error          // guarded by mu; of the last run
	// undead is closed when the last run, which could not be killed, has ended; nil: there is none.
	// Only the loop uses it.
	undead <-chan struct{}
}

// NewHealthLoop returns a loop without a command yet. changed is called if another problem is
// there, or none any more.
func NewHealthLoop(now time.Time, log *slog.Logger, changed func()) *HealthLoop {
	return &HealthLoop{run: checkHealth, changed: changed, log: log, due: loops.NewWakeup(now)}
}

// Use replaces the command. Until another one has ended for the first time, the host is as fit as
// the one before has said; at the start it is not.
func (h *HealthLoop) Use(now time.Time, wanted HealthSettings) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if wanted == h.settings {
		return
	}
	switch {
	case wanted == HealthSettings{}:
		h.err = nil
	case h.settings == HealthSettings{}:
		h.err = errNotYet
	}
	h.settings = wanted
	h.due.BringForward(now)
}

// Problem is why the health command keeps engines off the host; empty if it does not.
func (h *HealthLoop) Problem() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		return ""
	}
	return "health command: " + h.err.Error()
}

// Loop runs the command when it is due, until ctx ends.
func (h *HealthLoop) Loop(ctx context.Context) error {
	for h.due.Wait(ctx) {
		of := h.next(time.Now())
		if of == (HealthSettings{}) || h.lingers() {
			continue
		}
		err := h.run(ctx, of)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the agent ends, which says nothing about the host
		}
		h.note(of, err)
	}
	return nil
}

// next is the command to run now, and sets when the loop is due again.
func (h *HealthLoop) next(now time.Time) HealthSettings {
	h.mu.Lock()
	defer h.mu.Unlock()
	interval := h.settings.interval
	if interval == 0 {
		interval = time.Hour // use brings it forward
	}
	h.due.Set(now.Add(interval), now)
	return h.settings
}

// lingers reports whether a command that was killed is still there.
func (h *HealthLoop) lingers() bool {
	if h.undead == nil {
		return false
	}
	select {
	case <-h.undead:
		h.undead = nil
		return false
	default:
		return true
	}
}

// note takes the outcome of a run.
func (h *HealthLoop) note(of HealthSettings, err error) {
	if undead, is := errors.AsType[*command.UndeadError](err); is {
		h.undead = undead.Gone
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if of != h.settings {
		return // another command, or none, decides now
	}
	before := h.err
	h.err = err
	switch {
	case err == nil && before == nil, err != nil && before != nil && err.Error() == before.Error():
		return
	case err != nil:
		h.log.Warn("the health command says that this host is not fit: it takes no new engines", "error", err)
	default:
		h.log.Info("the health command says that this host is fit")
	}
	h.changed()
}

// unfitError is the line by which a health command says that its host is not fit.
type unfitError struct{ line string }

func (e *unfitError) Error() string { return e.line }

// checkHealth runs a health command to its end or its timeout. The error says why the host is not
// fit.
func checkHealth(ctx context.Context, of HealthSettings) error {
	printed, err := commandOutput(ctx, commandArgs(of.command), of.timeout)
	for line := range bytes.Lines(printed) {
		if bytes.HasPrefix(line, []byte("ERROR")) {
			text := spelling.Printable(strings.ToValidUTF8(string(bytes.TrimSpace(line)), "?"), ' ')
			said := &unfitError{spelling.Cut(text, maxProblem)}
			if undead, is := errors.AsType[*command.UndeadError](err); is {
				return &command.UndeadError{Cause: said, Gone: undead.Gone}
			}
			return said
		}
	}
	if err != nil {
		return err
	}
	return nil
}
