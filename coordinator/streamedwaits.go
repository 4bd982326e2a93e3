package coordinator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const (
	// maxHostStreams is how many streams one host's identity may have. Its agent needs one. Others
	// may belong to broken connections that are not yet detected.
	maxHostStreams = 4
	// maxLeftEarly bounds the callers of a stream that left before their requests came.
	maxLeftEarly = 4096
)

// waitStreams are the streams of Await, each with its waiting requests. Such a request has neither
// a goroutine nor a call here. Any goroutine may use them.
type waitStreams struct {
	mu   sync.Mutex
	open map[string]*waitStream // guarded by mu; by StreamedWait.stream
}

// waitStream is one stream.
type waitStream struct {
	id   string
	host string // of the agent; empty: its identity names no host

	mu    sync.Mutex
	waits map[uint64]*streamedWait // guarded by mu; nil: the stream has ended
	left  map[uint64]struct{}      // guarded by mu; callers that left before their requests came
	ended []uint64                 // guarded by mu; numbers that were not sent yet
	news  chan struct{}            // has one element while there may be something to send
	lost  chan error               // has one element, the reason, once the stream must end
}

// streamedWait is one request of a stream, until the agent has heard how it ended.
type streamedWait struct {
	request *commit.LaterRequest
	counted func() // removes it from the count of its caller's waiting requests
	over    bool   // guarded by the lock of the stream: it is decided
}

// streamEndedError refuses a request whose stream does not exist.
type streamEndedError struct{ stream string }

func (e *streamEndedError) Error() string {
	return fmt.Sprintf("streamed.stream: %q: no such stream of Await is open here: want that of one that is", e.stream)
}

// streamLimitError refuses or ends a stream.
type streamLimitError struct{ what string }

func (e *streamLimitError) Error() string { return e.what }

// errStreamCut ends a stream after this coordinator has lost the lead.
var errStreamCut = fmt.Errorf("the requests that wait with this stream have no leader here: %w", core.ErrNotLeading)

func newWaitStreams() *waitStreams { return &waitStreams{open: make(map[string]*waitStream)} }

// begin opens a stream for an agent.
func (w *waitStreams) begin(host string) (*waitStream, error) {
	stream := &waitStream{
		id: rand.Text(), host: host, waits: make(map[uint64]*streamedWait), left: make(map[uint64]struct{}),
		news: make(chan struct{}, 1), lost: make(chan error, 1),
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if host != "" {
		of := 0
		for _, other := range w.open {
			if other.host == host {
				of++
			}
		}
		if of >= maxHostStreams {
			return nil, &streamLimitError{fmt.Sprintf("host %s has %d streams of Await: want at most %d; one is enough for all its callers", host, of, maxHostStreams)}
		}
	}
	w.open[stream.id] = stream
	return stream, nil
}

// end ends a stream: the callers of its requests have gone away. After it returns, none of these
// requests gets a grant.
func (w *waitStreams) end(stream *waitStream) {
	stream.end()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, stream.id)
}

// of returns an open stream for a caller through the agent of a host.
func (w *waitStreams) of(id, host string) (*waitStream, error) {
	w.mu.Lock()
	stream := w.open[id]
	w.mu.Unlock()
	if stream == nil || stream.host != "" && stream.host != host {
		return nil, &streamEndedError{id}
	}
	return stream, nil
}

// add adds a request that may wait. The request counts among its caller's waiting requests until it
// is removed. The error is core.ErrWithdrawn if the caller has already left.
func (s *waitStream) add(ctx context.Context, number uint64, loop *commit.Loop) (*streamedWait, error) {
	wait := &streamedWait{}
	wait.request = loop.NewLater(ctx, func(lost bool) { s.decided(number, wait, lost) })
	s.mu.Lock()
	defer s.mu.Unlock()
	_, left := s.left[number]
	switch {
	case s.waits == nil:
		return nil, &streamEndedError{s.id}
	case left:
		delete(s.left, number)
		return nil, core.ErrWithdrawn
	case s.waits[number] != nil:
		return nil, &ledger.FieldError{Field: "streamed.number", Value: fmt.Sprint(number), Want: "one that no other wait of the stream has"}
	}
	wait.counted = auth.KeepWaiting(ctx)
	s.waits[number] = wait
	return wait, nil
}

// decided makes the stream report the end of a wait. If the outcome is lost, it ends the stream.
func (s *waitStream) decided(number uint64, wait *streamedWait, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waits[number] != wait {
		return
	}
	wait.over = true
	if lost {
		s.cut(errStreamCut)
		return
	}
	s.ended = append(s.ended, number)
	select {
	case s.news <- struct{}{}:
	default: // news is already pending
	}
}

// cut makes the stream end.
func (s *waitStream) cut(why error) {
	select {
	case s.lost <- why:
	default: // it ends already
	}
}

