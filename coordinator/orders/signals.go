package orders

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// signalPatience is how long an agent has to answer the order of a signal. It sends a signal in
// microseconds, and answers at once.
const signalPatience = 10 * time.Second

// NotAttachedError reports that an agent takes no orders now.
type NotAttachedError struct {
	Host string
	// Busy: the agent is attached, but its queue has no room.
	Busy bool
}

func (e *NotAttachedError) Error() string {
	if e.Busy {
		return "too many orders wait for the agent of host " + e.Host + ": try again"
	}
	return "the agent of host " + e.Host + " is not attached: it restarts, is not connected, or is of an older version"
}

// UnansweredError reports that an agent got an order and has not answered it.
type UnansweredError struct{ Host string }

func (e *UnansweredError) Error() string {
	return fmt.Sprintf("the agent of host %s has not answered within %s: the signal may have been sent, or not", e.Host, signalPatience)
}

// ProblemError reports why an agent has not carried out an order.
type ProblemError struct{ Host, Problem string }

func (e *ProblemError) Error() string { return "host " + e.Host + ": " + e.Problem }

// Signals sends signals by orders, and waits for the agents' answers. It sends no signal twice.
// Make it with NewSignals.
type Signals struct {
	hub *Hub

	mu      sync.Mutex
	last    uint64             // guarded by mu; the number of the last signal
	pending map[uint64]*signal // guarded by mu; the signals without an answer
}

// signal is a signal that waits for an agent's answer.
type signal struct {
	host, allocation string
	answer           chan string // takes one element: the problem, if there is one
}

// NewSignals makes a Signals. Its numbers begin at random, so that no answer to an earlier leader's
// order matches.
func NewSignals(hub *Hub) *Signals {
	return &Signals{hub: hub, last: rand.Uint64(), pending: make(map[uint64]*signal)}
}

// Send has the agent of a host send a signal, and waits for its answer. It sets the order's number.
// The error is a *NotAttachedError if nothing was sent, a *ProblemError, an *UnansweredError, or
// that of ctx.
func (s *Signals) Send(ctx context.Context, host string, epoch uint64, order *bursarv1.SignalOrder) error {
	mine := &signal{host: host, allocation: order.GetAllocationId(), answer: make(chan string, 1)}
	order.Number = s.begin(mine)
	defer s.end(order.GetNumber())
	if err := s.hub.Offer(host, &bursarv1.AttachResponse{Epoch: epoch, Order: &bursarv1.AttachResponse_Signal{Signal: order}}); err != nil {
		return err
	}
	late := time.NewTimer(signalPatience)
	defer late.Stop()
	select {
	case problem := <-mine.answer:
		if problem != "" {
			return &ProblemError{host, problem}
		}
		return nil
	case <-late.C:
		return &UnansweredError{host}
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // it is the caller's
	}
}

func (s *Signals) begin(mine *signal) (number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.pending[s.last] = mine
	return s.last
}

func (s *Signals) end(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, number)
}

// Answered delivers an agent's answer to the signal with a number. It ignores an unknown number,
// whose caller no longer waits, and an answer for another host or allocation. The caller has made
// sure that the agent is the host's newest.
func (s *Signals) Answered(host, allocation string, number uint64, problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if waits := s.pending[number]; waits != nil && waits.host == host && waits.allocation == allocation {
		select {
		case waits.answer <- problem:
		default: // it was answered
		}
	}
}
