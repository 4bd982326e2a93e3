package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/socket"
	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/osuser"
	"github.com/bursar/bursar/internal/spelling"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/proto/convert"
)

// engineService is EngineService for this host: the agent itself starts an engine.
type engineService struct{ agent *Agent }

var _ bursarv1connect.EngineServiceHandler = engineService{}

// Launch starts the engine of a reservation and confirms it. Its keeper hears that it may go on
// once that is done, and once the agent would still know the engine after a restart. If anything
// fails before that, the engine is ended.
func (s engineService) Launch(ctx context.Context, request *bursarv1.LaunchRequest) (*bursarv1.LaunchResponse, error) {
	a := s.agent
	ctx, cancel := a.bounded(ctx, launch.StartTimeout)
	defer cancel()
	c := socket.CallerOf(ctx)
	if c == nil || c.TCP {
		return nil, connect.NewError(connect.CodePermissionDenied, errors.New("engines are launched over the agent's socket alone"))
	}
	if err := a.isOfItsHost(); err != nil {
		return nil, err
	}
	if err := checkLaunch(request); err != nil {
		return nil, err
	}
	ended, err := a.socket.Admitted.Wait(c.Counted())
	if err != nil {
		return nil, err
	}
	defer ended()
	done, err := a.launches.begin(ctx, request.GetId())
	if err != nil {
		return nil, err
	}
	defer done()
	answer, err := relay(ctx, a, a.deps.Allocations.Get, &bursarv1.AllocationServiceGetRequest{Id: request.GetId()})
	if err != nil {
		return nil, err
	}
	allocation := answer.msg.GetAllocation()
	if err := a.mayLaunch(c, request, allocation); err != nil {
		return nil, err
	}
	if allocation.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_RESERVED {
		return a.launched(c, allocation)
	}
	if err := a.mayConfirm(allocation.GetId()); err != nil {
		return nil, err
	}
	user, err := a.launchUser(ctx, c, request.GetUser())
	if err != nil {
		return nil, err
	}
	return a.launch(ctx, c, request, allocation, user)
}

// mayLaunch refuses an allocation that is another caller's or another host's, or that was not
// named by its whole id.
func (a *Agent) mayLaunch(c *socket.Caller, request *bursarv1.LaunchRequest, allocation *bursarv1.Allocation) error {
	id := allocation.GetId()
	switch on := allocation.GetHostId(); {
	case on != a.settings().HostID && on != "":
		return connect.NewError(connect.CodeFailedPrecondition,
			fmt.Errorf("allocation %s is on host %s: ask that host's agent; this is the agent of %s", id, on, a.settings().HostID))
	case id != request.GetId():
		return invalid("id", request.GetId(), "the whole id of an allocation")
	case allocation.GetCaller() != c.Actor.Name && !c.Actor.MayActAs(convert.RightsOf(allocation)):
		return connect.NewError(connect.CodePermissionDenied,
			fmt.Errorf("allocation %s is of user %q: %s may not act as that user", id, convert.RightsOf(allocation), c.Actor.Name))
	}
	return nil
}

// launched answers a repeated call: the engine of this allocation may run already.
func (a *Agent) launched(c *socket.Caller, allocation *bursarv1.Allocation) (*bursarv1.LaunchResponse, error) {
	if allocation.GetState() == bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE {
		note, err := a.records().Note(allocation.GetId())
		if err == nil && note.Caller == c.UID {
			return &bursarv1.LaunchResponse{Allocation: a.limited(allocation), LogDirectory: note.LogDirectory}, nil
		}
		if err != nil && !errors.Is(err, launch.ErrNone) {
			return nil, connect.NewError(connect.CodeInternal, err)
		}
		return nil, connect.NewError(connect.CodeFailedPrecondition,
			fmt.Errorf("allocation %s has an engine already, which this caller has not launched: want a reservation", allocation.GetId()))
	}
	state := bursarv1.AllocationState_name[int32(allocation.GetState())]
	return nil, connect.NewError(connect.CodeFailedPrecondition,
		fmt.Errorf("allocation %s: %s (%s): want a reservation", allocation.GetId(), state, allocation.GetReason()))
}

