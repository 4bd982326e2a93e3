package commit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/turns"
)

// LaterRequest is a request whose caller waits without a goroutine here. Make it with NewLater and
// send it with AllocateLater, once. Any goroutine may use it.
type LaterRequest struct {
	loop    *Loop
	of      turns.Owner
	start   ledger.Instant
	request core.Request // the waiting request
	decided func(lost bool)

	mu       sync.Mutex
	patience *time.Timer // guarded by mu; nil: there is none
	over     bool        // guarded by mu; it was decided, or withdrawn
	err      error       // guarded by mu; if nil once it is over, request has the result
}

// NewLater returns a request that waits later. decided is called once when its wait is over, unless
// Withdraw came first. lost says that the leadership has ended, so that the result is unknown.
// decided must not block.
func (loop *Loop) NewLater(ctx context.Context, decided func(lost bool)) *LaterRequest {
	later := &LaterRequest{loop: loop, of: loop.owner(ctx), start: loop.Clock.Now(), decided: decided}
	later.request.Done = func(err error) {
		if err == nil {
			loop.observeLatency(&later.request, later.start)
		}
		if later.end(err) {
			decided(err != nil)
		}
	}
	return later
}

// AllocateLater is Allocate, but if the request must wait, it returns the waiting allocation. If
// ctx ends before it returns, the request is withdrawn. If Withdraw comes before the request has
// its turn, the error is core.ErrWithdrawn.
func (loop *Loop) AllocateLater(ctx context.Context, command *ledger.AllocateCommand, later *LaterRequest) (ledger.AllocateResult, error) {
	if patience, bounded := patience(ctx, command); bounded {
		later.limit(patience, command.RequestID)
	}
	result, err := loop.withPast(ctx, command, func(of uint64) (ledger.AllocateResult, error) { return loop.allocateLater(ctx, command, of, later) })
	if err != nil || result.Ended || result.Allocation.State != ledger.Waiting {
		later.end(err) // it does not wait
	}
	return result, err
}

// allocateLater is AllocateLater for a command whose Past was read in the leadership pastOf. Its
// caller must end the wait of a request that does not wait.
func (loop *Loop) allocateLater(ctx context.Context, command *ledger.AllocateCommand, pastOf uint64, later *LaterRequest) (ledger.AllocateResult, error) {
	p, _ := loop.requests.Get().(*pendingRequest)
	p.Command, p.PastOf, p.From, p.Span, p.Later = *command, pastOf, loop.origin(ctx), loop.Spans.newSpan(ctx), &later.request
	if err := loop.submit(later.of, &p.Request); err != nil {
		p.Request = core.Request{Done: p.Done}
		loop.requests.Put(p)
		return ledger.AllocateResult{}, err
	}
	loop.park(ctx)
	answered, err := loop.await(ctx, p.done)
	if !answered {
		later.Withdraw()
		return ledger.AllocateResult{}, err
	}
	result, err := loop.takeResult(p, later.start, err)
	loop.resume(ctx)
	if errors.Is(err, core.ErrWithdrawn) {
		return later.Answer() // it has the reason
	}
	return result, err
}

// limit sets the timer of the caller's patience.
func (later *LaterRequest) limit(patience time.Duration, requestID string) {
	later.mu.Lock()
	defer later.mu.Unlock()
	if later.over {
		return
	}
	later.patience = time.AfterFunc(patience, func() {
		if later.withdraw(&PatienceError{RequestID: requestID}) {
			later.decided(false)
		}
	})
}

// end stores the end of the wait. It returns false if the wait had ended before.
func (later *LaterRequest) end(err error) bool {
	later.mu.Lock()
	defer later.mu.Unlock()
	if later.over {
		return false
	}
	later.over, later.err = true, err
	if later.patience != nil {
		later.patience.Stop()
	}
	return true
}

// Withdraw says that the caller has gone away.
func (later *LaterRequest) Withdraw() { later.withdraw(core.ErrWithdrawn) }

// withdraw is end for a request that the loop has, or will get.
func (later *LaterRequest) withdraw(why error) bool {
	ended := later.end(why)
	if ended {
		later.loop.queue.force(later.of, later.request.Withdraw())
	}
	return ended
}

// Answer returns the result of the wait. It may be called once decided was called.
func (later *LaterRequest) Answer() (ledger.AllocateResult, error) {
	later.mu.Lock()
	defer later.mu.Unlock()
	if later.err != nil {
		return ledger.AllocateResult{}, later.err
	}
	return later.request.Result, later.request.Err
}
