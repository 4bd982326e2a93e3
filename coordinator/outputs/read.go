package outputs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cenkalti/backoff/v4"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/internal/pause"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const (
	// orderTime is how long the leader may take for an order.
	orderTime = 5 * time.Second
	// arrivalTime is how long an agent has to call once it has an order: it starts a helper, and
	// connects.
	arrivalTime = 15 * time.Second
	// firstPatience is how long a reader waits for somebody who sends before there was one, such
	// as after a change of leader. laterPatience is how long it waits once there was one: an agent
	// that restarts is back within seconds, a leader within some ten.
	firstPatience = 10 * time.Second
	laterPatience = 45 * time.Second
	// againFirst and againLast are the pauses between orders that fail.
	againFirst = 200 * time.Millisecond
	againLast  = 2 * time.Second
	// KeepAlive is how often a reader gets a message if there is no output.
	KeepAlive = 15 * time.Second
)

// Order has agents send output, by the leader.
type Order interface {
	// URL is where the agent is to call; empty: at its only coordinator.
	URL() string
	// Send has the agent of an engine's host send output, and returns the host. An error with the
	// code UNAVAILABLE may be over soon.
	Send(ctx context.Context, logs *bursarv1.LogsRequest, ticket []byte) (host string, err error)
	// Stop has the agent stop that has the order with a ticket.
	Stop(ctx context.Context, logs *bursarv1.LogsRequest, ticket []byte)
}

// reading is one reader.
type reading struct {
	readers *Readers
	caller  *caller
	order   Order
	send    func(*bursarv1.LogsResponse) error

	request   *bursarv1.LogsRequest // the next order
	next      int64                 // offset of the next byte; -1: not known
	arrived   bool                  // an agent has called
	since     time.Time             // when something last came, or the beginning
	uncounted bool
}

// Read reads output for a caller, until its end or that of ctx. send takes the pieces; it may take
// as long as it likes. The error is a *BusyError, an *AwayError, that of the leader, of the agent,
// of send, of ctx, or of Close.
func (r *Readers) Read(ctx context.Context, caller string, request *bursarv1.LogsRequest, order Order, send func(*bursarv1.LogsResponse) error) error {
	of, leave, err := r.enter(caller)
	if err != nil {
		return err
	}
	defer leave()
	s := &reading{readers: r, caller: of, order: order, send: send, request: proto.CloneOf(request), next: -1, since: time.Now()}
	retry := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(againFirst), backoff.WithMaxInterval(againLast), backoff.WithMultiplier(2), backoff.WithMaxElapsedTime(0),
	)
	for {
		before := s.since
		err := s.once(ctx)
		if s.since.After(before) {
			retry.Reset()
		}
		patience := firstPatience
		if s.arrived {
			patience = laterPatience
		}
		switch {
		case err == nil, !passes(err, s.arrived):
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx) //nolint:wrapcheck // the caller's
		case s.uncounted:
			// Offsets count from the oldest file that was there: they may mean other bytes now.
			return &AwayError{s.next, fmt.Errorf("%w: nobody has counted its bytes, so it cannot go on by itself", err)}
		case time.Since(s.since) > patience:
			return &AwayError{s.next, err}
		}
		if !pause.For(retry.NextBackOff(), ctx.Done(), r.closing) {
			return s.ended(ctx)
		}
	}
}

// ended is why a reader ends that has not had all output.
func (s *reading) ended(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx) //nolint:wrapcheck // the caller's
	}
	s.readers.mu.Lock()
	defer s.readers.mu.Unlock()
	return s.readers.why
}

// once orders the output, and passes it on until its end, which is no error.
func (s *reading) once(ctx context.Context) error {
	ticket := make([]byte, ticketBytes)
	_, _ = rand.Read(ticket) // it never fails
	arrived, forget := s.readers.expect(ticket)
	defer forget()
	host, err := s.ordered(ctx, ticket)
	if err != nil {
		return err
	}
	late := time.NewTimer(arrivalTime)
	defer late.Stop()
	select {
	case from := <-arrived:
		if from.host != host {
			from.end(ErrOtherHost)
			return &wrongError{fmt.Sprintf("that of host %s has called in place of that of host %s", from.host, host)}
		}
		s.arrived = true
		err := s.pass(ctx, from)
		from.end(nil)
		if ctx.Err() != nil {
			s.stop(ctx, ticket) // an agent that has nothing to send would notice later
		}
		return err
	case <-late.C:
		s.stop(ctx, ticket)
		return &lateError{host, s.order.URL()}
	case <-ctx.Done():
	case <-s.readers.closing:
	}
	s.stop(ctx, ticket)
	return s.ended(ctx)
}

