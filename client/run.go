//go:build unix

package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// Environment variables of the process, which Run sets.
const (
	EnvAllocationID = "BURSAR_ALLOCATION_ID"
	EnvMemoryBytes  = "BURSAR_MEMORY_BYTES" // entitled, in bytes
	EnvCPUMillis    = "BURSAR_CPU_MILLIS"   // entitled, in thousandths of a core
)

// ErrNoLimit means that the agent did not set the requested limit: its version has no limits.
var ErrNoLimit = errors.New("the agent of this host set no limit: want a newer agent, or a request without a limit")

// DefaultGrace is the time between SIGTERM and SIGKILL.
const DefaultGrace = 10 * time.Second

// Bounds of the calls that Run makes even if its context is over. After the end of the process the
// caller wants to continue, and the agent detects the end by itself.
const (
	confirmTimeout = 30 * time.Second
	confirmEnded   = 500 * time.Millisecond // after the process has ended
	releaseTimeout = 1500 * time.Millisecond
)

// RunOptions configure a Run.
type RunOptions struct {
	// Request is the request for the allocation. Run makes it synchronous, and adds a request id if
	// there is none.
	Request *bursarv1.AllocateRequest
	// Command has not been started. The caller sets its files and its SysProcAttr; with Setpgid or
	// Foreground in it, Run stops the whole process group. Run adds EnvAllocationID, EnvMemoryBytes
	// and EnvCPUMillis to its environment.
	Command *exec.Cmd
	// Granted is called after the grant, before the start. May be nil.
	Granted func(*bursarv1.Allocation)
	// Started is called right after the start. From then on the caller may signal the process, and
	// handles its own signals itself. May be nil.
	Started func(*os.Process)
	// Confirmed is called after the process was confirmed. By then the agent has put it into its
	// cgroup, if it gets one, so a process that waits for this call sees its own limits. An error
	// means that the process has not begun its work: Run ends it, releases the allocation, and
	// returns the error in PhaseStart. May be nil.
	Confirmed func(ctx context.Context) error
	// Ending is called when the process has ended and before its pid can be reused. A goroutine
	// that signals it or its group must stop before Ending returns. May be nil.
	Ending func()
	// Ended is called after Ending and before the release; by then another process may have the
	// pid. May be nil.
	Ended func(*os.ProcessState)
	// Rest is for a caller that is a child subreaper (prctl(2)) and has no other child: processes
	// that the process leaves behind become children of the caller. The agent is told so: see
	// ConfirmRequest.reaps. Rest is called after Ended. It returns when none of these processes is
	// left, and reports how they ended. May be nil.
	Rest func(Ended) Rested
	// Limit asks the agent for a hard cap: see ConfirmRequest.limit. If the kernel does not enforce
	// it, Run stops the process. Default: none, unless the host's policy sets one.
	Limit bool
	// Grace is the time between SIGTERM and SIGKILL if Run has to stop the process. Default
	// DefaultGrace.
	Grace time.Duration
}

// Ended describes the end of Run's process.
type Ended struct {
	// Allocation is the last known state.
	Allocation *bursarv1.Allocation
	State      *os.ProcessState
	// Stop: the other processes must be stopped, because the process was stopped or was not
	// confirmed.
	Stop bool
}

// Rested is the outcome of the processes that Run's process has left behind.
type Rested struct {
	// Reason describes the end of the last one; empty: there was none.
	Reason string
	// Kept: some could not be ended and still run. The allocation stays until the agent detects
	// their end.
	Kept bool
}

// RunResult is the result of a Run.
type RunResult struct {
	// Allocation is the last known state; nil if there was no grant.
	Allocation *bursarv1.Allocation
	// State is how the process ended; nil if it was never started.
	State *os.ProcessState
}

// Phase is a step of Run.
type Phase string

// The phases, in their order.
const (
	PhaseAllocate Phase = "allocate"
	PhaseStart    Phase = "start"
	PhaseConfirm  Phase = "confirm"
	PhaseRelease  Phase = "release"
)

// RunError names the phase in which Run failed. In PhaseAllocate and PhaseStart nothing runs and
// nothing is held. In PhaseConfirm the process was stopped, and the reservation was released or
// expires. In PhaseRelease the process ended by itself, and nobody acknowledged that within two
// seconds; its agent will detect it.
type RunError struct {
	Phase Phase
	Err   error
}

func (e *RunError) Error() string { return fmt.Sprintf("%s: %v", e.Phase, e.Err) }

