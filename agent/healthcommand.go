package agent

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

// The defaults of a HealthCommand.
const (
	DefaultHealthInterval = time.Minute
	DefaultHealthTimeout  = 10 * time.Second
)

// HealthCommand is a program that says whether the host is fit for engines, like YARN's node health
// script.
type HealthCommand struct {
	// Command is a program, by its absolute path, and its arguments. It is run without a shell. It
	// runs as the agent, with no input, in /, with PATH and LC_ALL=C as its environment. The host
	// is fit if it ends with code 0 and prints no line that begins with ERROR. Otherwise the host
	// takes no new engines, and shows that line, or how the command ended. Its engines go on.
	// Default: none.
	Command []string `yaml:"command"`
	// Interval is the time between two runs, 1s to 24h. Default 1m.
	Interval time.Duration `yaml:"interval"`
	// Timeout is how long a run may take, 10ms to 1m. Then it is killed with all that it started,
	// and the host is not fit. Default 10s.
	Timeout time.Duration `yaml:"timeout"`
}

// healthSettings is a HealthCommand that was found good; the zero value: none. It can be compared.
type healthSettings struct {
	command           string // as in commandText
	interval, timeout time.Duration
}

func (h HealthCommand) parse() (healthSettings, *ConfigError) {
	wrong := func(field, value, want string) (healthSettings, *ConfigError) {
		return healthSettings{}, &ConfigError{"healthCommand." + field, value, want}
	}
	if len(h.Command) == 0 && h.Interval == 0 && h.Timeout == 0 {
		return healthSettings{}, nil
	}
	if field, value, want := checkCommand(h.Command); field != "" {
		return wrong(field, value, want)
	}
	parsed := healthSettings{
		command:  commandText(h.Command),
		interval: orDefault(h.Interval, DefaultHealthInterval), timeout: orDefault(h.Timeout, DefaultHealthTimeout),
	}
	if field, value, want := checkPace(parsed.interval, parsed.timeout); field != "" {
		return wrong(field, value, want)
	}
	return parsed, nil
}

// errNotYet is the problem of a host until its health command has ended for the first time.
var errNotYet = errors.New("has not ended yet")

// healthLoop runs the health command of the settings. One goroutine runs the loop; any may ask for
// the problem.
type healthLoop struct {
	// run runs the command, and returns why the host is not fit.
	run func(ctx context.Context, of healthSettings) error
	// changed is called if another problem is there, or none any more.
	changed func()
	log     *slog.Logger
	due     *loops.Wakeup

	mu       sync.Mutex
	settings healthSettings // guarded by mu
	err      error          // guarded by mu; of the last run
	// undead is closed when the last run, which could not be killed, has ended; nil: there is none.
	// Only the loop uses it.
	undead <-chan struct{}
}

func newHealthLoop(now time.Time, log *slog.Logger, changed func()) *healthLoop {
	return &healthLoop{run: checkHealth, changed: changed, log: log, due: loops.NewWakeup(now)}
}

// use replaces the command. Until another one has ended for the first time, the host is as fit as
// the one before has said; at the start it is not.
func (h *healthLoop) use(now time.Time, wanted healthSettings) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if wanted == h.settings {
		return
	}
	switch {
	case wanted == healthSettings{}:
		h.err = nil
	case h.settings == healthSettings{}:
		h.err = errNotYet
	}
	h.settings = wanted
	h.due.BringForward(now)
}

// problem is why the health command keeps engines off the host; empty if it does not.
func (h *healthLoop) problem() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		return ""
	}
	return "health command: " + h.err.Error()
}

// loop runs the command when it is due, until ctx ends.
func (h *healthLoop) loop(ctx context.Context) error {
	for h.due.Wait(ctx) {
		of := h.next(time.Now())
		if of == (healthSettings{}) || h.lingers() {
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
func (h *healthLoop) next(now time.Time) healthSettings {
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
func (h *healthLoop) lingers() bool {
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
func (h *healthLoop) note(of healthSettings, err error) {
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
func checkHealth(ctx context.Context, of healthSettings) error {
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
