package callers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/proto/convert"
)

const (
	// noStreamFor is for how long no stream is asked for after a coordinator has refused one: it
	// is older than the streams, or does not let this agent have one.
	noStreamFor = time.Minute
	// firstMessage is how long the first message of a stream may take. A proxy on the way may hold
	// answers back until they are whole, and a stream never is.
	firstMessage = 3 * time.Second
	// beginEvery is how far apart the beginnings of streams are, at least. Each of a thousand
	// requests asks for one again and again while coordinators answer that none of them leads. It
	// adds no more than this to the time without a leader.
	beginEvery = 20 * time.Millisecond
	// maxStrays is how many streams in a row may be of no use. One is unknown to the coordinator
	// that its requests come to, after a change of leader. More are if a load balancer sends the
	// stream to one coordinator and its requests to another one, which does not pass them on.
	// Others end within shortLived: a proxy on the way may cut them.
	maxStrays  = 3
	shortLived = time.Second
	// maxSilence is how long a stream may say nothing; the coordinator sends keep-alives.
	maxSilence = 3 * convert.KeepAlive
	// leaveTimeout bounds how long it may take to say that callers went away. After that the
	// stream is cut, which says so for all.
	leaveTimeout = 3 * time.Second
	// maxLeft is how many of them are told at a time; the contract allows no more.
	maxLeft = 1000
)

// errNoWaitStream says that a request's own call must last as long as it waits.
var errNoWaitStream = errors.New("no stream for requests that wait")

// errSilent ends a stream on which nothing comes.
var errSilent = errors.New("nothing comes on the stream")

// waitStreams is how requests of callers wait: all with one stream to the coordinator. A call of
// its own for each would take 40 KiB in both processes. If a stream ends, its requests are asked
// again with the next one, and keep their places. There is a stream as long as a request waits;
// run makes it. Any goroutine may call the rest.
type waitStreams struct {
	clients [2]bursarv1connect.AllocationServiceClient // tried in turn
	log     *slog.Logger
	wanted  chan struct{} // one element
	// background runs a function that the agent waits for before it ends.
	background func(func())

	mu      sync.Mutex
	current *waitStream   // guarded by mu; nil: there is none
	tried   chan struct{} // guarded by mu; closed and replaced after each attempt to begin one
	failed  error         // guarded by mu; why the last one failed
	refused time.Time     // guarded by mu; until then no stream is asked for
	strays  int           // guarded by mu; streams in a row that were of no use
	client  int           // of run alone: which client is next
}

func newWaitStreams(shared, plain bursarv1connect.AllocationServiceClient, background func(func()), log *slog.Logger) *waitStreams {
	return &waitStreams{
		clients: [...]bursarv1connect.AllocationServiceClient{shared, plain}, background: background, log: log,
		wanted: make(chan struct{}, 1), tried: make(chan struct{}),
	}
}

// waitStream is one stream.
type waitStream struct {
	id         string
	client     bursarv1connect.AllocationServiceClient
	background func(func())
	cut        context.CancelFunc
	began      time.Time     // guarded by the lock of waitStreams
	over       chan struct{} // closed when it has ended
	strayed    bool          // guarded by the lock of waitStreams; a coordinator did not know it

	mu      sync.Mutex
	next    uint64                   // guarded by mu, as all below
	waits   map[uint64]chan struct{} // closed when a wait has ended; nil: the stream is over
	left    []uint64                 // callers that went away, which was not told yet
	leaving bool                     // somebody tells it
}

// run begins a stream when one is wanted, and reads it to its end, until ctx ends.
func (w *waitStreams) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.wanted:
		}
		next := time.NewTimer(beginEvery)
		w.read(ctx)
		select {
		case <-ctx.Done():
		case <-next.C:
		}
	}
}

