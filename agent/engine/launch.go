package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/once"
	"github.com/bursar/bursar/agent/ready"
	"github.com/bursar/bursar/agent/refusal"
	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/osuser"
	"github.com/bursar/bursar/internal/spelling"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Launch is an engine that is to be started. Its caller has found out that it may be.
type Launch struct {
	// Request has the command and its environment, Allocation is the reservation that it is started
	// in, and User the account that it runs as.
	Request    *bursarv1.LaunchRequest
	Allocation *bursarv1.Allocation
	User       osuser.User
	// Script is executed in place of a program; then the command has its arguments. Empty: there is
	// none.
	Script []byte
	// RequiredVariables and RequiredFiles must be there, as User sees them, or nothing is executed.
	RequiredVariables, RequiredFiles []string
	// Ready says when the engine is ready. Nil: as soon as it has begun.
	Ready *bursarv1.Readiness
	// Unchangeable refuses a program, also that of Ready, which User can change.
	Unchangeable bool
	// CallerUID is the uid of the caller, which may ask again, and Caller its name for the log.
	CallerUID uint32
	Caller    string
	// Coordinator confirms the engine in its caller's name.
	Coordinator Coordinator
}

// Coordinator is asked to confirm or release the engine of a launch. It says in whose name.
type Coordinator interface {
	// Confirm confirms the engine, notes the answer, and returns its allocation.
	Confirm(ctx context.Context, request *bursarv1.ConfirmRequest) (*bursarv1.Allocation, error)
	// Release gives back the allocation of an engine that was confirmed and could not begin.
	Release(ctx context.Context, request *bursarv1.ReleaseRequest) error
}

// BeginLaunch waits until no other launch of the allocation is under way. The caller must call
// ended when its own is over.
func (s *Engines) BeginLaunch(ctx context.Context, id string) (ended func(), err error) {
	return s.launches.begin(ctx, id)
}

// Launching reports whether a launch of the allocation is under way.
func (s *Engines) Launching(id string) bool { return s.launches.has(id) }

// Launch starts an engine in its keeper, confirms it, and lets it begin. Nothing of it is executed
// before the coordinator has confirmed it, and before it is stored that it may have run. If a step
// fails, the engine is ended, and its keeper with it. The caller has called BeginLaunch.
func (s *Engines) Launch(ctx context.Context, l Launch) (active *bursarv1.Allocation, logDir string, err error) {
	id := l.Allocation.GetId()
	if err := s.CanLimit(ctx, l.Request.GetLimit()); err != nil {
		return nil, "", err
	}
	check, err := s.checkReady(&l)
	if err != nil {
		return nil, "", s.launchError(ctx, id, err)
	}
	starting, keeper, err := s.start(ctx, l, check)
	if err != nil {
		s.keepers.leave(keeper)
		return nil, "", s.launchError(ctx, id, err)
	}
	s.keepers.noteKept(id, starting)
	for steps := (once.Steps{}); !steps.Over(); steps.Done(err) {
		switch steps.Next() { //nolint:exhaustive // the loop is over at the others
		case once.Confirm:
			active, err = s.confirmLaunched(ctx, l, starting)
		case once.Store:
			s.output.Begins(id, starting.LogDir, l.User)
			err = s.mayHaveRun(keeper)
		case once.Execute:
			err = s.begin(ctx, l, starting)
		}
	}
	if err != nil {
		starting.Abandon()
		s.keepers.leave(keeper)
		s.log.Warn("an engine that was launched is ended, as it could not be confirmed", "allocation_id", id, "pid", starting.PID, "error", err)
		return nil, "", errors.Join(err, s.records.Remove(id))
	}
	s.log.Info("an engine was launched", "allocation_id", id, "pid", starting.PID, "user", l.User.Name, "caller", l.Caller, "logs", starting.LogDir)
	s.hasBegun(id, starting.LogDir, storedCheck(check)) //nolint:contextcheck // its check outlives the call
	s.measureDue.In(SettleTime)
	return active, starting.LogDir, nil
}

// directory is the working directory of the engine.
func (l *Launch) directory() string { return cmp.Or(l.Request.GetWorkingDirectory(), l.User.Home) }

// start starts the engine, which waits in its keeper until it is confirmed.
func (s *Engines) start(ctx context.Context, l Launch, check *ready.Spec) (starting *launch.Starting, keeper *unconfirmedKeeper, err error) {
	id, request := l.Allocation.GetId(), l.Request
	logs := request.GetLogs()
	if logs == nil {
		logs = &bursarv1.LaunchLogs{}
	}
	entitled := l.Allocation.GetEntitled()
	if request.GetEntitled() != nil {
		entitled = request.GetEntitled()
	}
	spawner, limits := s.cgroups.Spawner(ctx, l.Allocation.GetLabels(), entitled, request.GetLimit())
	launcher := launch.Launcher{Spawner: spawner, Keeper: s.keeper, Records: s.records, LogDir: s.logDir}
	launcher.Spawned = func(spawned launch.Spawned) { keeper = s.keepers.note(id, l.User.UID, spawned) }
	starting, err = launcher.Start(ctx, launch.Request{
		ID: id, User: l.User, Command: request.GetCommand(), Environment: request.GetEnvironment(), WorkingDirectory: request.GetWorkingDirectory(),
		Logs:   launch.Logs{Directory: logs.GetDirectory(), MaxBytes: logs.GetMaxBytes(), Keep: logs.Keep},
		Limits: limits, Note: launch.Note{Caller: l.CallerUID, User: l.User.Name, UID: l.User.UID, Ready: storedCheck(check)},
		Look: lookOf(check, l.directory()), Script: l.Script, RequiredVariables: l.RequiredVariables, RequiredFiles: l.RequiredFiles, Unchangeable: l.Unchangeable,
		Added: map[string]string{
			client.EnvAllocationID: id,
			client.EnvMemoryBytes:  strconv.FormatInt(entitled.GetMemoryBytes(), 10),
			client.EnvCPUMillis:    strconv.FormatInt(entitled.GetCpuMillis(), 10),
		},
	})
	return starting, keeper, err //nolint:wrapcheck // the caller knows the kinds
}