func (s *reading) ordered(ctx context.Context, ticket []byte) (host string, err error) {
	bounded, cancel := context.WithTimeout(ctx, orderTime)
	defer cancel()
	host, err = s.order.Send(bounded, s.request, ticket)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		return "", &brokenError{errors.New("the leader did not take the order in time")}
	}
	return host, err //nolint:wrapcheck // as the leader says it
}

// stop has an agent stop that has not called yet.
func (s *reading) stop(ctx context.Context, ticket []byte) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), orderTime)
	defer cancel()
	s.order.Stop(ctx, s.request, ticket)
}

// pass passes on the messages of an agent until the end of the output.
func (s *reading) pass(ctx context.Context, from *agent) error {
	alive := time.NewTimer(KeepAlive)
	defer alive.Stop()
	came := false
	take := func(message *bursarv1.SendOutputRequest) (over bool, err error) {
		if p := message.GetProblem(); p != nil {
			return true, problemError(p.GetCode(), p.GetMessage())
		}
		if came = came || message.GetOutput() != nil; message.GetOutput().GetPiece() == nil {
			return false, nil // the agent's keep-alive
		}
		alive.Reset(KeepAlive)
		return s.piece(ctx, message.GetOutput())
	}
	for {
		select {
		case message := <-from.pieces:
			if over, err := take(message); over || err != nil {
				return err
			}
		case err := <-from.failed:
			select {
			case message := <-from.pieces: // it came before
				if over, err := take(message); over || err != nil {
					return err
				}
			default:
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
			if came { // otherwise an agent that always breaks off would be called for ever
				s.since = time.Now()
			}
			return &brokenError{err}
		case <-alive.C:
			if err := s.send(&bursarv1.LogsResponse{NextOffset: max(0, s.next), Uncounted: s.uncounted}); err != nil {
				return err
			}
			alive.Reset(KeepAlive)
		case <-ctx.Done():
			return s.ended(ctx)
		case <-s.readers.closing:
			return s.ended(ctx)
		}
	}
}

// piece passes on one piece. over reports whether it was the end.
func (s *reading) piece(ctx context.Context, output *bursarv1.LogsResponse) (over bool, err error) {
	size := int64(len(output.GetData())) + output.GetGap()
	_, over = output.GetPiece().(*bursarv1.LogsResponse_End)
	switch begin := output.GetNextOffset() - size; {
	case len(output.GetData()) > MaxPiece:
		return false, &wrongError{fmt.Sprintf("%d bytes in one piece, want at most %d", len(output.GetData()), MaxPiece)}
	case size < 0, begin < 0, size == 0 && !over:
		return false, &wrongError{"a piece without a size"}
	case s.next >= 0 && begin != s.next:
		return false, &wrongError{fmt.Sprintf("byte %d in place of byte %d", begin, s.next)}
	}
	if n := len(output.GetData()); n > 0 {
		if err := s.wait(ctx, n); err != nil {
			return false, err
		}
	}
	s.uncounted = s.uncounted || output.GetUncounted()
	if err := s.send(output); err != nil {
		return false, err
	}
	s.since = time.Now()
	s.next = output.GetNextOffset()
	s.request.Start = &bursarv1.LogsRequest_Offset{Offset: s.next}
	return over, nil
}

// wait waits until the reader may get so many bytes, of which there are at most MaxPiece.
func (s *reading) wait(ctx context.Context, bytes int) error {
	for _, limiter := range []*rate.Limiter{s.caller.limiter, s.readers.all} {
		reserved := limiter.ReserveN(time.Now(), bytes)
		if wait := reserved.Delay(); wait > 0 && !pause.For(wait, ctx.Done(), s.readers.closing) {
			reserved.Cancel()
			return s.ended(ctx)
		}
	}
	return nil
}
