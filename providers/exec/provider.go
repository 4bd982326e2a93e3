package exec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"sync"
	"syscall"

	"github.com/bursar/bursar/internal/command"
	"github.com/bursar/bursar/internal/regularfile"
	"github.com/bursar/bursar/providers"
)

// kind opens providers of this machine.
type kind struct{ machine func() machine }

// Kind returns the kind of external system that runs a command. It has the settings in Settings and
// in providers.PaceSettings.
func Kind() providers.Kind { return kind{thisMachine} }

// Name is "exec".
func (kind) Name() string { return "exec" }

// FileOnly marks the kind.
func (kind) FileOnly() {}

// FullPaths marks the kind.
func (kind) FullPaths() {}

// Terms returns the user label of valid settings.
func (kind) Terms(given map[string]string) providers.Terms {
	s, err := parseSettings(given)
	if err != nil {
		return providers.Terms{}
	}
	return providers.Terms{UserLabel: s.userLabel}
}

// Check validates the settings without looking at this machine.
func (kind) Check(given map[string]string) error {
	_, err := parseSettings(given)
	return err
}

// CheckHere rejects a user that this machine does not have. A user database in the network may be
// unreachable at the moment; that is not a fault of the settings.
func (k kind) CheckHere(given map[string]string) error {
	s, err := parseSettings(given)
	if err != nil || s.user == "" {
		return err
	}
	_, err = k.machine().lookUp(s.user)
	_, noName := errors.AsType[user.UnknownUserError](err)
	_, noID := errors.AsType[user.UnknownUserIdError](err)
	if noName || noID {
		return &providers.SettingError{Setting: settingUser, Value: s.user, Want: fmt.Sprintf("%s (%v)", wantUser, err)}
	}
	return nil
}

// Files returns none: only the operator's file may set a command, and a command chooses its own
// input files.
func (kind) Files() []string { return nil }

// Open looks up the user. It does not run the command.
func (k kind) Open(_ string, given map[string]string) (providers.Provider, error) {
	s, err := parseSettings(given)
	if err != nil {
		return nil, err
	}
	here := k.machine()
	credential, err := here.account(s.user)
	if err != nil {
		return nil, err
	}
	p := &Provider{
		settings: s, uid: uint32(here.uid), //nolint:gosec // an id
		command: command.Command{
			Args: s.command, Dir: s.directory, Env: s.environment(here.variable), Credential: credential, MaxOutput: s.maxBytes,
		},
	}
	p.command.Check = p.check
	return p, nil
}

// Provider reads one system by running a command.
type Provider struct {
	settings settings
	uid      uint32 // of this process
	command  command.Command

	mu sync.Mutex // guards the fields below; held while the command runs
	// applications are the applications that the last run listed; nil if it printed no list.
	applications map[string]providers.Application
	// undead is closed when a command that could not be killed has ended; nil if there is no such
	// command.
	undead <-chan struct{}
}

// CommandError reports why a command gave no answer.
type CommandError struct {
	// Path is the program.
	Path string
	Err  error
	// Said is the end of the command's standard error; empty if it printed nothing there.
	Said string
}

func (e *CommandError) Error() string {
	text := e.Path + ": " + e.Err.Error()
	if e.Said != "" {
		text += ": " + e.Said
	}
	return text
}

// Unwrap returns the cause.
func (e *CommandError) Unwrap() error { return e.Err }

// Snapshot runs the command and decodes its output, within the setting timeout and the deadline of
// ctx. The error is a *CommandError. It contains an *AnswerError if the command ran but its output
// is invalid.
func (p *Provider) Snapshot(ctx context.Context) (providers.Snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.applications = nil
	answer, said, err := p.run(ctx)
	if err != nil {
		return providers.Snapshot{}, &CommandError{p.path(), err, said}
	}
	snapshot := providers.Snapshot{
		Server: answer.Server, Incarnation: answer.Incarnation, Untrusted: answer.Untrusted, Queues: answer.Queues,
		Unaddressable: answer.Unaddressable, MoreUnaddressable: answer.MoreUnaddressable,
	}
	if snapshot.Server == "" {
		snapshot.Server = p.path()
	}
	if answer.ListsApplications {
		p.applications = make(map[string]providers.Application, len(answer.Applications))
		for _, a := range answer.Applications {
			p.applications[a.ID] = a
		}
	}
	return snapshot, nil
}