// read begins a stream and reads it to its end.
func (w *waitStreams) read(ctx context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(firstMessage, func() { cancel(errSilent) })
	defer silence.Stop()
	stream := &waitStream{
		client: w.clients[w.client], background: w.background, cut: func() { cancel(nil) },
		over: make(chan struct{}), waits: make(map[uint64]chan struct{}),
	}
	answers, err := stream.client.Await(ctx, &bursarv1.AwaitRequest{})
	if err == nil {
		defer answers.Close()
		if answers.Receive() {
			stream.id = answers.Msg().GetStream()
		} else if err = answers.Err(); err == nil {
			err = connect.NewError(connect.CodeUnavailable, errors.New("the coordinator has ended the stream at once"))
		}
	}
	if why := context.Cause(ctx); why != nil {
		err = why
	}
	w.begun(stream, err)
	if err != nil {
		return
	}
	defer w.ended(stream)
	for silence.Reset(maxSilence); answers.Receive(); silence.Reset(maxSilence) {
		if idle := stream.tell(answers.Msg().GetEnded()); idle {
			return
		}
	}
	if errors.Is(context.Cause(ctx), errSilent) {
		w.log.Warn("nothing comes on the stream with which requests wait: they go on with another one", "silent", maxSilence, "waiting", stream.waiting())
	}
}

// begun takes over a stream, or why there is none.
func (w *waitStreams) begun(stream *waitStream, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = err
	wire := connect.IsWireError(err)
	switch code := connect.CodeOf(err); {
	case err == nil:
		w.current, stream.began = stream, time.Now()
	case code == connect.CodeUnimplemented, wire && code != connect.CodeUnavailable, errors.Is(err, errSilent):
		w.refused = time.Now().Add(noStreamFor)
		w.log.Debug("requests wait with calls of their own: the coordinator gives no stream", "error", err)
	}
	if err != nil && !wire {
		w.client = (w.client + 1) % len(w.clients) // a proxy on the way may know no HTTP/2
	}
	close(w.tried)
	w.tried = make(chan struct{})
}

// ended ends a stream for all that wait with it.
func (w *waitStreams) ended(stream *waitStream) {
	w.mu.Lock()
	w.current = nil
	switch lived := time.Since(stream.began); {
	case stream.strayed: // is counted
	case lived < shortLived:
		w.strayedLocked("requests wait with calls of their own: their streams end as soon as they have begun: want no proxy that cuts streams between agents and coordinators", "lived", lived)
	default:
		w.strays = 0
	}
	w.mu.Unlock()
	stream.mu.Lock()
	stream.waits = nil
	stream.mu.Unlock()
	close(stream.over)
}

// stray ends a stream that is not known to the coordinator that one of its requests came to. It
// returns the request's error: errNoWaitStream once there were too many such streams in a row.
func (w *waitStreams) stray(stream *waitStream, why error) error {
	defer stream.cut()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !stream.strayed { // this is the first request of it that comes back
		stream.strayed = true
		if time.Since(stream.began) > noStreamFor {
			w.strays = 0 // it was known for long
		}
		w.strayedLocked("requests wait with calls of their own: a coordinator that they come to does not know their stream: want one address for all calls of an agent", "error", why)
	}
	if w.strays >= maxStrays {
		return errNoWaitStream
	}
	return unheard(why)
}

// strayedLocked counts a stream that was of no use. After maxStrays in a row none is asked for, and
// a warning says why.
func (w *waitStreams) strayedLocked(warning string, about ...any) {
	if w.strays++; w.strays == maxStrays {
		w.log.Warn(warning, append(about, "streams", w.strays)...)
	}
	if w.strays >= maxStrays {
		w.refused = time.Now().Add(noStreamFor)
	}
}

// stream returns the stream, if need be a new one. The error is errNoWaitStream if the coordinator
// gives none.
func (w *waitStreams) stream(ctx context.Context) (*waitStream, error) {
	w.mu.Lock()
	current, tried, refused := w.current, w.tried, time.Now().Before(w.refused)
	w.mu.Unlock()
	switch {
	case current != nil:
		return current, nil
	case refused:
		return nil, errNoWaitStream
	}
	select {
	case w.wanted <- struct{}{}:
	default: // it is known already
	}
	select {
	case <-tried:
	case <-ctx.Done():
		return nil, ctxError(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.current != nil:
		return w.current, nil
	case time.Now().Before(w.refused):
		return nil, errNoWaitStream
	default:
		return nil, unheard(w.failed)
	}
}

// unheard is the error of a request whose stream has ended, or did not begin.
func unheard(why error) error {
	if why == nil {
		why = errors.New("the stream with which it waits has ended")
	}
	return connect.NewError(connect.CodeUnavailable, fmt.Errorf("the request waits, and no coordinator is heard: %w", &unreachedError{why}))
}

// ctxError is the error of a call whose context has ended.
func ctxError(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return connect.NewError(connect.CodeDeadlineExceeded, ctx.Err())
	}
	return connect.NewError(connect.CodeCanceled, ctx.Err())
}

