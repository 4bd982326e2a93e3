package commit

import (
	"context"
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
	request core.Request // waits
	decided func(lost bool)

	mu       sync.Mutex
	sent     bool // guarded by mu, as all below
	of       turns.Owner
	start    ledger.Instant
	patience *time.Timer // nil: there is none
	over     bool        // it was decided, or nobody waits for it
	answered bool        // it was decided by the loop, and request has how
	err      error       // if not
}

// NewLater returns a request that waits later. decided is called once when its wait is over, unless
// Withdraw came first. lost says that the leadership has ended, so that nothing is known of the
// request. It must not block.
func (loop *Loop) NewLater(decided func(lost bool)) *LaterRequest {
	later := &LaterRequest{loop: loop, decided: decided}
	later.request.Done = func(err error) {
		if err == nil {
			later.observe()
		}
		later.decide(err == nil, err, err != nil)
	}
	return later
}

// AllocateLater is Allocate, but if the request must wait, it returns the allocation that waits.
// If ctx ends before it returns, the request is withdrawn.
func (loop *Loop) AllocateLater(ctx context.Context, command *ledger.AllocateCommand, later *LaterRequest) (ledger.AllocateResult, error) {
	start, of := loop.Clock.Now(), loop.owner(ctx)
	patience, bounded := patience(ctx, command)
	p, _ := loop.requests.Get().(*pendingRequest)
	p.Command, p.From, p.Span, p.Later = *command, loop.origin(ctx), loop.Spans.newSpan(ctx), &later.request
	later.begin(of, start)
	if bounded {
		later.limit(patience, command.RequestID)
	}
	if err := loop.submit(of, &p.Request); err != nil {
		p.Request = core.Request{Done: p.Done}
		loop.requests.Put(p)
		return ledger.AllocateResult{}, err
	}
	loop.park(ctx)
	answered, err := loop.await(ctx, p.done)
	if !answered {
		loop.queue.force(of, p.Withdraw())
		return ledger.AllocateResult{}, err
	}
	result, err := loop.takeResult(p, start, err)
	if err != nil || result.Ended || result.Allocation.State != ledger.Waiting {
		later.end(false, err) // it does not wait
	}
	return result, err
}

func (later *LaterRequest) begin(of turns.Owner, start ledger.Instant) {
	later.mu.Lock()
	defer later.mu.Unlock()
	later.of, later.start, later.sent = of, start, true
}

// limit ends the wait when the caller's patience is over.
func (later *LaterRequest) limit(patience time.Duration, requestID string) {
	later.mu.Lock()
	defer later.mu.Unlock()
	if later.over {
		return
	}
	later.patience = time.AfterFunc(patience, func() {
		if later.decide(false, &PatienceError{RequestID: requestID}, false) {
			later.loop.queue.force(later.of, later.request.Withdraw())
		}
	})
}

func (later *LaterRequest) observe() {
	later.mu.Lock()
	start := later.start
	later.mu.Unlock()
	later.loop.observeLatency(&later.request, start)
}

// decide takes over how the wait ended. It reports false if that was known already.
func (later *LaterRequest) decide(answered bool, err error, lost bool) bool {
	if !later.end(answered, err) {
		return false
	}
	later.decided(lost)
	return true
}

func (later *LaterRequest) end(answered bool, err error) bool {
	later.mu.Lock()
	defer later.mu.Unlock()
	if later.over {
		return false
	}
	later.over, later.answered, later.err = true, answered, err
	if later.patience != nil {
		later.patience.Stop()
	}
	return true
}

// Withdraw says that the caller has gone away.
func (later *LaterRequest) Withdraw() {
	if !later.end(false, core.ErrWithdrawn) {
		return
	}
	withdraw := later.request.Withdraw()
	later.mu.Lock()
	of, sent := later.of, later.sent
	later.mu.Unlock()
	if sent { // else the loop sees that it was withdrawn
		later.loop.queue.force(of, withdraw)
	}
}

// Answer is how the wait ended. It may be asked for once decided was called.
func (later *LaterRequest) Answer() (ledger.AllocateResult, error) {
	later.mu.Lock()
	defer later.mu.Unlock()
	if later.answered {
		return later.request.Result, later.request.Err
	}
	return ledger.AllocateResult{}, later.err
}
