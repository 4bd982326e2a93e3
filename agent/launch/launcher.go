package launch

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/agent/keeper"
	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/internal/osuser"
)

const (
	// StartTimeout bounds Start: a home directory on a slow network takes most of the time.
	StartTimeout = 30 * time.Second
	// stderrLines is the number of last lines of an engine's standard error that are kept.
	stderrLines = 20
	// The defaults of logs.
	defaultLogBytes = 64 << 20
	defaultLogKeep  = 3
	// maxAnswer bounds a keeper's answer, in bytes.
	maxAnswer = 64 << 10
)

// The values of oom_score_adj, which order the kernel's kills: an engine is like any process, its
// keeper comes last.
const (
	engineScore = "0"
	keeperScore = "-900"
)

// FieldError names the invalid field of a Request, by the name that the field has in a
// LaunchRequest.
type FieldError struct {
	Field, Value, Want string
	Err                error
	// Fault is set if the program could not be executed.
	Fault keeper.Fault
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: %q: %v: want %s", e.Field, e.Value, e.Err, e.Want)
}

// Unwrap returns what was found wrong.
func (e *FieldError) Unwrap() error { return e.Err }

// LogDirError says that the user of an engine cannot write to the folder that the agent has made
// for its logs. The caller has named no folder, so the operator must mend this.
type LogDirError struct {
	LogDir string // as in Launcher
	User   string
	Err    error
}

func (e *LogDirError) Error() string {
	return fmt.Sprintf("engines.logDir: %q: want a folder that user %s may enter, and so all above it (chmod o+x), or logs.directory in the request (--log-dir): %v",
		e.LogDir, e.User, e.Err)
}

// Unwrap returns the cause.
func (e *LogDirError) Unwrap() error { return e.Err }

// Request describes an engine to start.
type Request struct {
	// ID is the id of the allocation. It names folders: cgroup.CheckID must accept it.
	ID   string
	User osuser.User
	// Command, Environment, WorkingDirectory and Logs are as in a LaunchRequest, with its
	// defaults.
	Command          []string
	Environment      map[string]string
	WorkingDirectory string
	Logs             Logs
	// Script, if not empty, is executed in place of a program, and Command has its arguments.
	Script []byte
	// RequiredVariables must be set and not empty, and RequiredFiles must exist, as User sees them.
	// Otherwise the keeper executes nothing.
	RequiredVariables, RequiredFiles []string
	// Unchangeable refuses a program that User can change, also the program of Look.
	Unchangeable bool
	// Limits are the limits of the engine's cgroup; nil if it needs no cgroup of its own.
	Limits *cgroup.Limits
	// Added are variables that the agent sets. They replace variables of Environment.
	Added map[string]string
	// Note is kept next to the record.
	Note Note
	// Look describes the check by which a helper of the keeper finds out whether the engine is
	// ready. Package ready makes it. Nil means no check.
	Look *keeper.Look
}

// Logs are the destinations of an engine's output.
type Logs struct {
	Directory string
	MaxBytes  int64
	Keep      *int32
}

// Launcher starts keepers.
type Launcher struct {
	// Spawner starts the keepers, and Keeper is their program.
	Spawner Spawner
	Keeper  string
	// Records is the directory of their records.
	Records Records
	// LogDir is the parent of the folders of logs for engines that name none.
	LogDir string
	// Spawned, if not nil, is called as soon as a keeper runs and before it starts an engine.
	Spawned func(Spawned)
}

// Starting is an engine that waits for Confirm, and ends without it.
type Starting struct {
	// PID, StartTime and Cgroup belong to the engine. PID and StartTime come from the keeper, which
	// is a process of the user.
	PID       int32
	StartTime uint64
	Cgroup    string
	// LogDir is the folder of its output.
	LogDir string
	// Keeper is its keeper.
	Keeper Spawned

	keeper  *os.File // the pipe from which the keeper reads
	answers *os.File // the pipe on which the keeper reports whether the engine has begun
}

