package commit

import (
	"context"
	"errors"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/turns"
)

// pendingCall is the caller's side of a command: the caller's goroutine waits on it.
type pendingCall struct {
	core.Call
	done chan error // holds one, so that answering never blocks
}

func newPendingCall() any {
	p := &pendingCall{done: make(chan error, 1)}
	p.Done = func(err error) { p.done <- err }
	return p
}

// pendingRequest is the caller's side of a Request.
type pendingRequest struct {
	core.Request
	done chan error // holds one, so that answering never blocks
}

func newPendingRequest() any {
	p := &pendingRequest{done: make(chan error, 1)}
	p.Done = func(err error) { p.done <- err }
	return p
}

// Do runs f on the ledger, in the caller's turn. It returns once everything that f changed or read
// is durable. If it returns an error, f may have run or may still run: the caller must not read its
// results.
func (loop *Loop) Do(ctx context.Context, f func(l *ledger.Ledger, now ledger.Instant)) error {
	return loop.call(ctx, core.OnLedger(f))
}

// call is Do for a command that needs the core.
func (loop *Loop) call(ctx context.Context, f func(c *core.Core, now ledger.Instant)) error {
	p, _ := loop.calls.Get().(*pendingCall)
	p.Do, p.From, p.Span = f, loop.origin(ctx), loop.Spans.newSpan(ctx)
	answered, err := loop.send(ctx, &p.Call, p.done)
	if err == nil {
		loop.Spans.recordCall(p.Span, false)
	}
	if answered { // otherwise the loop still has it
		p.Do, p.From, p.Span = nil, nil, nil
		loop.calls.Put(p)
	}
	return err
}

// change runs a command that may be refused, and returns once its changes are durable. The error is
// that of run, or says why the result is unknown. answered, if set, is called at every answer, even
// if the caller has gone away; it must not block.
func (loop *Loop) change(ctx context.Context, from *core.Origin, run func(c *core.Core, now ledger.Instant) error, answered func()) error {
	var refused error
	done := make(chan error, 1)
	_, err := loop.send(ctx, &core.Call{
		From: from,
		Do:   func(c *core.Core, now ledger.Instant) { refused = run(c, now) },
		Done: func(err error) {
			done <- err
			if answered != nil {
				answered()
			}
		},
	}, done)
	if err != nil {
		return err
	}
	return refused
}

// send queues a command and waits for its answer, which Done sends to done. If answered is true, no
// other goroutine refers to the command any more.
func (loop *Loop) send(ctx context.Context, command core.Command, done <-chan error) (answered bool, err error) {
	return loop.sendOf(ctx, loop.owner(ctx), command, done)
}

// sendOf is send for a command with a known owner.
func (loop *Loop) sendOf(ctx context.Context, of turns.Owner, command core.Command, done <-chan error) (answered bool, err error) {
	if err := loop.submit(of, command); err != nil {
		return true, err
	}
	loop.park(ctx)
	answered, err = loop.await(ctx, done)
	loop.resume(ctx)
	return answered, err
}

// park reports that a call begins to wait for the loop.
func (loop *Loop) park(ctx context.Context) {
	if loop.Parked != nil {
		loop.Parked(ctx)
	}
}

// resume reports that the loop has answered a call.
func (loop *Loop) resume(ctx context.Context) {
	if loop.Resumed != nil {
		loop.Resumed(ctx)
	}
}

// await waits for an answer. answered is false if none came, because the caller went away or the
// loop has ended.
func (loop *Loop) await(ctx context.Context, done <-chan error) (answered bool, err error) {
	select {
	case err := <-done:
		return true, err
	case <-ctx.Done():
		return false, ctx.Err()
	case <-loop.done:
	}
	select { // the last answers come before the loop ends
	case err := <-done:
		return true, err
	default:
		return false, core.ErrStopping
	}
}

// Decide runs a command of the ledger that has a result.
func Decide[R any](ctx context.Context, r Reader, f func(l *ledger.Ledger, now ledger.Instant) (R, error)) (R, error) {
	var result struct {
		value R
		err   error
	}
	if err := r.Do(ctx, func(l *ledger.Ledger, now ledger.Instant) { result.value, result.err = f(l, now) }); err != nil {
		var none R
		return none, err
	}
	return result.value, result.err
}

// ofHost returns the owner of a host's reports.
func ofHost(id string) turns.Owner { return turns.Owner{Class: turns.Hosts, Name: id} }

// Sync sends a heartbeat through the loop.
func (loop *Loop) Sync(ctx context.Context, r *core.Report) error {
	done := make(chan error, 1)
	r.Done, r.From, r.Span = func(err error) { done <- err }, loop.origin(ctx), loop.Spans.newSpan(ctx)
	if _, err := loop.sendOf(ctx, ofHost(r.Command.HostID), r, done); err != nil {
		return err
	}
	loop.Spans.recordCall(r.Span, false)
	if n := &r.Result.NotTaken; r.Err == nil && n.Count > 0 {
		loop.Metrics.notTaken.Add(float64(n.Count))
		loop.notTaken.log(loop.Log, r.Command.HostID, n)
	}
	if r.FirstSetback != nil {
		for _, text := range r.FirstSetback.Warning() {
			loop.Log.Warn(text, "host", r.Command.HostID)
		}
	}
	if n := r.Result.Unvouched; r.Err == nil && n > 0 && loop.unvouched.isDue(r.Command.HostID, time.Now()) {
		loop.Log.Warn("a host reports engines that the ledger does not know and that no seal vouches for: they count for a user of its own until an operator accepts them (bursar host accept)",
			"host", r.Command.HostID, "engines", n)
	}
	return r.Err
}

