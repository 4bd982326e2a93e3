package callers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/engine"
	"github.com/bursar/bursar/agent/refusal"
	"github.com/bursar/bursar/agent/socket"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers/host"
)

// Confirm checks that the engine's process runs and is the caller's, completes its description, and
// passes the call on. It answers once the agent would still know the engine after a restart.
func (s *service) Confirm(ctx context.Context, request *bursarv1.ConfirmRequest) (*bursarv1.ConfirmResponse, error) {
	a := s.API
	ctx, cancel := a.bounded(ctx, 0)
	defer cancel()
	if request.GetLeaderEnd() != nil {
		return a.takeLeaderEnd(ctx, request)
	}
	if err := saysWhatRuns(request); err != nil {
		return nil, err
	}
	if err := a.isOfItsHost(); err != nil {
		return nil, err
	}
	number := request.GetProcess().GetPid() // as the caller knows it
	if number != 0 {
		completed, err := a.identify(ctx, request)
		if err != nil {
			return nil, err
		}
		request = proto.CloneOf(request)
		request.Process = completed
	}
	if request.GetProcess() == nil && request.GetLimit() {
		return nil, refusal.Invalid("limit", "true", "process.pid next to it: the kernel limits processes of this host")
	}
	if err := a.mayConfirm(request.GetId()); err != nil {
		return nil, err
	}
	if err := a.ownHost(ctx, request.GetId()); err != nil {
		return nil, err
	}
	if request.GetProcess().GetPid() != 0 {
		a.engines.KeepLimit(request)
		done, other := a.engines.ClaimAndShow(request.GetId(), request.GetProcess())
		if other != "" {
			return nil, notThere(number, "a process that is not yet the engine of another allocation; it is that of "+other)
		}
		defer done()
		if err := a.hold(ctx, request); err != nil {
			a.engines.ForgetRefused(request.GetId())
			return nil, err
		}
	}
	answer, err := relay(ctx, a, a.allocations.Confirm, request)
	if err != nil {
		a.engines.ForgetRefused(request.GetId())
		return nil, err
	}
	a.observe(ctx, answer.msg.GetAllocation(), answer.asOf)
	a.engines.ShowConfirmed(request.GetId(), request.GetProcess())
	a.engines.WatchEngine(ctx, request.GetId())
	if err := a.state.Save(); err != nil {
		return nil, connect.NewError(connect.CodeUnavailable, fmt.Errorf("the engine is confirmed but the agent could not store that; confirm it again: %w", err))
	}
	if number != 0 {
		a.cgroups.Settle(ctx, request.GetId())
	}
	a.measureDue.In(engine.SettleTime)
	return &bursarv1.ConfirmResponse{Allocation: a.engines.Limited(unsealed(answer.msg.GetAllocation()))}, nil
}

// saysWhatRuns refuses a Confirm that names a process without its pid, or names nothing. Its
// launcher does not know its process, so the agent could not see that end.
func saysWhatRuns(request *bursarv1.ConfirmRequest) error {
	if request.GetProcess().GetPid() != 0 {
		return nil
	}
	if request.GetProcess() == nil && (request.GetAddress() != "" || request.GetLease() != nil || len(request.GetApplicationIds()) > 0) {
		return nil
	}
	return refusal.Invalid("process.pid", "0", "the pid of the engine, or no process for one that is not on this host and has an address, a lease or application_ids")
}

// identify checks the process that a Confirm names. It returns the process by its pid and its
// start, as the agent sees them.
func (a *API) identify(ctx context.Context, request *bursarv1.ConfirmRequest) (*bursarv1.Process, error) {
	claimed, c := request.GetProcess(), socket.CallerOf(ctx)
	found, err := a.claimed(ctx, request)
	if err != nil {
		return nil, err
	}
	switch {
	case claimed.GetBootId() != "" && claimed.GetBootId() != a.state.BootID():
		return nil, notThere(claimed.GetPid(), "a process of this boot, "+a.state.BootID())
	case c == nil || !c.Trusted && found.UID != c.UID:
		return nil, connect.NewError(connect.CodePermissionDenied, fmt.Errorf("process.pid: %d is a process of uid %d: want one of the caller's own", claimed.GetPid(), found.UID))
	}
	reaper := a.reaperOf(ctx, request, found.PID)
	process := &bursarv1.Process{
		Pid: found.PID, StartTime: found.StartTime, BootId: a.state.BootID(), Uid: &found.UID, Verified: true,
	}
	if reaper.PID != 0 {
		process.ReaperPid, process.ReaperStartTime = &reaper.PID, &reaper.StartTime
	}
	if found.Ended() {
		// A command that starts a daemon may be faster than its launcher.
		if lives, _ := a.opener.Below(reaper); lives {
			return process, nil
		}
		return nil, notThere(claimed.GetPid(), "a process of this host that runs")
	}
	// The caller's word is not enough: all processes in the cgroup count as the engine's, and are
	// killed with it.
	cgroup, err := a.meter.OwnCgroup(found.PID)
	switch {
	case errors.Is(err, host.ErrNoProcess):
		return nil, notThere(claimed.GetPid(), "a process of this host that runs")
	case err != nil:
		a.log.Warn("the engine's cgroup is not known: it is measured by its process tree", "allocation_id", request.GetId(), "error", err)
		cgroup = ""
	case claimed.GetCgroup() != "" && claimed.GetCgroup() != cgroup && !seesOtherCgroups(ctx):
		return nil, refusal.Invalid("process.cgroup", claimed.GetCgroup(), fmt.Sprintf("the engine's own cgroup, %q, or nothing", cgroup))
	}
	process.Cgroup = cgroup
	return process, nil
}

