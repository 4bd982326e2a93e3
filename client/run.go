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

// What Run tells the process about its allocation.
const (
	EnvAllocationID = "BURSAR_ALLOCATION_ID"
	EnvMemoryBytes  = "BURSAR_MEMORY_BYTES" // entitled, in bytes
	EnvCPUMillis    = "BURSAR_CPU_MILLIS"   // entitled, in thousandths of a core
)

// DefaultGrace is the time between SIGTERM and SIGKILL.
const DefaultGrace = 10 * time.Second

// Bounds of the calls that Run makes on its own account, whatever became of its context. Once the
// process has ended, its caller wants to go on, and the agent notices the end by itself.
const (
	confirmTimeout = 30 * time.Second
	confirmEnded   = 500 * time.Millisecond // after the process has ended
	releaseTimeout = 1500 * time.Millisecond
)

// RunOptions say what Run runs and whom it tells.
type RunOptions struct {
	// Request is what to allocate. It is never async. Without a request id it gets one.
	Request *bursarv1.AllocateRequest
	// Command has not been started. Its files and its SysProcAttr are the caller's; with Setpgid
	// or Foreground in it, Run stops the whole process group. Run adds EnvAllocationID,
	// EnvMemoryBytes and EnvCPUMillis to its environment.
	Command *exec.Cmd
	// Granted is called after the grant, before the start. May be nil.
	Granted func(*bursarv1.Allocation)
	// Started is called right after the start; from then on the caller may signal the process, and
	// what it does with signals of its own is its business. May be nil.
	Started func(*os.Process)
	// Ending is called when the process has ended, as long as its pid is still its own. A
	// goroutine that signals it or its group must stop before Ending returns. May be nil.
	Ending func()
	// Ended is called after that, before the release; by then its pid may be another's. May be
	// nil.
	Ended func(*os.ProcessState)
	// Grace is the time between SIGTERM and SIGKILL if Run has to stop the process. Default
	// DefaultGrace.
	Grace time.Duration
}

// RunResult is the result of a Run.
type RunResult struct {
	// Allocation is as last heard of; nil if there was no grant.
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

// RunError says in which phase Run failed. In PhaseAllocate and PhaseStart nothing runs and
// nothing is held. In PhaseConfirm the process was stopped and the reservation given back, or it
// expires. In PhaseRelease the process ended by itself, and nobody said within two seconds that
// this is known; its agent will notice.
type RunError struct {
	Phase Phase
	Err   error
}

func (e *RunError) Error() string { return fmt.Sprintf("%s: %v", e.Phase, e.Err) }

// Unwrap returns the cause.
func (e *RunError) Unwrap() error { return e.Err }

// Run takes one process of this host through a whole allocation: allocate, start, confirm, wait,
// release. The client must be one of this host's agent. Nothing starts before the grant, and
// whatever happens after it, what was granted is given back, unless Run's own process is killed:
// then the agent notices the end of the process.
//
// When ctx ends, a request that waits is canceled, and a process that runs is stopped: SIGTERM,
// and after the grace SIGKILL. A process that exits by itself is no error, whatever its code.
// Errors are *RunError.
func (c *Client) Run(ctx context.Context, opts RunOptions) (RunResult, error) {
	r := runner{client: c, opts: opts}
	if r.opts.Grace <= 0 {
		r.opts.Grace = DefaultGrace
	}
	// not found, which is better known before somebody waits for it
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
		_ = r.release(ctx, "not confirmed: "+err.Error())
		return r.result, &RunError{PhaseConfirm, err}
	}
	r.wait(ctx)
	if err := r.release(ctx, ""); err != nil {
		return r.result, &RunError{PhaseRelease, err}
	}
	return r.result, nil
}

// withoutPath is what the kernel said of a program, without its name: everybody is shown the
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
	gone   chan struct{} // closed when the process has ended and is still to be waited for
	ended  chan struct{} // closed when the process has been waited for; nil until somebody waits
	ownRSS int64         // the most that this process had in RAM when it started the other, in bytes

	mu   sync.Mutex
	lost bool // guarded by mu; the process's pid is not its own any more, or will not be soon
}

func (r *runner) allocate(ctx context.Context) error {
	req := proto.CloneOf(r.opts.Request)
	if req == nil {
		req = &bursarv1.AllocateRequest{}
	}
	req.Async, req.ConfirmsProcess = false, true
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

// confirm comes before anybody waits for the process. A process that has ended is then still there
// for the agent to look at, and nobody else has its pid.
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
	res, err := r.client.allocations.Confirm(ctx, &bursarv1.ConfirmRequest{
		Id:      r.result.Allocation.GetId(),
		Process: &bursarv1.Process{Pid: int32(pid)}, //nolint:gosec // a pid is below 2^22
	})
	if err == nil {
		r.result.Allocation = res.GetAllocation()
		return nil
	}
	if exited(pid) {
		return nil // so quick that there was nothing left to confirm
	}
	return err
}

// wait returns when the process has ended.
func (r *runner) wait(ctx context.Context) {
	r.reap()
	select {
	case <-r.ended:
		r.finish()
	case <-ctx.Done():
		r.stop()
	}
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

// signal reaches the process until it has ended, or its group if it has one of its own. After that
// its number may be another group's.
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
	_ = process.Signal(sig) // it has ended, then
}

// release gives back what was granted, also when ctx is over.
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

// ExitStatus says in the API's words how a process ended; nil for nil.
func ExitStatus(state *os.ProcessState) *bursarv1.ExitStatus {
	if state == nil {
		return nil
	}
	if status, isWait := state.Sys().(syscall.WaitStatus); isWait && status.Signaled() {
		return &bursarv1.ExitStatus{Signal: int32(status.Signal())} //nolint:gosec // at most 64
	}
	return &bursarv1.ExitStatus{Code: new(int32(state.ExitCode()))} //nolint:gosec // at most 255
}
