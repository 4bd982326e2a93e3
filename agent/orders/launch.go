package orders

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/callers"
	"github.com/bursar/bursar/agent/engine"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/osuser"
	"github.com/bursar/bursar/internal/spelling"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// launchPatience bounds a launch, including the waits for its grant and for the coordinator.
const launchPatience = 90 * time.Second

// execute launches the engine of an order. The answer says that the engine has begun. execute fills
// in about.
func (t *Taker) execute(ctx context.Context, order *bursarv1.LaunchOrder, confirms *confirmer, about *audited) (*bursarv1.AnswerRequest, error) {
	spec, secrets := &bursarv1.LaunchSpec{}, &bursarv1.LaunchSecrets{}
	if err := errors.Join(proto.Unmarshal(order.GetSpec(), spec), proto.Unmarshal(order.GetSecrets(), secrets)); err != nil {
		return nil, errors.New("the order cannot be read: want a coordinator of this version or the one before")
	}
	about.account, about.program = spec.GetAccount(), programOf(spec)
	done, err := t.Engines.BeginLaunch(ctx, order.GetAllocationId())
	if err != nil {
		return nil, err //nolint:wrapcheck // says it
	}
	defer done()
	policy := t.Policy()
	grant, user, err := t.grantAndAccount(ctx, order, func(ctx context.Context) (osuser.User, error) { return t.allowed(ctx, &policy, spec, secrets) })
	about.caller = grant.GetCaller()
	if err != nil {
		return nil, err
	}
	request := &bursarv1.LaunchRequest{
		Id: grant.GetId(), Command: spec.GetCommand(), Environment: policy.environmentOf(spec, secrets, grant), WorkingDirectory: spec.GetWorkingDirectory(),
		User: user.Name, Logs: spec.GetLogs(), Limit: spec.GetLimit(),
	}
	if err := callers.CheckLaunch(request); err != nil {
		return nil, err
	}
	_, logs, err := t.Engines.Launch(ctx, engine.Launch{
		Request: request, Allocation: grant, User: user, CallerUID: noCaller, Caller: grant.GetCaller(), Coordinator: confirms,
		Script: spec.GetScript(), RequiredVariables: spec.GetRequiredVariables(), RequiredFiles: spec.GetRequiredFiles(), Ready: spec.GetReady(),
		Unchangeable: len(policy.Programs) > 0,
	})
	if err != nil {
		return nil, err //nolint:wrapcheck // says it
	}
	answer := t.answer(order)
	answer.Result = &bursarv1.AnswerRequest_Begun{Begun: &bursarv1.LaunchBegun{LogDirectory: logs}}
	return answer, nil
}

// noCaller is the uid for a caller on no host: no local user can request the engine again.
const noCaller = ^uint32(0)

// grantAndAccount waits for the grant of an order, and looks up its account in the meantime. If
// only the account fails, it returns the grant with that error.
func (t *Taker) grantAndAccount(
	ctx context.Context, order *bursarv1.LaunchOrder, account func(context.Context) (osuser.User, error),
) (*bursarv1.Allocation, osuser.User, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var user osuser.User
	var refused error
	var lookup sync.WaitGroup
	lookup.Go(func() { user, refused = account(ctx) })
	grant, err := t.grant(ctx, order)
	if err != nil {
		cancel()
	}
	lookup.Wait()
	return grant, user, cmp.Or(err, refused)
}

// grant waits for the reservation of an order, which comes with the agent's own Sync. It sends the
// first Sync at once, because a caller waits.
func (t *Taker) grant(ctx context.Context, order *bursarv1.LaunchOrder) (*bursarv1.Allocation, error) {
	ctx, cancel := context.WithTimeout(ctx, grantPatience)
	defer cancel()
	for bringForward := t.SyncDue.BringForward; ; bringForward = t.SyncDue.NoLaterThan {
		var grant *bursarv1.Allocation
		var answered <-chan struct{}
		refused := false
		t.State.Locked(func(known *tracker.Tracker) {
			if held, there := known.Get(order.GetAllocationId()); there {
				grant = proto.CloneOf(held)
			}
			_, refused = known.Veto(order.GetAllocationId())
			answered = t.State.Answered.Next()
		})
		switch {
		case refused:
			return nil, errors.New("this host has refused the grant: its memory is taken")
		case grant == nil:
		case grant.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_RESERVED:
			return nil, fmt.Errorf("the allocation is %s here", grant.GetState())
		case grant.GetLaunch() == nil:
			return nil, errors.New("the grant, as it came with this host's heartbeat, is for an engine that its caller starts")
		default:
			return grant, nil
		}
		bringForward(time.Now())
		select {
		case <-answered:
		case <-ctx.Done():
			return nil, errors.New("its grant did not come with this host's heartbeat")
		}
	}
}