// Start starts an engine. The error is a *FieldError if the request is wrong, and a *LogDirError if
// LogDir is wrong. After an error no process is left, and after Abandon all end soon, unless the
// keeper is held: its user may stop it with a signal, and a file system may hang. If a keeper is
// left after an error, the result holds only this keeper.
func (l *Launcher) Start(ctx context.Context, r Request) (*Starting, error) {
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	if err := cgroup.CheckID(r.ID); err != nil {
		return nil, fmt.Errorf("allocation: %w", err)
	}
	spec, err := l.spec(r)
	if err != nil {
		return nil, err
	}
	r.Note.LogDirectory = spec.Log.Directory
	record, err := l.Records.create(r.ID, r.Note)
	if err != nil {
		return nil, err
	}
	defer record.Close()
	s, err := l.start(ctx, r, spec, record)
	if err != nil {
		return s, errors.Join(err, l.Records.Remove(r.ID))
	}
	return s, nil
}

// spec fills in the defaults, and makes the folder for logs if none is named.
func (l *Launcher) spec(r Request) (keeper.Spec, error) {
	spec := keeper.Spec{
		ID: r.ID, Command: r.Command, Environment: environment(r), WorkingDirectory: cmp.Or(r.WorkingDirectory, r.User.Home),
		Log: keeper.Log{Directory: r.Logs.Directory, MaxBytes: r.Logs.MaxBytes, Keep: defaultLogKeep}, StderrLines: stderrLines, Hold: true,
		Look: r.Look, Script: r.Script, RequiredFiles: r.RequiredFiles, Unchangeable: r.Unchangeable,
	}
	if len(r.Script) > 0 {
		spec.Command = append([]string{keeper.ScriptName}, r.Command...)
	}
	if err := checkRequired(r.RequiredVariables, spec.Environment); err != nil {
		return keeper.Spec{}, err
	}
	if spec.Log.MaxBytes == 0 {
		spec.Log.MaxBytes = defaultLogBytes
	}
	if r.Logs.Keep != nil {
		spec.Log.Keep = int(*r.Logs.Keep)
	}
	if len(spec.Command) == 0 || spec.Command[0] == "" {
		return keeper.Spec{}, &FieldError{Field: keeper.FieldCommand, Want: "an absolute path, or a program in the PATH of environment", Err: errors.New("is empty")}
	}
	if spec.Log.Directory == "" {
		spec.Log.Own = true
		var err error
		if spec.Log.Directory, err = makeLogs(l.LogDir, r.ID, r.User); err != nil {
			return keeper.Spec{}, err
		}
	}
	return spec, nil
}

// start spawns a keeper, hands it the spec and reads its answer.
func (l *Launcher) start(ctx context.Context, r Request, spec keeper.Spec, record *os.File) (*Starting, error) {
	input, toKeeper, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start keeper: %w", err)
	}
	defer input.Close()
	answers, output, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start keeper: %w", err), toKeeper.Close())
	}
	defer output.Close()
	spawned, err := l.Spawner.Spawn(ctx, Spawn{
		ID: r.ID, User: r.User, Stdin: input, Stdout: output, Record: record, Keeper: l.Keeper, Limits: r.Limits,
	})
	if err != nil {
		return nil, errors.Join(err, toKeeper.Close(), answers.Close())
	}
	// Now only the keeper has the other ends, so the launcher notices its end.
	_, _ = input.Close(), output.Close() // the deferred ones do nothing then
	if l.Spawned != nil {
		l.Spawned(spawned)
	}
	spec.OwnCgroup = spawned.Cgroup != ""
	score := openScore(spawned.PID)
	defer score.close()
	// This comes before the engine's start, because the engine inherits the score and the bound to
	// which it may be lowered.
	score.set(engineScore)
	started, err := exchange(ctx, toKeeper, answers, spec)
	if wrong, is := errors.AsType[*FieldError](err); is && wrong.Field == keeper.FieldLogs && r.Logs.Directory == "" {
		err = &LogDirError{l.LogDir, r.User.Name, wrong.Err}
	}
	if err != nil {
		return &Starting{Keeper: spawned}, errors.Join(err, toKeeper.Close(), answers.Close())
	}
	if spec.Look == nil {
		score.set(keeperScore)
	}
	return &Starting{
		PID: started.PID, StartTime: started.StartTime, Cgroup: spawned.Cgroup, LogDir: spec.Log.Directory, Keeper: spawned, keeper: toKeeper, answers: answers,
	}, nil
}