func (p *Provider) path() string { return p.settings.command[0] }

// run runs the command once.
func (p *Provider) run(ctx context.Context) (*Answer, string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.settings.pace.Timeout, fmt.Errorf("no answer within %s", p.settings.pace.Timeout))
	defer cancel()
	if p.lingers() {
		return nil, "", errors.New("its last run hangs in the kernel and cannot be killed; it runs again when that one has ended")
	}
	printed, err := p.command.Run(ctx)
	if undead, is := errors.AsType[*command.UndeadError](err); is {
		p.undead = undead.Gone
	}
	if err != nil {
		return nil, printed.Errors, p.explain(err)
	}
	answer, err := Decode(printed.Output)
	return answer, printed.Errors, err
}

// explain adds the likely remedy to errors that do not suggest one.
func (p *Provider) explain(err error) error {
	as := "the coordinator's user"
	if p.settings.user != "" {
		as = fmt.Sprintf("user %q", p.settings.user)
	}
	_, tooMuch := errors.AsType[*command.TooMuchError](err)
	_, notStarted := errors.AsType[*command.StartError](err)
	switch {
	case tooMuch:
		return fmt.Errorf("%w: want less, or more in the setting %s", err, settingMaxBytes)
	case !notStarted:
		return err
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w: want that %s may execute it, and enter its folder and %s", err, as, p.settings.directory)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%w: want a program of this machine, or a script with #! and its interpreter in the first line", err)
	case errors.Is(err, syscall.ENOENT): // check has found the program itself
		return fmt.Errorf("%w: want the interpreter that its first line names (#!), and no carriage return at the end of that line", err)
	case errors.Is(err, syscall.EPERM):
		return fmt.Errorf("%w: want that the coordinator may become %s (of a systemd unit: CapabilityBoundingSet, SystemCallFilter)", err, as)
	default:
		return err
	}
}

// lingers reports whether a killed command still exists.
func (p *Provider) lingers() bool {
	if p.undead == nil {
		return false
	}
	select {
	case <-p.undead:
		p.undead = nil
		return false
	default:
		return true
	}
}

// check checks the program file and the working directory.
func (p *Provider) check() error {
	if err := regularfile.GuardedProgram(p.path(), p.uid); err != nil {
		return fmt.Errorf("it does not run: %w", err)
	}
	info, err := os.Stat(p.settings.directory)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no directory", p.settings.directory)
	}
	if err != nil {
		return fmt.Errorf("its working directory: %w", err)
	}
	return nil
}

// errNoList reports that the output has no list of applications.
var errNoList = errors.New(`the command prints no "applications", so what they hold counts twice: once as used in the queue, and once as granted`)

// Applications answers from the last Snapshot. If the command lists applications, an application
// that is not in the list is unknown.
func (p *Provider) Applications(_ context.Context, ids []string) ([]providers.Application, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.applications == nil {
		return nil, errNoList
	}
	wanted := slices.Compact(slices.Sorted(slices.Values(ids)))
	list := make([]providers.Application, 0, len(wanted))
	for _, id := range wanted {
		a, known := p.applications[id]
		if !known {
			a = providers.Application{ID: id}
		}
		list = append(list, a)
	}
	return list, nil
}

// Servers returns the path of the program, and an error if it may not run. It does not run the
// program.
func (p *Provider) Servers(context.Context) []providers.Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	return []providers.Server{{Address: p.path(), Err: p.check()}}
}

// Close does nothing: the provider keeps nothing open.
func (p *Provider) Close() error { return nil }