// Unwrap returns the cause.
func (e *RunError) Unwrap() error { return e.Err }

// Run takes one process of this host through a whole allocation: allocate, start, confirm, wait,
// release. The client must be one of this host's agent. Nothing starts before the grant. After the
// grant, Run always releases it, unless Run's own process is killed: then the agent detects the end
// of the process.
//
// When ctx ends, Run cancels a waiting request and stops a running process: SIGTERM, and after the
// grace SIGKILL. A process that exits by itself is no error, with any code. Errors are *RunError.
func (c *Client) Run(ctx context.Context, opts RunOptions) (RunResult, error) {
	r := runner{client: c, opts: opts}
	if r.opts.Grace <= 0 {
		r.opts.Grace = DefaultGrace
	}
	// an unknown command is reported before the wait
	if err := opts.Command.Err; err != nil {
		return r.result, &RunError{PhaseStart, err}
	}
	if err := r.allocate(ctx); err != nil {
		return r.result, &RunError{PhaseAllocate, err}
	}
	if opts.Granted != nil {
		opts.Granted(r.result.Allocation)
	}
	if err := r.start(ctx); err != nil {
		_ = r.release(ctx, "not started: "+withoutPath(err).Error()) // it expires by itself
		return r.result, &RunError{PhaseStart, err}
	}
	if err := r.confirm(ctx); err != nil {
		r.stop()
		r.rest(true)
		_ = r.release(ctx, "not confirmed: "+err.Error())
		return r.result, &RunError{PhaseConfirm, err}
	}
	if err := r.begin(ctx); err != nil {
		r.stop()
		r.rest(true)
		r.result.State = nil
		_ = r.release(ctx, "not started: "+withoutPath(err).Error()) // the agent detects its end
		return r.result, &RunError{PhaseStart, err}
	}
	rested := r.rest(r.wait(ctx) || !r.confirmed)
	if rested.Kept {
		return r.result, nil
	}
	if err := r.release(ctx, rested.Reason); err != nil {
		return r.result, &RunError{PhaseRelease, err}
	}
	return r.result, nil
}

// withoutPath returns the kernel's error about a program without its path: everybody may read the
// reason of a release.
func withoutPath(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}

// runner is one Run.
type runner struct {
	client *Client
	opts   RunOptions
	result RunResult
	gone   chan struct{} // closed when the process has ended and is not reaped yet
	ended  chan struct{} // closed when the process was reaped; nil until somebody waits
	// confirmed: the agent knows the process.
	confirmed bool
	ownRSS    int64 // peak RSS of this process when it started the other, in bytes

	mu   sync.Mutex
	lost bool // guarded by mu; the pid is free for other processes, or will be soon
}

func (r *runner) allocate(ctx context.Context) error {
	req := proto.CloneOf(r.opts.Request)
	if req == nil {
		req = &bursarv1.AllocateRequest{}
	}
	req.Async, req.ConfirmsProcess, req.Limit = false, true, r.opts.Limit
	if req.GetRequestId() == "" {
		req.RequestId = NewRequestID()
	}
	res, err := r.client.allocations.Allocate(ctx, req)
	if err == nil {
		r.result.Allocation = res.GetAllocation()
		return nil
	}
	if Undecided(err) {
		r.client.allocations.cancelUndecided(ctx, req.GetRequestId())
	}
	return err
}

func (r *runner) start(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	allocation := r.result.Allocation
	r.opts.Command.Env = append(r.opts.Command.Environ(),
		EnvAllocationID+"="+allocation.GetId(),
		EnvMemoryBytes+"="+strconv.FormatInt(allocation.GetEntitled().GetMemoryBytes(), 10),
		EnvCPUMillis+"="+strconv.FormatInt(allocation.GetEntitled().GetCpuMillis(), 10),
	)
	if err := r.opts.Command.Start(); err != nil {
		return err //nolint:wrapcheck // names the command
	}
	r.ownRSS = ownRSS()
	r.gone = make(chan struct{})
	go func() {
		defer close(r.gone)
		awaitEnd(r.opts.Command.Process.Pid)
	}()
	if r.opts.Started != nil {
		r.opts.Started(r.opts.Command.Process)
	}
	return nil
}