// exchange sends the spec and reads the answer.
func exchange(ctx context.Context, to, from *os.File, spec keeper.Spec) (keeper.Started, error) {
	stop := context.AfterFunc(ctx, func() {
		past := time.Unix(1, 0)
		_, _ = to.SetDeadline(past), from.SetDeadline(past) // pipes have deadlines
	})
	defer stop()
	line, err := keeper.Encode(spec)
	if err != nil {
		return keeper.Started{}, fmt.Errorf("keeper: %w", err)
	}
	// A keeper that ends before it has read the whole spec has sent the reason.
	if _, err := to.Write(line); err != nil && !errors.Is(err, syscall.EPIPE) {
		return keeper.Started{}, fmt.Errorf("keeper: %w", orOf(ctx, err))
	}
	return readStarted(ctx, from)
}

// readStarted reads an answer byte by byte, because another one may follow.
func readStarted(ctx context.Context, from *os.File) (keeper.Started, error) {
	answer, err := bufio.NewReader(io.LimitReader(oneByOne{from}, maxAnswer)).ReadBytes('\n')
	if err != nil {
		return keeper.Started{}, fmt.Errorf("keeper: %w", orOf(ctx, err))
	}
	started, err := keeper.DecodeStarted(answer)
	switch {
	case err != nil:
		return keeper.Started{}, fmt.Errorf("keeper: %w", err)
	case started.Error != "" && started.Field != "":
		return keeper.Started{}, &FieldError{started.Field, started.Value, started.Want, errors.New(started.Error), started.Fault()}
	case started.Error != "":
		return keeper.Started{}, fmt.Errorf("keeper: %s", started.Error)
	}
	return started, nil
}

// oneByOne reads a byte at a time, so that nothing is read ahead.
type oneByOne struct{ from io.Reader }

func (o oneByOne) Read(p []byte) (int, error) {
	return o.from.Read(p[:min(len(p), 1)]) //nolint:wrapcheck // a reader
}

// orOf returns the context's error if it has ended, otherwise err.
func orOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// begunPatience is how long Confirm waits for the keeper's report that the engine has begun. An
// exec may take longer, for example from a file system that does not answer.
const begunPatience = 5 * time.Second

// Confirm lets the engine begin and outlive the agent. An engine that has ended by now has left its
// record. The error is a *FieldError if the program cannot be executed; then the engine has ended.
// A keeper that does not answer is no error: the engine may have begun, and must not begin a second
// time.
func (s *Starting) Confirm(ctx context.Context) error {
	defer s.answers.Close()
	_, err := s.keeper.WriteString(keeper.Confirmed + "\n")
	if closeErr := s.keeper.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("keeper: %w", err)
	}
	_ = s.answers.SetDeadline(time.Now().Add(begunPatience)) // a pipe has deadlines
	_, err = readStarted(context.WithoutCancel(ctx), s.answers)
	if _, refused := errors.AsType[*FieldError](err); refused {
		return err
	}
	return nil
}

// Abandon makes the keeper end the engine: with SIGTERM, and SIGKILL after 10 s. It does not wait
// for the end.
func (s *Starting) Abandon() {
	_, _ = s.keeper.Close(), s.answers.Close() // keeper was only written, answers only read
}

// Protect makes the kernel choose a keeper last when memory is short, if its pid was not reused.
// The launcher itself protects the keeper of an engine without a check (Request.Look). Processes
// that the keeper starts later, such as the command of a check, would be protected too, so with a
// check the caller calls Protect once the check has a result.
func Protect(keeper process.Ref, is func(process.Ref) bool) {
	score := openScore(keeper.PID) // from here on the file belongs to this process, or to none
	defer score.close()
	if is(keeper) {
		score.set(keeperScore)
	}
}

// score is a process's oom_score_adj. Only root can lower it; without root it stays.
type score struct{ file *os.File }

func openScore(pid int32) score {
	file, err := os.OpenFile("/proc/"+strconv.Itoa(int(pid))+"/oom_score_adj", os.O_WRONLY, 0)
	if err != nil {
		return score{}
	}
	return score{file}
}

func (s score) set(value string) {
	if s.file != nil {
		_, _ = s.file.WriteAt([]byte(value), 0) // best effort
	}
}

func (s score) close() {
	if s.file != nil {
		_ = s.file.Close() // no buffered data can be lost
	}
}