// join adds a wait. told is closed when the stream tells its end. If the stream is over, ok is
// false.
func (s *waitStream) join() (number uint64, told <-chan struct{}, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waits == nil {
		return 0, nil, false
	}
	s.next++
	ended := make(chan struct{})
	s.waits[s.next] = ended
	return s.next, ended, true
}

// tell wakes those whose wait has ended. If there were none, the stream was told that it lives, and
// if nobody waits with it, it is idle: it is over then.
func (s *waitStream) tell(ended []uint64) (idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, number := range ended {
		if told := s.waits[number]; told != nil {
			close(told)
			delete(s.waits, number)
		}
	}
	if len(ended) > 0 || len(s.waits) > 0 {
		return false
	}
	s.waits = nil
	return true
}

// forget removes a wait that is none.
func (s *waitStream) forget(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waits, number)
}

// waiting is how many wait with the stream.
func (s *waitStream) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waits)
}

// leave says that the caller of a wait went away.
func (s *waitStream) leave(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waits == nil {
		return // the end of the stream says so
	}
	delete(s.waits, number)
	s.left = append(s.left, number)
	if !s.leaving {
		s.leaving = true
		s.background(s.tellLeft)
	}
}

// tellLeft tells the coordinator of all that went away. If it cannot, it cuts the stream, which
// tells it too.
func (s *waitStream) tellLeft() {
	for left := s.takeLeft(); len(left) > 0; left = s.takeLeft() {
		ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
		_, err := s.client.Leave(ctx, &bursarv1.LeaveRequest{Stream: s.id, Numbers: left})
		cancel()
		if err != nil {
			s.cut()
			return // and nobody else tells: leaving stays set
		}
	}
}

// takeLeft takes some of those who went away. If there are none, nobody tells it any more.
func (s *waitStream) takeLeft() []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waits == nil {
		return nil // the end of the stream says so
	}
	left := s.left[:min(len(s.left), maxLeft)]
	s.left = s.left[len(left):]
	s.leaving = len(left) > 0
	return left
}

// allocate makes a call for a request, and if that waits, another one when its wait has ended.
func (w *waitStreams) allocate(ctx context.Context, request *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
	stream, err := w.stream(ctx)
	if err != nil {
		return nil, err
	}
	number, told, ok := stream.join()
	if !ok {
		return nil, unheard(nil)
	}
	response, err := stream.ask(ctx, request, number, false)
	waits := err == nil && response.GetAllocation().GetState() == bursarv1.AllocationState_ALLOCATION_STATE_WAITING
	if waits {
		response = nil // not kept over the wait
		select {
		case <-told:
			response, err = stream.ask(ctx, request, number, true)
		case <-stream.over:
			return nil, unheard(nil)
		case <-ctx.Done():
			err = ctxError(ctx)
		}
	}
	if connect.CodeOf(err) == connect.CodeAborted && connect.IsWireError(err) {
		return nil, w.stray(stream, err)
	}
	// A coordinator that was too busy to say how a wait ended still has it.
	if err != nil && (client.Undecided(err) || ctx.Err() != nil || waits && IsTransient(err)) {
		stream.leave(number)
		return nil, err
	}
	stream.forget(number)
	return response, err
}

// ask is askHere on a stack of its own: the stack of a call, and all that its context keeps, is
// given back before the wait. A panic is passed on, with the stack that it came from.
func (s *waitStream) ask(ctx context.Context, request *bursarv1.AllocateRequest, number uint64, ended bool) (response *bursarv1.AllocateResponse, err error) {
	ctx, cancel := context.WithCancel(inNameOf(ctx))
	defer cancel()
	var thrown error
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		defer func() {
			if cause := recover(); cause != nil {
				thrown = fmt.Errorf("%v\n%s", cause, debug.Stack())
			}
		}()
		response, err = s.askHere(ctx, request, number, ended)
	}()
	<-answered
	if thrown != nil {
		panic(thrown)
	}
	return response, err
}

// askHere asks for a request that waits with the stream, or for how its wait ended.
func (s *waitStream) askHere(ctx context.Context, request *bursarv1.AllocateRequest, number uint64, ended bool) (*bursarv1.AllocateResponse, error) {
	request = proto.CloneOf(request)
	request.Streamed = &bursarv1.StreamedWait{Stream: s.id, Number: number, Ended: ended}
	return s.client.Allocate(ctx, request)
}