// allowed returns the account that an engine runs as, if this host allows the launch.
func (t *Taker) allowed(ctx context.Context, policy *Policy, spec *bursarv1.LaunchSpec, secrets *bursarv1.LaunchSecrets) (osuser.User, error) {
	if err := checkSpec(spec); err != nil {
		return osuser.User{}, err
	}
	if err := policy.allowsPrograms(spec); err != nil {
		return osuser.User{}, err
	}
	if err := policy.allowsEnvironment(spec, secrets); err != nil {
		return osuser.User{}, err
	}
	return t.account(ctx, policy, spec.GetAccount())
}

// The bounds of a LaunchSpec in the contract.
const (
	maxScript   = 60 << 10
	maxRequired = 256
	maxPath     = 4096
	// maxShownName bounds the shown part of a wrong name, in bytes.
	maxShownName = 128
)

// checkSpec refuses an order that no valid coordinator sends. Rules that a LaunchRequest has, too,
// are checked with the LaunchRequest.
func checkSpec(spec *bursarv1.LaunchSpec) error {
	switch {
	case len(spec.GetScript()) > maxScript:
		return &RefusedError{fmt.Sprintf("the script has %d bytes", len(spec.GetScript())), fmt.Sprintf("at most %d", maxScript)}
	case len(spec.GetScript()) > 0: // the command has its arguments
	case len(spec.GetCommand()) == 0 || spec.GetCommand()[0] == "":
		return &RefusedError{"the order has no program", "one"}
	}
	for field, n := range map[string]int{"required_variables": len(spec.GetRequiredVariables()), "required_files": len(spec.GetRequiredFiles())} {
		if n > maxRequired {
			return &RefusedError{fmt.Sprintf("%s has %d", field, n), fmt.Sprintf("at most %d", maxRequired)}
		}
	}
	for name := range spec.GetEnvironment() {
		if strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return &RefusedError{fmt.Sprintf("environment has the name %q", spelling.Cut(name, maxShownName)), "names without blanks and control characters"}
		}
	}
	for i, file := range spec.GetRequiredFiles() {
		if !path.IsAbs(file) || len(file) > maxPath || strings.ContainsRune(file, 0) {
			return &RefusedError{fmt.Sprintf("required_files[%d] is no absolute path of at most %d bytes", i, maxPath), "one"}
		}
	}
	return nil
}

// confirmer confirms the engine of an order.
type confirmer struct {
	taker   *Taker
	order   *bursarv1.LaunchOrder
	process *bursarv1.Process // that waits to begin; nil: none was started
}

// Confirm implements engine.Coordinator.
func (c *confirmer) Confirm(ctx context.Context, request *bursarv1.ConfirmRequest) (*bursarv1.Allocation, error) {
	t := c.taker
	c.process = request.GetProcess()
	asOf := t.epoch()
	answer := t.answer(c.order)
	answer.Result = &bursarv1.AnswerRequest_Started{Started: &bursarv1.LaunchStarted{Process: request.GetProcess(), Address: request.GetAddress()}}
	response, err := t.call(ctx, answer)
	if err != nil {
		return nil, err
	}
	active := response.GetAllocation()
	t.State.Locked(func(known *tracker.Tracker) { known.Observe(time.Now(), active, asOf) })
	return active, nil
}

// Release implements engine.Coordinator. It is called after a failed try in which nothing was
// executed.
func (c *confirmer) Release(context.Context, *bursarv1.ReleaseRequest) error { return nil }
