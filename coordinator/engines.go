package coordinator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/coordinator/launches"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/orders"
	"github.com/bursar/bursar/coordinator/wire"
	"github.com/bursar/bursar/internal/identity"
	storev1 "github.com/bursar/bursar/proto/bursar/store/v1"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// engineService serves bursar.v1.EngineService for all hosts. Agents launch the engines.
type engineService struct {
	allocations *allocationService
	launcher    *launches.Launcher
	signals     *orders.Signals
	hub         *orders.Hub
	readers     logReaders
}

// maxLaunchBytes bounds an encoded launch with its secrets. The launch without its secrets is a row
// of the store until the agent gets it. The launch with its secrets is an order that waits for its
// agent.
const maxLaunchBytes = 64 << 10

// retryPatience is the shortest wait for another host after a launch has failed, even if the caller
// did not want to wait.
const retryPatience = 30 * time.Second

// Launch is unimplemented here: only agents launch.
func (s *engineService) Launch(context.Context, *bursarv1.LaunchRequest) (*bursarv1.LaunchResponse, error) {
	return nil, connect.NewError(connect.CodeUnimplemented, errors.New("a coordinator launches no engine on a host: want Start, or Launch of the host's agent"))
}

// Start allocates with a launch, and waits until the engine can be used.
func (s *engineService) Start(ctx context.Context, req *bursarv1.StartRequest) (*bursarv1.StartResponse, error) {
	command, err := s.command(ctx, req)
	if err != nil {
		return nil, err
	}
	s.launcher.Need()
	result, err := s.allocations.allocate(ctx, req.GetRequest(), &command)
	if err == nil && command.Async && !result.Ended {
		return &bursarv1.StartResponse{Allocation: wire.AllocationMessage(&result.Allocation)}, nil
	}
	release := s.launcher.Hold(command.Actor.Name, command.RequestID, req.GetSecrets())
	defer release()
	command.Wait = max(command.Wait, retryPatience) // from now on another try may follow
	var last ledger.ID
	for ; err == nil; result, err = s.allocations.allocate(ctx, req.GetRequest(), &command) {
		a := result.Allocation
		last = a.ID
		if !result.Ended {
			if a, err = s.launcher.Await(ctx, a.ID, launches.IsSettled); err != nil {
				break
			}
			if a.State == ledger.Active {
				return &bursarv1.StartResponse{Allocation: wire.AllocationMessage(&a)}, nil
			}
		}
		again, err := s.isAgain(ctx, &command, &a)
		switch {
		case err != nil:
			return nil, err
		case !again:
			return s.ended(ctx, a.ID)
		}
	}
	return nil, s.withTries(ctx, last, err)
}

// withTries adds the failures of the earlier tries to the refusal of a further try.
func (s *engineService) withTries(ctx context.Context, id ledger.ID, refused error) error {
	if id == 0 || ctx.Err() != nil {
		return refused
	}
	a, err := s.allocations.getEnded(ctx, id)
	if err != nil || a.Launch() == nil || len(a.Launch().Tries) == 0 {
		return refused
	}
	return &startError{a}
}

// isAgain reports whether another try follows: the request waits for another host, or has another
// allocation.
func (s *engineService) isAgain(ctx context.Context, command *ledger.AllocateCommand, a *ledger.Allocation) (bool, error) {
	if a.State == ledger.Waiting {
		return true, nil
	}
	id, err := s.allocations.loop.IDOf(ctx, command.Actor.Name, command.RequestID)
	return id != 0 && id != a.ID, err
}

// ended answers for an ended engine: the answer depends on whether the engine was usable before.
func (s *engineService) ended(ctx context.Context, id ledger.ID) (*bursarv1.StartResponse, error) {
	a, err := s.allocations.getEnded(ctx, id)
	if err != nil {
		return nil, err
	}
	if !launches.WasUsable(&a) {
		return nil, &startError{a}
	}
	return &bursarv1.StartResponse{Allocation: wire.AllocationMessage(&a)}, nil
}

// startError reports that an engine did not start.
type startError struct{ allocation ledger.Allocation }

// Error names each try once: the reason of an allocation is usually that of its last try.
func (e *startError) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "the engine did not start: allocation %s is %s", e.allocation.ID, e.allocation.State)
	reason := e.allocation.Reason
	if launch := e.allocation.Launch(); launch != nil && len(launch.Tries) > 0 {
		for i := range launch.Tries {
			fmt.Fprintf(&text, "; on host %s: %s", launch.Tries[i].HostID, launch.Tries[i].Reason)
		}
		if strings.HasSuffix(reason, launch.Tries[len(launch.Tries)-1].Reason) {
			reason = ""
		}
	}
	if reason != "" {
		text.WriteString("; " + reason)
	}
	return text.String()
}