// confirm runs before anybody waits for the process. If the process has ended, the agent can still
// inspect it, and no other process has its pid.
func (r *runner) confirm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	go func() {
		select {
		case <-r.gone:
			time.AfterFunc(confirmEnded, cancel)
		case <-ctx.Done():
		}
	}()
	pid := r.opts.Command.Process.Pid
	request := &bursarv1.ConfirmRequest{
		Id:      r.result.Allocation.GetId(),
		Process: &bursarv1.Process{Pid: int32(pid)}, //nolint:gosec // a pid is below 2^22
		Reaps:   r.opts.Rest != nil,
		Limit:   r.opts.Limit,
	}
	res, err := r.client.allocations.Confirm(ctx, request)
	if err != nil && r.opts.Rest != nil && exited(pid) {
		// It ended while the agent inspected it. Processes that it left behind may still run.
		res, err = r.client.allocations.Confirm(ctx, request)
	}
	if err == nil && r.opts.Limit && !res.GetAllocation().GetProcess().GetLimit() {
		return ErrNoLimit
	}
	if err == nil {
		r.result.Allocation, r.confirmed = res.GetAllocation(), true
		return nil
	}
	if exited(pid) {
		return nil // it ended before it could be confirmed
	}
	return err
}

// begin calls Confirmed. If ctx ends meanwhile, the process is stopped like a running one.
func (r *runner) begin(ctx context.Context) error {
	if r.opts.Confirmed == nil {
		return nil
	}
	if err := r.opts.Confirmed(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// wait returns when the process has ended, and reports whether it had to be stopped.
func (r *runner) wait(ctx context.Context) (stopped bool) {
	r.reap()
	select {
	case <-r.ended:
		r.finish()
		return false
	case <-ctx.Done():
		r.stop()
		return true
	}
}

// rest waits for the processes that the process has left behind.
func (r *runner) rest(stop bool) Rested {
	if r.opts.Rest == nil {
		return Rested{}
	}
	return r.opts.Rest(Ended{Allocation: r.result.Allocation, State: r.result.State, Stop: stop})
}

func (r *runner) finish() {
	r.result.State = r.opts.Command.ProcessState
	if r.opts.Ended != nil {
		r.opts.Ended(r.result.State)
	}
}

// stop ends the process: SIGTERM, and after the grace SIGKILL.
func (r *runner) stop() {
	r.reap()
	r.signal(syscall.SIGTERM)
	grace := time.NewTimer(r.opts.Grace)
	defer grace.Stop()
	select {
	case <-r.ended:
	case <-grace.C:
		r.signal(syscall.SIGKILL)
		<-r.ended
	}
	r.finish()
}

func (r *runner) reap() {
	if r.ended == nil {
		r.ended = make(chan struct{})
		go func() {
			defer close(r.ended)
			<-r.gone
			r.mu.Lock()
			r.lost = true
			r.mu.Unlock()
			if r.opts.Ending != nil {
				r.opts.Ending()
			}
			_ = r.opts.Command.Wait() // how it ended is in ProcessState
		}()
	}
}

// signal signals the process until it has ended, or its group if it has its own. After that another
// group may have the number.
func (r *runner) signal(sig syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost {
		return
	}
	process := r.opts.Command.Process
	if attr := r.opts.Command.SysProcAttr; attr != nil && (attr.Setpgid && attr.Pgid == 0 || attr.Foreground || attr.Setsid) {
		if syscall.Kill(-process.Pid, sig) == nil {
			return
		}
	}
	_ = process.Signal(sig) // fails only if it has ended
}

// release releases the grant, also when ctx is over.
func (r *runner) release(ctx context.Context, reason string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	request := &bursarv1.ReleaseRequest{Id: r.result.Allocation.GetId(), Reason: reason, ExitStatus: ExitStatus(r.result.State)}
	sayUse(request, r.result.State, r.ownRSS)
	res, err := r.client.allocations.Release(ctx, request)
	if err != nil {
		return err
	}
	if res.GetAllocation() != nil {
		r.result.Allocation = res.GetAllocation()
	}
	return nil
}

// ExitStatus converts the end of a process to the API; nil for nil.
func ExitStatus(state *os.ProcessState) *bursarv1.ExitStatus {
	if state == nil {
		return nil
	}
	if status, isWait := state.Sys().(syscall.WaitStatus); isWait && status.Signaled() {
		return &bursarv1.ExitStatus{Signal: int32(status.Signal())} //nolint:gosec // at most 64
	}
	return &bursarv1.ExitStatus{Code: new(int32(state.ExitCode()))} //nolint:gosec // at most 255
}