// launch starts the engine and confirms it.
func (a *Agent) launch(
	ctx context.Context, c *socket.Caller, request *bursarv1.LaunchRequest, allocation *bursarv1.Allocation, user osuser.User,
) (*bursarv1.LaunchResponse, error) {
	id := allocation.GetId()
	logs := request.GetLogs()
	if logs == nil {
		logs = &bursarv1.LaunchLogs{}
	}
	entitled := allocation.GetEntitled()
	if request.GetEntitled() != nil {
		entitled = request.GetEntitled()
	}
	if err := a.canLimit(ctx, request.GetLimit()); err != nil {
		return nil, err
	}
	spawner, limits := a.cgroups.Spawner(ctx, allocation.GetLabels(), entitled, request.GetLimit())
	launcher := launch.Launcher{Spawner: spawner, Keeper: a.settings().Engines.Keeper, Records: a.records(), LogDir: a.settings().Engines.LogDir}
	var keeper *unconfirmedKeeper
	launcher.Spawned = func(spawned launch.Spawned) { keeper = a.noteKeeper(id, user.UID, spawned) }
	starting, err := launcher.Start(ctx, launch.Request{
		ID: id, User: user, Command: request.GetCommand(), Environment: request.GetEnvironment(), WorkingDirectory: request.GetWorkingDirectory(),
		Logs:   launch.Logs{Directory: logs.GetDirectory(), MaxBytes: logs.GetMaxBytes(), Keep: logs.Keep},
		Limits: limits, Note: launch.Note{Caller: c.UID, User: user.Name, UID: user.UID},
		Added: map[string]string{
			client.EnvAllocationID: id,
			client.EnvMemoryBytes:  strconv.FormatInt(entitled.GetMemoryBytes(), 10),
			client.EnvCPUMillis:    strconv.FormatInt(entitled.GetCpuMillis(), 10),
		},
	})
	if err != nil {
		a.leaveKeeper(keeper)
		return nil, a.launchError(ctx, id, err)
	}
	a.noteKept(id, starting)
	active, err := a.confirmLaunched(ctx, request, starting, user)
	if err == nil {
		// Before the keeper hears that its engine may go on: no later incarnation must end it.
		if err = a.forgetKeeper(keeper); err != nil {
			err = connect.NewError(connect.CodeUnavailable, fmt.Errorf("the agent could not store that the engine may go on: %w", err))
		}
	}
	if err == nil {
		err = a.begin(ctx, id, starting)
	}
	if err != nil {
		starting.Abandon()
		a.leaveKeeper(keeper)
		a.log.Warn("an engine that was launched is ended, as it could not be confirmed", "allocation_id", id, "pid", starting.PID, "error", err)
		return nil, errors.Join(err, a.records().Remove(id))
	}
	a.log.Info("an engine was launched", "allocation_id", id, "pid", starting.PID, "user", user.Name, "caller", c.Actor.Name, "logs", starting.LogDir)
	a.measureIn(settleTime)
	return &bursarv1.LaunchResponse{Allocation: active, LogDirectory: starting.LogDir}, nil
}

// begin lets an engine begin that was confirmed. If its program cannot be executed after all, its
// allocation ends.
func (a *Agent) begin(ctx context.Context, id string, starting *launch.Starting) error {
	err := starting.Confirm(ctx)
	if err == nil {
		return nil
	}
	reason := spelling.Cut("not started: "+err.Error(), maxReason)
	if wrong, ok := errors.AsType[*launch.FieldError](err); ok { // not its value, which others may read
		reason = spelling.Cut("not started: "+wrong.Field+": "+wrong.Err.Error(), maxReason)
	}
	if _, lost := relay(ctx, a, a.deps.Allocations.Release, &bursarv1.ReleaseRequest{Id: id, Reason: reason}); lost != nil {
		a.log.Warn("the allocation of an engine that has not begun is released when its end is noticed", "allocation_id", id, "error", lost)
	}
	a.measureIn(0)
	return a.launchError(ctx, id, err)
}

// confirmLaunched does for a launched engine what Confirm does for one that its launcher has
// started.
func (a *Agent) confirmLaunched(
	ctx context.Context, request *bursarv1.LaunchRequest, s *launch.Starting, user osuser.User,
) (*bursarv1.Allocation, error) {
	// The keeper is a process of the user, so what it says of the engine is checked. An engine
	// that has ended is its zombie.
	found, err := a.deps.Meter.Identify(s.PID)
	switch {
	case err != nil:
		return nil, connect.NewError(connect.CodeInternal, fmt.Errorf("process %d is not the engine that was started: %w", s.PID, err))
	case found.StartTime != s.StartTime || found.UID != user.UID:
		return nil, connect.NewError(connect.CodeInternal, fmt.Errorf("process %d, of uid %d, is not the engine that was started", s.PID, found.UID))
	}
	process := &bursarv1.Process{Pid: s.PID, StartTime: s.StartTime, Cgroup: s.Cgroup, BootId: a.bootID, Uid: &found.UID, Verified: true, Launched: true, Limit: request.GetLimit()}
	if keeper, err := a.deps.Meter.Identify(s.Keeper.PID); err == nil {
		process.ReaperPid, process.ReaperStartTime = &keeper.PID, &keeper.StartTime
	}
	done, other := a.claimAndShow(request.GetId(), process)
	if other != "" {
		return nil, connect.NewError(connect.CodeInternal, fmt.Errorf("process %d is the engine of allocation %s, not the one that was started", s.PID, other))
	}
	defer done()
	answer, err := relay(ctx, a, a.deps.Allocations.Confirm, &bursarv1.ConfirmRequest{
		Id: request.GetId(), Entitled: request.GetEntitled(), Process: process,
		Address: request.GetAddress(), ApplicationIds: request.GetApplicationIds(),
	})
	if err != nil {
		a.forgetRefused(request.GetId())
		return nil, err
	}
	a.observe(ctx, answer.msg.GetAllocation(), answer.asOf)
	a.showConfirmed(request.GetId(), process)
	a.watchEngine(ctx, request.GetId())
	if err := a.save(); err != nil {
		return nil, connect.NewError(connect.CodeUnavailable, fmt.Errorf("the agent could not store that the engine runs: %w", err))
	}
	return a.limited(unsealed(answer.msg.GetAllocation())), nil
}

// launchError returns the error of an engine that was not started, by its cause.
func (a *Agent) launchError(ctx context.Context, id string, err error) error {
	if wrong, ok := errors.AsType[*launch.FieldError](err); ok {
		return withDetail(connect.NewError(connect.CodeInvalidArgument, wrong),
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
	a.log.Error("an engine could not be launched", "allocation_id", id, "error", err)
	if errors.Is(err, os.ErrNotExist) {
		return connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("%w: want the program bursar-keeper there: it is built and installed with bursar, next to it", err))
	}
	return connect.NewError(connect.CodeInternal, err)
}

// records are where keepers write how their engines ended.
func (a *Agent) records() launch.Records {
	return launch.Records(filepath.Join(a.settings().StateDir, recordsName))
}