// Wait answers when an engine is ready, the engine has ended, or its main process has ended.
func (s *engineService) Wait(ctx context.Context, req *bursarv1.WaitRequest) (*bursarv1.WaitResponse, error) {
	id, err := wire.ParseID("id", req.GetId())
	if err != nil {
		return nil, err
	}
	if _, err := s.allocations.Get(ctx, &bursarv1.AllocationServiceGetRequest{Id: id.String()}); err != nil {
		return nil, err // the allocation is unknown, or of another host than the caller's
	}
	waiting, cancel := ctx, context.CancelFunc(func() {})
	if req.GetTimeout() != nil {
		waiting, cancel = context.WithTimeout(ctx, wire.DurationFrom(req.GetTimeout()))
	}
	defer cancel()
	actor := auth.ActorOf(ctx)
	for {
		a, err := s.launcher.Await(waiting, id, func(a *ledger.Allocation) bool {
			return !a.State.Live() || req.GetReady() && launches.IsReady(a) || req.GetLeaderEnd() && a.LeaderEnd != nil
		})
		switch {
		case err != nil && ctx.Err() == nil && waiting.Err() != nil:
			now, err := s.allocations.Get(ctx, &bursarv1.AllocationServiceGetRequest{Id: id.String()})
			return &bursarv1.WaitResponse{Allocation: now.GetAllocation(), TimedOut: true}, err
		case err != nil:
			return nil, err
		case a.State.Live(): // it may be another try, and a waiting one may have got its host meanwhile
			if err := checkHostOf(actor, &a); err != nil {
				return nil, err
			}
			return &bursarv1.WaitResponse{Allocation: wire.AllocationMessage(&a)}, nil
		}
		ended, err := s.allocations.getEnded(ctx, id)
		if err != nil {
			return nil, err
		}
		next := successorOf(&ended)
		if next <= id {
			return &bursarv1.WaitResponse{Allocation: wire.AllocationMessage(&ended)}, nil
		}
		id = next
	}
}

// command converts a request with a launch to the ledger's form.
func (s *engineService) command(ctx context.Context, req *bursarv1.StartRequest) (ledger.AllocateCommand, error) {
	if err := checkStart(req); err != nil {
		return ledger.AllocateCommand{}, err
	}
	spec := req.GetLaunch()
	actor := auth.ActorOf(ctx)
	if !actor.MayLaunchAs(spec.GetAccount()) {
		return ledger.AllocateCommand{}, &ledger.DeniedError{Actor: actor.Name, Wanted: fmt.Sprintf("have engines launched as the account %q", spec.GetAccount()), Instead: "the account in mayLaunch of its identity, in the coordinator's file of identities"}
	}
	request := req.GetRequest()
	if request.GetRequestId() == "" {
		request.RequestId = "start-" + rand.Text()
	}
	launch, err := launchOf(req)
	if err != nil {
		return ledger.AllocateCommand{}, err
	}
	command, err := s.allocations.command(ctx, request, launch)
	return command, wire.InField("request.", err)
}

// launchOf converts a launch to the ledger's form. The same launch has the same bytes.
func launchOf(req *bursarv1.StartRequest) (*ledger.LaunchRequest, error) {
	spec := req.GetLaunch()
	record := &storev1.LaunchRecord{Spec: spec}
	for name := range req.GetSecrets() {
		record.Secrets = append(record.Secrets, name)
	}
	slices.Sort(record.Secrets)
	payload, err := proto.MarshalOptions{Deterministic: true}.Marshal(record)
	if err != nil {
		return nil, err
	}
	if n := len(payload) + proto.Size(&bursarv1.LaunchSecrets{Variables: req.GetSecrets()}); n > maxLaunchBytes {
		return nil, wire.FieldError("launch", fmt.Sprintf("%d bytes", n), fmt.Sprintf("at most %d, with secrets: a larger script or environment belongs into a file on the hosts", maxLaunchBytes))
	}
	return &ledger.LaunchRequest{
		Account: spec.GetAccount(), Program: programOf(spec), Watched: spec.GetReady() != nil, Retries: req.GetRetries(), Spec: payload,
	}, nil
}

// programOf returns the program's name for display.
func programOf(spec *bursarv1.LaunchSpec) string {
	if len(spec.GetScript()) > 0 {
		return "script"
	}
	return path.Base(spec.GetCommand()[0])
}

// checkStart does the checks that the validation rules of the contract cannot express.
func checkStart(req *bursarv1.StartRequest) error {
	spec, request := req.GetLaunch(), req.GetRequest()
	switch {
	case len(spec.GetCommand()) == 0 && len(spec.GetScript()) == 0:
		return wire.FieldError("launch.command", "", "a program, or launch.script")
	case len(spec.GetScript()) == 0 && spec.GetCommand()[0] == "":
		return wire.FieldError("launch.command[0]", "", "a program")
	case spec.GetAccount() == identity.RootAccount:
		return wire.FieldError("launch.account", spec.GetAccount(), "an account other than root: no host launches as root")
	case req.GetRetries() > 0 && spec.GetReady() == nil:
		return wire.FieldError("retries", fmt.Sprint(req.GetRetries()), "launch.ready with it: without a readiness nothing tells whether an engine has failed to start")
	case request.GetAsync() && len(req.GetSecrets()) > 0:
		return wire.FieldError("request.async", "true", "false with secrets: no coordinator stores them, so their caller has to wait")
	case request.GetStreamed() != nil:
		return wire.FieldError("request.streamed", "", "nothing: it is for agents")
	case request.GetConfirmsProcess():
		return wire.FieldError("request.confirms_process", "true", "false: the host's agent confirms the engine")
	}
	for name := range req.GetSecrets() {
		if _, twice := spec.GetEnvironment()[name]; twice {
			return wire.FieldError("secrets["+name+"]", "", "a name that launch.environment does not have")
		}
	}
	return nil
}
