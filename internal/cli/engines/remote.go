package engines

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/requests"
	"github.com/bursar/bursar/internal/cli/servers"
	"github.com/bursar/bursar/internal/pause"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// remote is an engine on another host that this program started, and follows to its end.
type remote struct {
	c     *cmdline.Invocation
	cl    *client.Client
	req   *bursarv1.StartRequest
	grace time.Duration
	// copies is a file here that gets a copy of its standard output; nil: none does.
	copies *localCopy

	mu sync.Mutex
	id string // of its allocation; empty: not known yet
	// begun: its program runs, or ran.
	begun bool
	// leaving: the program ends with this code, and the engine may go on. 0: it does not.
	leaving int
	// unread: the reader of standard output has gone.
	unread bool
	// unsent: no coordinator can have got the request. It belongs to the goroutine of start, until
	// that has answered.
	unsent bool
	// cut: a part of the local copy is missing.
	cut  bool
	said map[string]bool // the messages that were said once
}

// started is the answer to a Start.
type started struct {
	allocation *bursarv1.Allocation
	err        error
}

// run starts the engine, shows its output, and returns its end as the error to end with.
func (r *remote) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if r.req.GetRequest().GetRequestId() == "" {
		r.req.Request.RequestId = client.NewRequestID()
	}
	signals := newRemoteSignals(ctx, r, cancel)
	defer signals.stop()
	answer := make(chan started, 1)
	stopShowing := requests.ShowWait(ctx, r.c.Reporter, r.cl, r.req.GetRequest())
	defer stopShowing()
	go func() {
		a, err := r.start(ctx)
		answer <- started{a, err}
	}()
	s, early := r.awaitBegin(ctx, answer)
	stopShowing()
	switch {
	case s.err != nil && ctx.Err() != nil:
		return r.interrupted(ctx)
	case s.err != nil && !hasBegun(s.allocation):
		return r.notStarted(ctx, s)
	}
	sayNormalized(r.c.Printer, s.allocation)
	last, err := r.follow(ctx, s.allocation)
	if early {
		s = <-answer // the engine has ended, so it comes at once
	}
	if code := r.leavingWith(); code != 0 {
		return &failure.ExitError{Code: code}
	}
	if err != nil {
		return err
	}
	return r.end(last, s.err)
}

// start asks for the engine until there is an answer. As soon as somebody has answered, it goes on
// for as long as it takes: the engine may run.
func (r *remote) start(ctx context.Context) (*bursarv1.Allocation, error) {
	calls := quiet(r.cl)
	r.unsent = true
	var since time.Time
	for {
		calling, cancel := context.WithTimeout(ctx, startPart+convert.Wait(r.req.GetRequest()))
		res, err := calls.Engines().Start(calling, r.req)
		late := calling.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil {
			return res.GetAllocation(), nil
		}
		r.unsent = r.unsent && client.Unconnected(err)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err() //nolint:wrapcheck // the caller's own
		case late:
			since = time.Time{}
			continue
		case !mayPass(err):
			a, _ := client.NotStarted(err)
			return a, err
		}
		now := time.Now()
		if since.IsZero() {
			since = now
		}
		known := r.current() != ""
		if now.Sub(since) >= servers.UnansweredUnseen && convert.Wait(r.req.GetRequest()) == 0 { // ShowWait says it otherwise
			r.once("start", func() { r.c.Sayf("bursar: %s%s", r.c.Message(err), servers.TryingAgain) })
		}
		if !known && now.Sub(since) > max(patience(r.unsent), convert.Wait(r.req.GetRequest())) {
			return nil, err
		}
		if !pause.For(retryPause, ctx.Done(), nil) {
			return nil, ctx.Err() //nolint:wrapcheck // the caller's own
		}
	}
}

// startPart is how long one call of Start may take, in addition to the wait of its request.
// Another call goes on with the same engine.
const startPart = 5 * time.Minute

// mayPass reports whether a Start has failed in a way that may end by itself. The engine may begin,
// or have begun.
func mayPass(err error) bool {
	return client.Unavailable(err) || connect.CodeOf(err) == connect.CodeAborted || tooMuchToDo(err)
}

// tooMuchToDo reports whether a server refuses a call for now, and not the request.
func tooMuchToDo(err error) bool {
	_, insufficient := client.Insufficient(err)
	return connect.CodeOf(err) == connect.CodeResourceExhausted && !insufficient && connect.IsWireError(err)
}

const (
	// lookFirst is the time between two looks for an engine that has to become ready, until it
	// begins, and lookLast is the longest such time. Of one without a readiness the answer to Start
	// tells, so its first such time is lookSeldom.
	lookFirst  = 200 * time.Millisecond
	lookSeldom = time.Second
	lookLast   = 5 * time.Second
)

// awaitBegin waits until the engine has begun or cannot. The answer to the Start of an engine
// without a readiness says so, unless it is lost. With a readiness that answer comes later, and the
// output should not wait for it: early is true if it has not come yet.
func (r *remote) awaitBegin(ctx context.Context, answer <-chan started) (s started, early bool) {
	seldom := r.req.GetLaunch().GetReady() == nil
	every := lookFirst
	if seldom {
		every = lookSeldom
	}
	timer := time.NewTimer(every)
	defer timer.Stop()
	for ; ; timer.Reset(every) {
		select {
		case s = <-answer:
			r.note(s.allocation)
			return s, false
		case <-timer.C:
		}
		a := r.look(ctx)
		r.note(a)
		switch {
		case a != nil && hasBegun(a):
			return started{allocation: a}, true
		case seldom, a.GetState() == bursarv1.AllocationState_ALLOCATION_STATE_WAITING:
			every = min(2*every, lookLast)
		default:
			every = lookFirst
		}
	}
}