// mayHaveRun stores that the engine of a keeper may have run, before the keeper hears that it may
// go on: no later incarnation of the agent must end it.
func (s *Engines) mayHaveRun(keeper *unconfirmedKeeper) error {
	if err := s.keepers.forget(keeper); err != nil {
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("the agent could not store that the engine may go on: %w", err))
	}
	return nil
}

// begin lets an engine begin that was confirmed. If its program cannot be executed after all, its
// allocation ends.
func (s *Engines) begin(ctx context.Context, l Launch, starting *launch.Starting) error {
	id := l.Allocation.GetId()
	err := starting.Confirm(ctx)
	if err == nil {
		return nil
	}
	reason := spelling.Cut("not started: "+err.Error(), maxReason)
	if wrong, ok := errors.AsType[*launch.FieldError](err); ok { // not its value, which others may read
		reason = spelling.Cut("not started: "+wrong.Field+": "+wrong.Err.Error(), maxReason)
	}
	if lost := l.Coordinator.Release(ctx, &bursarv1.ReleaseRequest{Id: id, Reason: reason}); lost != nil {
		s.log.Warn("the allocation of an engine that has not begun is released when its end is noticed", "allocation_id", id, "error", lost)
	}
	s.measureDue.In(0)
	return s.launchError(ctx, id, err)
}

// confirmLaunched confirms a launched engine. It takes the same steps as Confirm of the local API.
func (s *Engines) confirmLaunched(ctx context.Context, l Launch, starting *launch.Starting) (*bursarv1.Allocation, error) {
	id, request := l.Request.GetId(), l.Request
	// The keeper is a process of the user, so its word about the engine is checked. An engine that
	// has ended is its zombie.
	found, err := s.meter.Identify(starting.PID)
	switch {
	case err != nil:
		return nil, connect.NewError(connect.CodeInternal, fmt.Errorf("process %d is not the engine that was started: %w", starting.PID, err))
	case found.StartTime != starting.StartTime || found.UID != l.User.UID:
		return nil, connect.NewError(connect.CodeInternal, fmt.Errorf("process %d, of uid %d, is not the engine that was started", starting.PID, found.UID))
	}
	process := &bursarv1.Process{
		Pid: starting.PID, StartTime: starting.StartTime, Cgroup: starting.Cgroup, BootId: s.state.BootID(), Uid: &found.UID,
		Verified: true, Launched: true, Limit: request.GetLimit(),
	}
	if keeper, err := s.meter.Identify(starting.Keeper.PID); err == nil {
		process.ReaperPid, process.ReaperStartTime = &keeper.PID, &keeper.StartTime
	}
	done, other := s.ClaimAndShow(id, process)
	if other != "" {
		return nil, connect.NewError(connect.CodeInternal, fmt.Errorf("process %d is the engine of allocation %s, not the one that was started", starting.PID, other))
	}
	defer done()
	active, err := l.Coordinator.Confirm(ctx, &bursarv1.ConfirmRequest{
		Id: id, Entitled: request.GetEntitled(), Process: process, Address: request.GetAddress(), ApplicationIds: request.GetApplicationIds(), Phase: request.GetPhase(),
	})
	if err != nil {
		s.ForgetRefused(id)
		return nil, err //nolint:wrapcheck // it is the coordinator's
	}
	s.ShowConfirmed(id, process)
	s.WatchEngine(ctx, id)
	if err := s.state.Save(); err != nil {
		return nil, connect.NewError(connect.CodeUnavailable, fmt.Errorf("the agent could not store that the engine runs: %w", err))
	}
	return s.Limited(active), nil
}

// launchError returns the error of an engine that was not started, by its cause.
func (s *Engines) launchError(ctx context.Context, id string, err error) error {
	if wrong, ok := errors.AsType[*launch.FieldError](err); ok {
		return refusal.WithDetail(connect.NewError(connect.CodeInvalidArgument, wrong),
			&bursarv1.InvalidField{Field: wrong.Field, Value: wrong.Value, Want: wrong.Want})
	}
	if isLimitError(err) {
		return limitError(err)
	}
	if ctx.Err() != nil {
		return connect.NewError(connect.CodeDeadlineExceeded, fmt.Errorf("the engine did not start in time: %w", err))
	}
	if wrong, ok := errors.AsType[*launch.LogDirError](err); ok {
		return connect.NewError(connect.CodeFailedPrecondition, wrong)
	}
	s.log.Error("an engine could not be launched", "allocation_id", id, "error", err)
	if errors.Is(err, os.ErrNotExist) {
		return connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("%w: want the program bursar-keeper there: it is built and installed with bursar, next to it", err))
	}
	return connect.NewError(connect.CodeInternal, err)
}
