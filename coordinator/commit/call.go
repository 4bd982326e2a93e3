package commit

import (
	"context"
	"errors"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
)

// pendingCall is a caller's side of a command: where its goroutine waits.
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

// Do runs f on the ledger, in its turn, and returns once everything that f changed or saw is durable. Where it returns an
// error, f may have been run, or be run yet: its results must not be read.
func (w *Loop) Do(ctx context.Context, f func(l *ledger.Ledger, now ledger.Instant)) error {
	return w.call(ctx, core.OnLedger(f))
}

// call is Do for a command that needs the core.
func (w *Loop) call(ctx context.Context, f func(c *core.Core, now ledger.Instant)) error {
	p, _ := w.calls.Get().(*pendingCall)
	p.Do, p.From, p.Span = f, w.origin(ctx), w.Spans.newSpan(ctx)
	answered, err := w.send(ctx, &p.Call, p.done)
	if err == nil {
		w.Spans.recordCall(p.Span, false)
	}
	if answered { // else the loop still has it
		p.Do, p.From, p.Span = nil, nil, nil
		w.calls.Put(p)
	}
	return err
}

// change runs a command that may be refused, and returns once what it changed is durable. The error is run's, or says why nothing is
// known of it. answered, if it is set, is called at every answer, even if the caller has gone away; it must not block.
func (w *Loop) change(ctx context.Context, from *core.Origin, run func(c *core.Core, now ledger.Instant) error, answered func()) error {
	var refused error
	done := make(chan error, 1)
	_, err := w.send(ctx, &core.Call{
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

// send queues a command and waits for its answer, which Done gives to done. answered says that nobody refers to the command any more.
func (w *Loop) send(ctx context.Context, command core.Command, done <-chan error) (answered bool, err error) {
	if err := w.submit(command); err != nil {
		return true, err
	}
	return w.await(ctx, done)
}

// await waits for an answer. answered is false where it did not come: the caller went away, or the loop has ended.
func (w *Loop) await(ctx context.Context, done <-chan error) (answered bool, err error) {
	select {
	case err := <-done:
		return true, err
	case <-ctx.Done():
		return false, ctx.Err()
	case <-w.done:
	}
	select { // the last answers come before the loop ends
	case err := <-done:
		return true, err
	default:
		return false, core.ErrStopping
	}
}

// Decide runs a command of the ledger that has a result.
func Decide[R any](ctx context.Context, b Reader, f func(l *ledger.Ledger, now ledger.Instant) (R, error)) (R, error) {
	var result struct {
		value R
		err   error
	}
	if err := b.Do(ctx, func(l *ledger.Ledger, now ledger.Instant) { result.value, result.err = f(l, now) }); err != nil {
		var none R
		return none, err
	}
	return result.value, result.err
}

// Sync sends a heartbeat through the loop.
func (w *Loop) Sync(ctx context.Context, r *core.Report) error {
	done := make(chan error, 1)
	r.Done, r.From, r.Span = func(err error) { done <- err }, w.origin(ctx), w.Spans.newSpan(ctx)
	if _, err := w.send(ctx, r, done); err != nil {
		return err
	}
	w.Spans.recordCall(r.Span, false)
	if n := &r.Result.NotTaken; r.Err == nil && n.Count > 0 {
		w.Meter.notTaken.Add(float64(n.Count))
		w.notTaken.log(w.Log, r.Command.HostID, n)
	}
	return r.Err
}

// Register sends an announcement of a host through the loop.
func (w *Loop) Register(ctx context.Context, e *core.Enrolment) error {
	done := make(chan error, 1)
	e.Done, e.From, e.Span = func(err error) { done <- err }, w.origin(ctx), w.Spans.newSpan(ctx)
	if _, err := w.send(ctx, e, done); err != nil {
		return err
	}
	w.Spans.recordCall(e.Span, false)
	return e.Err
}

// Allocate sends a request through the loop and waits until it is decided, or its caller is about to lose patience.
func (w *Loop) Allocate(ctx context.Context, command *ledger.AllocateCommand) (ledger.AllocateResult, error) {
	start := w.Clock.Now()
	patience, stop := w.patienceTimer(ctx, command)
	defer stop()
	p, _ := w.requests.Get().(*pendingRequest)
	p.Command, p.From, p.Span = *command, w.origin(ctx), w.Spans.newSpan(ctx)
	if err := w.submit(&p.Request); err != nil {
		p.Span, p.From = nil, nil
		w.requests.Put(p)
		return ledger.AllocateResult{}, err
	}
	select {
	case err := <-p.done:
		return w.takeResult(p, start, err)
	case <-patience:
		w.priority.put(p.Withdraw())
		return ledger.AllocateResult{}, &PatienceError{RequestID: command.RequestID}
	case <-ctx.Done():
		w.priority.put(p.Withdraw())
		return ledger.AllocateResult{}, ctx.Err()
	case <-w.done:
	}
	select { // the last answers come before the loop ends
	case err := <-p.done:
		return w.takeResult(p, start, err)
	default:
		return ledger.AllocateResult{}, core.ErrStopping
	}
}

// takeResult takes the answer out of a request, to which nobody else refers any more.
func (w *Loop) takeResult(p *pendingRequest, start ledger.Instant, err error) (ledger.AllocateResult, error) {
	result := p.Result
	if err == nil {
		err = p.Err
		w.observeLatency(&p.Request, start)
		w.Spans.recordCall(p.Span, p.Waited)
	} else {
		result = ledger.AllocateResult{}
	}
	p.Request = core.Request{Done: p.Done}
	w.requests.Put(p)
	return result, err
}

// patienceTimer is what fires shortly before the caller's deadline, where that comes before the end of the wait: the answer
// must still get there, and nothing may be granted to a caller who is about to hang up. A wait that ends about when the
// deadline does is shortened, so that its end is the answer.
func (w *Loop) patienceTimer(ctx context.Context, command *ledger.AllocateCommand) (fires <-chan time.Time, stop func()) {
	deadline, bounded := ctx.Deadline()
	if !bounded || command.Wait <= 0 || command.Async {
		return nil, func() {}
	}
	left := time.Until(deadline)
	ample := left - min(left/10, 250*time.Millisecond)
	switch {
	case command.Wait <= ample:
		return nil, func() {}
	case command.Wait <= left+time.Second:
		command.Wait = max(0, ample)
		return nil, func() {}
	}
	timer := time.NewTimer(ample)
	return timer.C, func() { timer.Stop() }
}

func (w *Loop) observeLatency(r *core.Request, start ledger.Instant) {
	took := w.Clock.Now().Sub(start).Seconds()
	_, short := errors.AsType[*ledger.InsufficientError](r.Err)
	switch {
	case r.Waited:
		w.Meter.waited.Observe(took)
	case r.Err == nil && r.Result.Allocation.State == ledger.Reserved:
		w.Meter.granted.Observe(took)
	case short:
		w.Meter.short.Observe(took)
	default:
		w.Meter.other.Observe(took)
	}
}