// removeLocked removes a wait from the stream.
func (s *waitStream) removeLocked(number uint64, wait *streamedWait) {
	delete(s.waits, number)
	wait.counted()
}

// takeOver removes a wait that is over from the stream; nil: it is not there, or not over.
func (s *waitStream) takeOver(number uint64) *streamedWait {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := s.waits[number]
	if wait == nil || !wait.over {
		return nil
	}
	s.removeLocked(number, wait)
	return wait
}

// drop withdraws a request and removes its wait from the stream: the request does not wait, or its
// caller has gone away.
func (s *waitStream) drop(number uint64, wait *streamedWait) {
	wait.request.Withdraw()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waits[number] == wait {
		s.removeLocked(number, wait)
	}
}

// leave ends the wait of a caller that has gone away. If it comes before the request, add refuses
// the request.
func (s *waitStream) leave(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch wait := s.waits[number]; {
	case s.waits == nil:
	case wait != nil:
		wait.request.Withdraw()
		s.removeLocked(number, wait)
	case len(s.left) >= maxLeftEarly:
		s.cut(&streamLimitError{fmt.Sprintf("more than %d callers have left this stream before their requests came: begin another one", maxLeftEarly)})
	default:
		s.left[number] = struct{}{}
	}
}

// end withdraws all requests of the stream.
func (s *waitStream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for number, wait := range s.waits {
		wait.request.Withdraw()
		s.removeLocked(number, wait)
	}
	s.waits, s.left = nil, nil
}

// takeEnded returns the numbers that were not sent yet.
func (s *waitStream) takeEnded() []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	ended := s.ended
	s.ended = nil
	return ended
}

// Await tells an agent which of its requests no longer wait.
func (s *allocationService) Await(ctx context.Context, _ *bursarv1.AwaitRequest, answers *connect.ServerStream[bursarv1.AwaitResponse]) error {
	// Through the loop: a coordinator that does not lead has no waiting requests.
	if err := s.loop.Do(ctx, func(*ledger.Ledger, ledger.Instant) {}); err != nil {
		return err
	}
	stream, err := s.waits.begin(auth.ActorOf(ctx).Host)
	if err != nil {
		return err
	}
	defer s.waits.end(stream)
	if err := answers.Send(&bursarv1.AwaitResponse{Stream: stream.id}); err != nil {
		return err
	}
	tick := time.NewTicker(commit.KeepAlive)
	defer tick.Stop()
	for {
		select {
		case <-stream.news:
		case <-tick.C:
		case err := <-stream.lost:
			return err
		case <-s.loop.Stopping():
			return core.ErrStopping
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := answers.Send(&bursarv1.AwaitResponse{Ended: stream.takeEnded()}); err != nil {
			return err
		}
	}
}

// Leave says that callers have gone away.
func (s *allocationService) Leave(ctx context.Context, req *bursarv1.LeaveRequest) (*bursarv1.LeaveResponse, error) {
	if stream, err := s.waits.of(req.GetStream(), auth.ActorOf(ctx).Host); err == nil {
		for _, number := range req.GetNumbers() {
			stream.leave(number)
		}
	}
	return &bursarv1.LeaveResponse{}, nil
}

// allocateStreamed answers at once a request that waits with a stream.
func (s *allocationService) allocateStreamed(ctx context.Context, streamed *bursarv1.StreamedWait, command *ledger.AllocateCommand) (ledger.AllocateResult, error) {
	if command.RequestID == "" {
		return ledger.AllocateResult{}, &ledger.FieldError{Field: "request_id", Want: "one, because the request waits with a stream"}
	}
	stream, err := s.waits.of(streamed.GetStream(), command.Actor.Host)
	if err != nil {
		return ledger.AllocateResult{}, err
	}
	wait, err := stream.add(ctx, streamed.GetNumber(), s.loop)
	if err != nil {
		return ledger.AllocateResult{}, err
	}
	result, err := s.loop.AllocateLater(ctx, command, wait.request)
	if err != nil || result.Ended || result.Allocation.State != ledger.Waiting {
		stream.drop(streamed.GetNumber(), wait)
	}
	if errors.Is(err, core.ErrWithdrawn) { // by Leave, or by the end of the stream
		if _, ended := s.waits.of(stream.id, command.Actor.Host); ended != nil {
			err = ended
		}
	}
	return result, err
}

// endOfWait returns the result of a wait whose end the stream has reported.
func (s *allocationService) endOfWait(streamed *bursarv1.StreamedWait, command *ledger.AllocateCommand) (ledger.AllocateResult, error) {
	stream, err := s.waits.of(streamed.GetStream(), command.Actor.Host)
	if err != nil {
		return ledger.AllocateResult{}, err
	}
	wait := stream.takeOver(streamed.GetNumber())
	if wait == nil {
		return ledger.AllocateResult{}, &streamEndedError{stream.id}
	}
	return wait.request.Answer()
}