// look reads the allocation of the request; nil: there is none yet, or nobody says.
func (r *remote) look(ctx context.Context) *bursarv1.Allocation {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	res, err := quiet(r.cl).Allocations().Get(ctx, &bursarv1.AllocationServiceGetRequest{RequestId: r.req.GetRequest().GetRequestId()})
	if err != nil {
		return nil
	}
	return res.GetAllocation()
}

// note takes note of an allocation.
func (r *remote) note(a *bursarv1.Allocation) {
	if a.GetId() == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.id, r.begun = a.GetId(), hasBegun(a)
}

// current is the id of the allocation; empty: not known.
func (r *remote) current() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.id
}

// hasBegun reports whether the program of a launch runs or ran.
func hasBegun(a *bursarv1.Allocation) bool {
	return a.GetLaunch().GetLogDirectory() != "" || a.GetExitStatus() != nil
}

// notStarted is the end if the engine has not begun, as far as anybody has said. It gives all back
// if nobody has said so.
func (r *remote) notStarted(ctx context.Context, s started) error {
	if s.allocation == nil && !r.unsent && (mayPass(s.err) || client.Undecided(s.err)) {
		r.giveBack(ctx, "its answer was lost")
	}
	if code := faultCode(s.allocation); code != 0 {
		return &failure.ExitError{Code: code, Err: s.err}
	}
	return s.err
}

// faultCode is the code with which a shell ends if it cannot execute a program, as the last try of
// a launch could not; 0: something else was the cause.
func faultCode(a *bursarv1.Allocation) int {
	tries := a.GetLaunch().GetTries()
	if len(tries) == 0 || hasBegun(a) {
		return 0
	}
	switch tries[len(tries)-1].GetFault() {
	case bursarv1.LaunchFault_LAUNCH_FAULT_NOT_FOUND:
		return failure.ExitNotFound
	case bursarv1.LaunchFault_LAUNCH_FAULT_NOT_EXECUTABLE:
		return failure.ExitNotExecutable
	case bursarv1.LaunchFault_LAUNCH_FAULT_UNSPECIFIED:
	}
	return 0
}

// end is the end of an engine that has begun, as this program's own.
func (r *remote) end(a *bursarv1.Allocation, start error) error {
	r.mu.Lock()
	unread, cut := r.unread, r.cut
	r.mu.Unlock()
	if unread {
		return &failure.ExitError{Code: failure.ExitSignal + int(syscall.SIGPIPE)}
	}
	if start != nil { // it was not ready in time, or ended before
		r.c.Sayf("bursar: %s", r.c.Message(start))
	} else {
		sayEnd(r.c.Printer, a)
	}
	if err := exitOf(a); err != nil {
		return err
	}
	if start != nil || cut {
		return &failure.ExitError{Code: failure.ExitFailed}
	}
	return nil
}

// exitOf is the exit of an engine, as an error without a text; nil: it has ended as it should.
func exitOf(a *bursarv1.Allocation) error {
	status := a.GetExitStatus()
	switch {
	case status.GetSignal() != 0:
		return &failure.ExitError{Code: failure.ExitSignal + int(status.GetSignal())}
	case status != nil && status.Code != nil && status.GetCode() != 0:
		return &failure.ExitError{Code: int(status.GetCode())}
	case status == nil && (a.GetLaunch() != nil || a.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_RELEASED):
		return &failure.ExitError{Code: cmp.Or(faultCode(a), failure.ExitFailed)}
	}
	return nil
}

// once does something the first time that it is asked to under a name.
func (r *remote) once(name string, do func()) {
	r.mu.Lock()
	before := r.said[name]
	if r.said == nil {
		r.said = make(map[string]bool)
	}
	r.said[name] = true
	r.mu.Unlock()
	if !before {
		do()
	}
}

// interrupted is the end if a signal came before the engine began. It gives all back.
func (r *remote) interrupted(ctx context.Context) error {
	r.giveBack(ctx, "interrupted")
	return &failure.ExitError{Code: max(failure.ExitFailed, r.leavingWith())}
}

// giveBack ends the request or the engine. If nobody answers, it says where the engine is to be
// looked for.
func (r *remote) giveBack(ctx context.Context, reason string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), servers.GiveUpTime)
	defer cancel()
	if err := r.giveUp(ctx, reason); err != nil {
		r.c.Sayf("bursar: %s; the engine may run: see bursar allocations %s", r.c.Message(err), r.req.GetRequest().GetRequestId())
	}
}

// giveUp ends the request, or the engine if it has begun meanwhile.
func (r *remote) giveUp(ctx context.Context, reason string) error {
	_, err := r.cl.Allocations().Cancel(ctx, &bursarv1.CancelRequest{RequestId: r.req.GetRequest().GetRequestId(), Reason: reason})
	if !client.Precondition(err) {
		if client.NotFound(err) {
			return nil
		}
		return err
	}
	a := r.look(ctx)
	if a == nil {
		return err
	}
	return r.stopEngine(ctx, a.GetId(), reason)
}

// stopEngine asks for the end of the engine.
func (r *remote) stopEngine(ctx context.Context, id, reason string) error {
	_, err := r.cl.Allocations().Stop(ctx, &bursarv1.StopRequest{Id: id, Grace: durationpb.New(r.grace), Reason: reason})
	if client.Precondition(err) || client.NotFound(err) { // it has ended
		return nil
	}
	if err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	return nil
}

// leave makes the program end with a code. The engine may go on.
func (r *remote) leave(code int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaving = code
}

func (r *remote) leavingWith() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leaving
}