// Register sends a host's registration through the loop.
func (loop *Loop) Register(ctx context.Context, r *core.Registration) error {
	done := make(chan error, 1)
	r.Done, r.From, r.Span = func(err error) { done <- err }, loop.origin(ctx), loop.Spans.newSpan(ctx)
	if _, err := loop.sendOf(ctx, ofHost(r.Command.HostID), r, done); err != nil {
		return err
	}
	loop.Spans.recordCall(r.Span, false)
	return r.Err
}

// Allocate sends a request through the loop and waits until it is decided, or until shortly before
// the caller's deadline.
func (loop *Loop) Allocate(ctx context.Context, command *ledger.AllocateCommand) (ledger.AllocateResult, error) {
	start := loop.Clock.Now()
	return loop.withPast(ctx, command, func(of uint64) (ledger.AllocateResult, error) { return loop.allocate(ctx, command, of, start) })
}

// allocate is Allocate for a command whose Past was read in the leadership pastOf.
func (loop *Loop) allocate(ctx context.Context, command *ledger.AllocateCommand, pastOf uint64, start ledger.Instant) (ledger.AllocateResult, error) {
	patience, stop := patienceTimer(ctx, command)
	defer stop()
	p, _ := loop.requests.Get().(*pendingRequest)
	p.Command, p.PastOf, p.From, p.Span = *command, pastOf, loop.origin(ctx), loop.Spans.newSpan(ctx)
	of := loop.owner(ctx)
	if err := loop.submit(of, &p.Request); err != nil {
		p.Span, p.From = nil, nil
		loop.requests.Put(p)
		return ledger.AllocateResult{}, err
	}
	loop.park(ctx)
	select {
	case err := <-p.done:
		result, err := loop.takeResult(p, start, err)
		loop.resume(ctx)
		return result, err
	case <-patience:
		loop.queue.force(of, p.Withdraw())
		return ledger.AllocateResult{}, &PatienceError{RequestID: command.RequestID}
	case <-ctx.Done():
		loop.queue.force(of, p.Withdraw())
		return ledger.AllocateResult{}, ctx.Err()
	case <-loop.done:
	}
	select { // the last answers come before the loop ends
	case err := <-p.done:
		return loop.takeResult(p, start, err)
	default:
		return ledger.AllocateResult{}, core.ErrStopping
	}
}

// WaitedBefore refuses a repeat of a request whose wait is over, as core.Core does. If the loop
// does not answer, the refusal has no shortfalls.
func (loop *Loop) WaitedBefore(ctx context.Context, command *ledger.AllocateCommand, starvedSince ledger.Instant) *ledger.InsufficientError {
	var refusal *ledger.InsufficientError
	if err := loop.call(ctx, func(c *core.Core, _ ledger.Instant) { refusal = c.WaitedBefore(command, starvedSince) }); err != nil {
		return &ledger.InsufficientError{Reason: ledger.ReasonWaited}
	}
	return refusal
}

// takeResult takes the answer from a request. No other goroutine refers to the request any more.
func (loop *Loop) takeResult(p *pendingRequest, start ledger.Instant, err error) (ledger.AllocateResult, error) {
	result := p.Result
	if err == nil {
		err = p.Err
		loop.observeLatency(&p.Request, start)
		loop.Spans.recordCall(p.Span, p.Waited)
	} else {
		result = ledger.AllocateResult{}
	}
	p.Request = core.Request{Done: p.Done}
	loop.requests.Put(p)
	return result, err
}

// patienceTimer returns a timer of the caller's patience.
func patienceTimer(ctx context.Context, command *ledger.AllocateCommand) (fires <-chan time.Time, stop func()) {
	after, bounded := patience(ctx, command)
	if !bounded {
		return nil, func() {}
	}
	timer := time.NewTimer(after)
	return timer.C, func() { timer.Stop() }
}

// patience returns how long a caller waits whose deadline comes before the end of the wait: until
// shortly before the deadline. The answer needs time to get there, and the ledger must grant
// nothing to a caller that is about to go away. If the wait ends at about the deadline, patience
// shortens it, so that the end of the wait is the answer. bounded is false if the wait ends first.
func patience(ctx context.Context, command *ledger.AllocateCommand) (after time.Duration, bounded bool) {
	deadline, has := ctx.Deadline()
	if !has || command.Wait <= 0 || command.Async {
		return 0, false
	}
	left := time.Until(deadline)
	ample := left - min(left/10, 250*time.Millisecond)
	switch {
	case command.Wait <= ample:
		return 0, false
	case command.Wait <= left+time.Second:
		command.Wait = max(0, ample)
		return 0, false
	}
	return ample, true
}

func (loop *Loop) observeLatency(r *core.Request, start ledger.Instant) {
	took := loop.Clock.Now().Sub(start).Seconds()
	_, short := errors.AsType[*ledger.InsufficientError](r.Err)
	switch {
	case r.Waited:
		loop.Metrics.waited.Observe(took)
	case r.Err == nil && r.Result.Allocation.State == ledger.Reserved:
		loop.Metrics.granted.Observe(took)
	case short:
		loop.Metrics.short.Observe(took)
	default:
		loop.Metrics.other.Observe(took)
	}
}
