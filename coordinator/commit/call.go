package commit

import (
	"context"
	"errors"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/turns"
)

// pendingCall is a caller's side of a command: its goroutine waits here.
type pendingCall struct {
	core.Call
	done chan error // holds one, so that answering never blocks
}

func newPendingCall() any {
	p := &pendingCall{done: make(chan error, 1)}
	p.Done = func(err error) { p.done <- err }
	return p
}

// pendingRequest is the same for a Request.
type pendingRequest struct {
	core.Request
	done chan error // holds one, so that answering never blocks
}

func newPendingRequest() any {
	p := &pendingRequest{done: make(chan error, 1)}
	p.Done = func(err error) { p.done <- err }
	return p
}

// Do runs f on the ledger, in its turn. It returns once everything that f changed or saw is
// durable. If it returns an error, f may have run or may still run: its results must not be read.
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
	if answered { // else the loop still has it
		p.Do, p.From, p.Span = nil, nil, nil
		loop.calls.Put(p)
	}
	return err
}

// change runs a command that may be refused, and returns once what it changed is durable. The
// error is run's, or says why nothing is known of it. answered, if it is set, is called at every
// answer, even if the caller has gone away; it must not block.
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

// send queues a command and waits for its answer, which Done gives to done. If answered is true,
// nothing refers to the command any more.
func (loop *Loop) send(ctx context.Context, command core.Command, done <-chan error) (answered bool, err error) {
	return loop.sendOf(ctx, loop.owner(ctx), command, done)
}

// sendOf is send for a command whose owner is known.
func (loop *Loop) sendOf(ctx context.Context, of turns.Owner, command core.Command, done <-chan error) (answered bool, err error) {
	if err := loop.submit(of, command); err != nil {
		return true, err
	}
	loop.park(ctx)
	answered, err = loop.await(ctx, done)
	loop.resume(ctx)
	return answered, err
}

// park says that a call waits for the loop from now on.
func (loop *Loop) park(ctx context.Context) {
	if loop.Parked != nil {
		loop.Parked(ctx)
	}
}

// resume says that a call has its answer from the loop.
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

// ofHost is whose the reports of a host are.
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

// Register sends an announcement of a host through the loop.
func (loop *Loop) Register(ctx context.Context, r *core.Registration) error {
	done := make(chan error, 1)
	r.Done, r.From, r.Span = func(err error) { done <- err }, loop.origin(ctx), loop.Spans.newSpan(ctx)
	if _, err := loop.sendOf(ctx, ofHost(r.Command.HostID), r, done); err != nil {
		return err
	}
	loop.Spans.recordCall(r.Span, false)
	return r.Err
}

// Allocate sends a request through the loop and waits until it is decided, or its caller's
// deadline is near.
func (loop *Loop) Allocate(ctx context.Context, command *ledger.AllocateCommand) (ledger.AllocateResult, error) {
	start := loop.Clock.Now()
	return loop.withPast(ctx, command, func(of uint64) (ledger.AllocateResult, error) { return loop.allocate(ctx, command, of, start) })
}

// allocate is Allocate for a command whose Past was read in a leadership.
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
// does not say what is short, the refusal does not either.
func (loop *Loop) WaitedBefore(ctx context.Context, command *ledger.AllocateCommand, starvedSince ledger.Instant) *ledger.InsufficientError {
	var refusal *ledger.InsufficientError
	if err := loop.call(ctx, func(c *core.Core, _ ledger.Instant) { refusal = c.WaitedBefore(command, starvedSince) }); err != nil {
		return &ledger.InsufficientError{Reason: ledger.ReasonWaited}
	}
	return refusal
}

// takeResult takes the answer out of a request. Nothing else refers to the request any more.
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

// patienceTimer fires when a caller's patience is over.
func patienceTimer(ctx context.Context, command *ledger.AllocateCommand) (fires <-chan time.Time, stop func()) {
	after, bounded := patience(ctx, command)
	if !bounded {
		return nil, func() {}
	}
	timer := time.NewTimer(after)
	return timer.C, func() { timer.Stop() }
}

// patience is how long a caller waits whose deadline comes before the end of the wait: until
// shortly before the deadline. The answer must still get there, and nothing may be granted to a
// caller who is about to go away. A wait that ends at about the deadline is shortened, so that its
// end is the answer. It is not bounded if the wait ends first.
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