// claimed finds the process that a Confirm names. Its numbers are those that the caller sees,
// unless they are those that this agent has reported of the engine.
func (a *API) claimed(ctx context.Context, request *bursarv1.ConfirmRequest) (host.Identity, error) {
	claimed := request.GetProcess()
	number, started := claimed.GetPid(), claimed.GetStartTime()
	reported := false
	a.state.Locked(func(t *tracker.Tracker) {
		grant, held := t.Get(request.GetId())
		p := grant.GetProcess()
		reported = held && started != 0 && p.GetPid() == number && p.GetStartTime() == started
	})
	if reported {
		return a.whoRuns(number, number, started)
	}
	if number <= 0 {
		return host.Identity{}, refusal.Invalid("process.pid", strconv.Itoa(int(number)), "the pid of the engine")
	}
	view, err := socket.ProcessOf(ctx).Seen(ctx)
	c := socket.CallerOf(ctx)
	switch {
	case err != nil && c != nil && c.TCP && started != 0:
		// the start shows that the caller sees the same process as this agent
		return a.whoRuns(number, number, started)
	case err != nil:
		return host.Identity{}, err
	case view.OtherTime && started != 0:
		return host.Identity{}, refusal.Invalid("process.start_time", strconv.FormatUint(started, 10), "0: the caller is in a time namespace, and sees another start than the agent, which reads it")
	case view.PIDs == nil:
		return a.whoRuns(number, number, started)
	}
	pid, err := numberOf(ctx, view.PIDs, number)
	if err != nil {
		return host.Identity{}, err
	}
	found, err := a.whoRuns(pid, number, started)
	if err != nil {
		return host.Identity{}, err
	}
	// If the pid differs now, the process has ended, and its pid may be another's.
	if again, err := numberOf(ctx, view.PIDs, number); err != nil || again != pid {
		return host.Identity{}, notThere(number, "a process that runs in the caller's pid namespace")
	}
	return found, nil
}

// whoRuns says which process has a pid; it may be a zombie. Errors name it by the number by which
// the caller knows it.
func (a *API) whoRuns(pid, number int32, started uint64) (host.Identity, error) {
	if pid <= 1 || int(pid) == os.Getpid() {
		return host.Identity{}, refusal.Invalid("process.pid", strconv.Itoa(int(number)), "the pid of the engine, which is neither init nor the agent")
	}
	found, err := a.meter.Identify(pid)
	switch {
	case errors.Is(err, host.ErrNoProcess):
		return found, notThere(number, "a process of this host that runs")
	case errors.Is(err, host.ErrHidden):
		return found, notThere(number, "a process that this agent can see; /proc hides this one from the agent's user: want an agent of root, or a /proc without hidepid")
	case err != nil:
		return found, connect.NewError(connect.CodeInternal, err)
	case started != 0 && started != found.StartTime:
		return found, notThere(number, fmt.Sprintf("the process that started at %d; the one of this pid started at %d", started, found.StartTime))
	}
	return found, nil
}

// notThere refuses a process; the caller must stop it.
func notThere(pid int32, want string) error {
	return refusal.WithDetail(connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("process.pid: %d: want %s", pid, want)),
		&bursarv1.InvalidField{Field: "process.pid", Value: strconv.Itoa(int(pid)), Want: want})
}

// numberOf is the pid, as the agent knows it, of the process that a caller knows by a pid of its
// own namespace.
func numberOf(ctx context.Context, namespace *host.PIDNamespace, pid int32) (int32, error) {
	found, err := namespace.Find(ctx, pid)
	switch {
	case errors.Is(err, host.ErrNoProcess):
		return 0, notThere(pid, "a process that runs in the caller's pid namespace")
	case err != nil:
		return 0, connect.NewError(connect.CodeInternal, err)
	}
	return found, nil
}

// seesOtherCgroups reports whether the caller knows cgroups by other paths than this agent does, or
// may do so. The agent then ignores the path that it gives.
func seesOtherCgroups(ctx context.Context) bool {
	view, err := socket.ProcessOf(ctx).Seen(ctx)
	return err != nil || view.OtherCgroups
}
