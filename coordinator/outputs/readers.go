package outputs

import (
	"context"
	"sync"

	"golang.org/x/time/rate"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const (
	// maxReaders is how many readers there may be at a coordinator, maxReadersCaller of one caller.
	// One takes some 200 KiB here, with its two connections, and a process on the engine's host.
	maxReaders, maxReadersCaller = 1024, 256
	// MaxPiece is the most output that one message has, in bytes.
	MaxPiece = 64 << 10
	// ticketBytes is the size of a ticket.
	ticketBytes = 32
)

// Rates bound the output for readers, in bytes a second.
type Rates struct {
	// Caller is for all readers of one caller, All for those of all callers. Each is at least
	// MaxPiece.
	Caller, All int64
}

// Readers are the readers of one coordinator.
type Readers struct {
	closing chan struct{} // closed by Close

	mu       sync.Mutex
	why      error                  // guarded by mu: of Close
	rates    Rates                  // guarded by mu
	all      *rate.Limiter          // what all get together
	callers  map[string]*caller     // guarded by mu; those with readers
	readers  int                    // guarded by mu
	expected map[string]chan *agent // guarded by mu; by ticket: where the agent's call goes, once
}

// caller is one with readers.
type caller struct {
	readers int // guarded by the lock of Readers
	limiter *rate.Limiter
}

// New returns Readers without a reader.
func New(rates Rates) *Readers {
	return &Readers{
		closing: make(chan struct{}), rates: rates, all: newLimiter(rates.All),
		callers: make(map[string]*caller), expected: make(map[string]chan *agent),
	}
}

// newLimiter allows a sixteenth of a second's bytes at once.
func newLimiter(bytes int64) *rate.Limiter { return rate.NewLimiter(rate.Limit(bytes), burst(bytes)) }

func burst(bytes int64) int { return int(max(MaxPiece, min(bytes/16, 1<<30))) }

// SetRates changes the rates from the next piece of each reader on.
func (r *Readers) SetRates(rates Rates) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rates = rates
	set := func(l *rate.Limiter, bytes int64) {
		l.SetLimit(rate.Limit(bytes))
		l.SetBurst(burst(bytes))
	}
	set(r.all, rates.All)
	for _, c := range r.callers {
		set(c.limiter, rates.Caller)
	}
}

// Rates are those in force.
func (r *Readers) Rates() Rates {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rates
}

// Close ends all readers with an error: the coordinator stops.
func (r *Readers) Close(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.why == nil {
		r.why = why
		close(r.closing)
	}
}

// Count is how many readers there are.
func (r *Readers) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.readers
}

// enter counts a reader of a caller. leave must be called at its end.
func (r *Readers) enter(name string) (of *caller, leave func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.callers[name]
	switch {
	case r.why != nil:
		return nil, nil, r.why
	case c != nil && c.readers >= maxReadersCaller:
		return nil, nil, &BusyError{name, maxReadersCaller}
	case r.readers >= maxReaders:
		return nil, nil, &BusyError{Limit: maxReaders}
	}
	if c == nil {
		c = &caller{limiter: newLimiter(r.rates.Caller)}
		r.callers[name] = c
	}
	c.readers++
	r.readers++
	return c, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.readers--
		if c.readers--; c.readers == 0 {
			delete(r.callers, name)
		}
	}, nil
}

// expect has an agent's call with a ticket come to a channel. forget ends that.
func (r *Readers) expect(ticket []byte) (arrived <-chan *agent, forget func()) {
	arrives := make(chan *agent, 1) // a ticket is good for one call
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expected[string(ticket)] = arrives
	return arrives, func() {
		r.mu.Lock()
		delete(r.expected, string(ticket))
		r.mu.Unlock()
		select {
		case late := <-arrives: // it came just now
			late.end(ErrNoReader)
		default:
		}
	}
}

// agent is the call of an agent that sends output.
type agent struct {
	host   string
	pieces chan *bursarv1.SendOutputRequest
	failed chan error // has one element once nothing more comes: why; nil: the agent has ended it

	once sync.Once
	over chan struct{} // closed once the reader takes nothing more
	err  error         // set before over is closed: what the agent is answered
}

// end says that the reader takes nothing more.
func (a *agent) end(err error) {
	a.once.Do(func() {
		a.err = err
		close(a.over)
	})
}

// Deliver takes the output that the agent of a host sends with a ticket, until the reader is gone
// or receive fails. interrupt makes a receive fail that waits. The error is ErrNoReader,
// ErrOtherHost, or that of receive.
func (r *Readers) Deliver(ctx context.Context, host string, ticket []byte, receive func() (*bursarv1.SendOutputRequest, error), interrupt func()) error {
	r.mu.Lock()
	arrives := r.expected[string(ticket)]
	delete(r.expected, string(ticket))
	if arrives == nil {
		r.mu.Unlock()
		return ErrNoReader
	}
	a := &agent{host: host, pieces: make(chan *bursarv1.SendOutputRequest, 1), failed: make(chan error, 1), over: make(chan struct{})}
	arrives <- a // has room
	r.mu.Unlock()

	received := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-a.over:
			interrupt()
		case <-received:
		}
	})
	defer watch.Wait()
	defer close(received)
	err := a.takeAll(ctx, receive)
	a.failed <- err // whatever it was, nothing more comes
	select {
	case <-a.over: // it was interrupted
		return a.err
	default:
		return err
	}
}

// takeAll hands messages to the reader until receive fails, or the reader or ctx ends.
func (a *agent) takeAll(ctx context.Context, receive func() (*bursarv1.SendOutputRequest, error)) error {
	for {
		message, err := receive()
		if err != nil {
			return err
		}
		select {
		case a.pieces <- message:
		case <-a.over:
			return nil
		case <-ctx.Done():
			return ctx.Err() //nolint:wrapcheck // the caller's
		}
	}
}
