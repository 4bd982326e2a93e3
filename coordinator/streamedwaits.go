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

// waitStreams are the streams of Await, each with the requests that wait with it. A request that
// waits so has neither a goroutine nor a call here. Any goroutine may use them.
type waitStreams struct {
	mu   sync.Mutex
	open map[string]*waitStream // guarded by mu; by StreamedWait.stream
}

// waitStream is one stream.
type waitStream struct {
	id   string
	host string // of the agent; empty: its identity says none

	mu    sync.Mutex
	waits map[uint64]*streamedWait // guarded by mu; nil: the stream has ended
	ended []uint64                 // guarded by mu; what was not sent yet
	// news has one element while there may be something to send, lost while the stream must end.
	news, lost chan struct{}
}

// streamedWait is one request of a stream.
type streamedWait struct {
	request *commit.LaterRequest
	over    bool // guarded by the lock of the stream: it was decided

	// Guarded by mu: ended ends that it counts among the requests of its caller that wait. gone:
	// it counts no more.
	mu    sync.Mutex
	ended func()
	gone  bool
}

// streamEndedError refuses a request that is to wait with a stream that is not there.
type streamEndedError struct{ stream string }

func (e *streamEndedError) Error() string {
	return fmt.Sprintf("streamed.stream: %q: no such stream of Await is open here: want that of one that is", e.stream)
}

// errStreamCut ends a stream if this coordinator does not lead any more.
var errStreamCut = fmt.Errorf("the requests that wait with this stream have no leader here: %w", core.ErrNotLeading)

func newWaitStreams() *waitStreams { return &waitStreams{open: make(map[string]*waitStream)} }

// begin makes a stream of an agent.
func (w *waitStreams) begin(host string) *waitStream {
	stream := &waitStream{
		id: rand.Text(), host: host, waits: make(map[uint64]*streamedWait), news: make(chan struct{}, 1), lost: make(chan struct{}, 1),
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[stream.id] = stream
	return stream
}

// end ends a stream: the callers of its requests have gone away.
func (w *waitStreams) end(stream *waitStream) {
	w.mu.Lock()
	delete(w.open, stream.id)
	w.mu.Unlock()
	stream.mu.Lock()
	waits := stream.waits
	stream.waits = nil
	stream.mu.Unlock()
	for _, wait := range waits {
		wait.leave()
	}
}

// of is a stream that is open for a caller through the agent of a host.
func (w *waitStreams) of(id, host string) (*waitStream, error) {
	w.mu.Lock()
	stream := w.open[id]
	w.mu.Unlock()
	if stream == nil || stream.host != "" && stream.host != host {
		return nil, &streamEndedError{id}
	}
	return stream, nil
}

// count takes over that the request counts among those that wait.
func (wait *streamedWait) count(ended func()) {
	wait.mu.Lock()
	defer wait.mu.Unlock()
	if wait.gone {
		ended()
	} else {
		wait.ended = ended
	}
}

// counted ends that.
func (wait *streamedWait) counted() {
	wait.mu.Lock()
	defer wait.mu.Unlock()
	if wait.gone = true; wait.ended != nil {
		wait.ended()
		wait.ended = nil
	}
}

func (wait *streamedWait) leave() {
	wait.request.Withdraw()
	wait.counted()
}

// add adds a request that may wait.
func (s *waitStream) add(number uint64, loop *commit.Loop) (*streamedWait, error) {
	wait := &streamedWait{}
	wait.request = loop.NewLater(func(lost bool) { s.decided(number, wait, lost) })
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.waits == nil:
		return nil, &streamEndedError{s.id}
	case s.waits[number] != nil:
		return nil, &ledger.FieldError{Field: "streamed.number", Value: fmt.Sprint(number), Want: "one that no other wait of the stream has"}
	}
	s.waits[number] = wait
	return wait, nil
}

// decided has the stream tell that a wait is over.
func (s *waitStream) decided(number uint64, wait *streamedWait, lost bool) {
	wait.counted()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waits[number] != wait {
		return
	}
	signal := s.news
	if lost {
		signal = s.lost
	}
	wait.over = true
	s.ended = append(s.ended, number)
	select {
	case signal <- struct{}{}:
	default: // it knows already
	}
}

// take takes a wait out of the stream; nil: it is not there. If only is set, it must be over.
func (s *waitStream) take(number uint64, only bool) *streamedWait {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := s.waits[number]
	if wait == nil || only && !wait.over {
		return nil
	}
	delete(s.waits, number)
	return wait
}

// takeEnded returns the numbers that were not sent yet.
func (s *waitStream) takeEnded() []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	ended := s.ended
	s.ended = nil
	return ended
}

// Await tells an agent which of its requests need not wait any longer.
func (s *allocationService) Await(ctx context.Context, _ *bursarv1.AwaitRequest, answers *connect.ServerStream[bursarv1.AwaitResponse]) error {
	// Through the loop: a coordinator that does not lead has no requests that wait.
	if err := s.loop.Do(ctx, func(*ledger.Ledger, ledger.Instant) {}); err != nil {
		return err
	}
	stream := s.waits.begin(auth.ActorOf(ctx).Host)
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
		case <-stream.lost:
			return errStreamCut
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
			if wait := stream.take(number, false); wait != nil {
				wait.leave()
			}
		}
	}
	return &bursarv1.LeaveResponse{}, nil
}

// allocateStreamed answers a request at once that waits with a stream.
func (s *allocationService) allocateStreamed(ctx context.Context, streamed *bursarv1.StreamedWait, command *ledger.AllocateCommand) (ledger.AllocateResult, error) {
	if command.RequestID == "" {
		return ledger.AllocateResult{}, &ledger.FieldError{Field: "request_id", Want: "one, because the request waits with a stream"}
	}
	stream, err := s.waits.of(streamed.GetStream(), command.Actor.Host)
	if err != nil {
		return ledger.AllocateResult{}, err
	}
	wait, err := stream.add(streamed.GetNumber(), s.loop)
	if err != nil {
		return ledger.AllocateResult{}, err
	}
	wait.count(auth.KeepWaiting(ctx))
	result, err := s.loop.AllocateLater(ctx, command, wait.request)
	if err != nil || result.Ended || result.Allocation.State != ledger.Waiting {
		stream.take(streamed.GetNumber(), false)
		wait.leave()
	}
	if errors.Is(err, core.ErrWithdrawn) {
		err = &streamEndedError{stream.id}
	}
	return result, err
}

// endOfWait says how a wait ended that a stream has told the end of.
func (s *allocationService) endOfWait(streamed *bursarv1.StreamedWait, command *ledger.AllocateCommand) (ledger.AllocateResult, error) {
	stream, err := s.waits.of(streamed.GetStream(), command.Actor.Host)
	if err != nil {
		return ledger.AllocateResult{}, err
	}
	wait := stream.take(streamed.GetNumber(), true)
	if wait == nil {
		return ledger.AllocateResult{}, &streamEndedError{stream.id}
	}
	return wait.request.Answer()
}
