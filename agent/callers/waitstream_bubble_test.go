package callers

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/proto/convert"
)

// playedStreams is a coordinator that does with streams what a test says. It keeps what Leave
// tells.
type playedStreams struct {
	bursarv1connect.UnimplementedAllocationServiceHandler

	await    func(context.Context, *connect.ServerStream[bursarv1.AwaitResponse]) error
	allocate func(*bursarv1.StreamedWait) (*bursarv1.AllocateResponse, error)

	mu   sync.Mutex
	left []uint64
}

func (p *playedStreams) Await(ctx context.Context, _ *bursarv1.AwaitRequest, answers *connect.ServerStream[bursarv1.AwaitResponse]) error {
	return p.await(ctx, answers)
}

func (p *playedStreams) Allocate(_ context.Context, q *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
	return p.allocate(q.GetStreamed())
}

func (p *playedStreams) Leave(_ context.Context, q *bursarv1.LeaveRequest) (*bursarv1.LeaveResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = append(p.left, q.GetNumbers()...)
	return &bursarv1.LeaveResponse{}, nil
}

// inBubble runs a test with the streams of an agent to a coordinator, within a bubble.
func inBubble(t *testing.T, p *playedStreams, test func(*testing.T, *waitStreams)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		mux := http.NewServeMux()
		mux.Handle(bursarv1connect.NewAllocationServiceHandler(p))
		listener := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
		var running sync.WaitGroup
		defer running.Wait()
		running.Go(func() { _ = server.Serve(listener) })
		defer server.Close()
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			select {
			case listener.conns <- far:
				return near, nil
			case <-listener.closed: // the test is over
				return nil, net.ErrClosed
			}
		}}
		defer transport.CloseIdleConnections()
		client := bursarv1connect.NewAllocationServiceClient(&http.Client{Transport: transport}, "http://coordinator")
		streams := newWaitStreams(client, client, running.Go, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		running.Go(func() { _ = streams.run(ctx) })
		test(t, streams)
	})
}

func says(number uint64, a *connect.ServerStream[bursarv1.AwaitResponse]) error {
	return a.Send(&bursarv1.AwaitResponse{Stream: "s", Ended: slices.DeleteFunc([]uint64{number}, func(n uint64) bool { return n == 0 })})
}

func waits(*bursarv1.StreamedWait) (*bursarv1.AllocateResponse, error) {
	return &bursarv1.AllocateResponse{Allocation: &bursarv1.Allocation{State: bursarv1.AllocationState_ALLOCATION_STATE_WAITING}}, nil
}

// As behind a proxy that passes an answer on when it has all of it.
func TestRequestsWaitWithCallsOfTheirOwnIfNoStreamIsHeard(t *testing.T) {
	p := &playedStreams{await: func(ctx context.Context, _ *connect.ServerStream[bursarv1.AwaitResponse]) error {
		<-ctx.Done()
		return ctx.Err()
	}}
	inBubble(t, p, func(t *testing.T, streams *waitStreams) {
		for _, want := range []time.Duration{firstMessage, 0} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			began := time.Now()
			_, err := streams.allocate(ctx, &bursarv1.AllocateRequest{})
			if took := time.Since(began); !errors.Is(err, errNoWaitStream) || took != want {
				t.Errorf("%v after %s: want %v after %s", err, took, errNoWaitStream, want)
			}
			cancel()
		}
	})
}

// A coordinator that answers at once that it does not lead is not asked for a stream as often as
// there are requests that want one.
func TestAttemptsToBeginAStreamHaveAPace(t *testing.T) {
	var attempts atomic.Int64
	p := &playedStreams{await: func(context.Context, *connect.ServerStream[bursarv1.AwaitResponse]) error {
		attempts.Add(1)
		return connect.NewError(connect.CodeUnavailable, errors.New("another one leads"))
	}}
	inBubble(t, p, func(t *testing.T, streams *waitStreams) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var callers sync.WaitGroup
		for range 50 {
			callers.Go(func() {
				for ctx.Err() == nil {
					_, _ = streams.allocate(ctx, &bursarv1.AllocateRequest{})
					time.Sleep(time.Millisecond)
				}
			})
		}
		callers.Wait()
		// one at the beginning, and one at the end
		if got, most := attempts.Load(), int64(time.Second/beginEvery)+1; got < most/2 || got > most {
			t.Errorf("%d attempts in a second: want at most %d, and half of that", got, most)
		}
	})
}

func TestAStreamWithoutKeepAlivesIsCutAndAnotherOneBegun(t *testing.T) {
	begun := 0
	p := &playedStreams{allocate: waits, await: func(ctx context.Context, a *connect.ServerStream[bursarv1.AwaitResponse]) error {
		begun++
		err := says(0, a)
		for range 10 { // then it is silent
			time.Sleep(convert.KeepAlive)
			err = errors.Join(err, a.Send(&bursarv1.AwaitResponse{}))
		}
		<-ctx.Done()
		return err
	}}
	inBubble(t, p, func(t *testing.T, streams *waitStreams) {
		for n := 1; n <= 2; n++ {
			began := time.Now()
			_, err := streams.allocate(t.Context(), &bursarv1.AllocateRequest{})
			took, want := time.Since(began), 10*convert.KeepAlive+maxSilence
			if connect.CodeOf(err) != connect.CodeUnavailable || took != want || begun != n {
				t.Errorf("%v after %s, stream %d: want UNAVAILABLE after %s, stream %d", err, took, begun, want, n)
			}
		}
	})
}

func TestASilentStreamIsLoggedOnce(t *testing.T) {
	p := &playedStreams{allocate: waits, await: func(ctx context.Context, a *connect.ServerStream[bursarv1.AwaitResponse]) error {
		err := says(0, a)
		<-ctx.Done()
		return err
	}}
	inBubble(t, p, func(t *testing.T, streams *waitStreams) {
		var log strings.Builder
		streams.log = slog.New(slog.NewTextHandler(&log, nil))
		var asked sync.WaitGroup
		for range 3 {
			asked.Go(func() { _, _ = streams.allocate(t.Context(), &bursarv1.AllocateRequest{}) })
		}
		asked.Wait()
		synctest.Wait()
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=WARN") || !strings.Contains(got, "silent=45s waiting=3") {
			t.Errorf("the log says %q: want one warning, of 45s and 3 that wait", got)
		}
	})
}

// As behind a load balancer that sends the stream to one coordinator and its requests to another.
func TestRequestsWaitWithCallsOfTheirOwnIfTheirStreamIsNotKnown(t *testing.T) {
	begun, unknown := 0, true
	p := &playedStreams{
		await: func(ctx context.Context, a *connect.ServerStream[bursarv1.AwaitResponse]) error {
			begun++
			err := says(0, a)
			<-ctx.Done()
			return err
		},
		allocate: func(streamed *bursarv1.StreamedWait) (*bursarv1.AllocateResponse, error) {
			if unknown {
				return nil, connect.NewError(connect.CodeAborted, errors.New("no such stream"))
			}
			return &bursarv1.AllocateResponse{Allocation: &bursarv1.Allocation{State: bursarv1.AllocationState_ALLOCATION_STATE_RESERVED}}, nil
		},
	}
	inBubble(t, p, func(t *testing.T, streams *waitStreams) {
		ask := func() error {
			synctest.Wait() // the last stream has ended
			_, err := streams.allocate(t.Context(), &bursarv1.AllocateRequest{})
			return err
		}
		want := func(when string, streams int, own bool) {
			t.Helper()
			err := ask()
			if errors.Is(err, errNoWaitStream) != own || !own && connect.CodeOf(err) != connect.CodeUnavailable || begun != streams {
				t.Errorf("%s: %v, after %d streams: want %d, and calls of their own: %t", when, err, begun, streams, own)
			}
		}
		want("the first, as after a change of leader", 1, false)
		want("the second", 2, false)
		want("the third", 3, true)
		want("within a minute", 3, true)
		time.Sleep(noStreamFor)
		want("after a minute", 4, true)
		time.Sleep(noStreamFor)
		unknown = false
		if err := ask(); err != nil || begun != 5 {
			t.Errorf("a stream that is known: %v, after %d streams: want a grant with the fifth", err, begun)
		}
		time.Sleep(noStreamFor) // it has ended
		unknown = true
		want("another one leads", 6, false)
	})
}

// Changes of leader that are far apart are no load balancer.
// As behind a proxy that cuts streams.
func TestRequestsWaitWithCallsOfTheirOwnIfStreamsEndAtOnce(t *testing.T) {
	var begun atomic.Int64
	p := &playedStreams{allocate: waits, await: func(_ context.Context, a *connect.ServerStream[bursarv1.AwaitResponse]) error {
		begun.Add(1)
		return says(0, a)
	}}
	inBubble(t, p, func(t *testing.T, streams *waitStreams) {
		ask := func() error {
			_, err := streams.allocate(t.Context(), &bursarv1.AllocateRequest{})
			time.Sleep(relayRetryLast)
			return err
		}
		for asked := 1; ; asked++ {
			err := ask()
			if errors.Is(err, errNoWaitStream) {
				break
			}
			if connect.CodeOf(err) != connect.CodeUnavailable || asked > maxStrays {
				t.Fatalf("asked %d times: %v, want %v", asked, err, errNoWaitStream)
			}
		}
		if err := ask(); !errors.Is(err, errNoWaitStream) || begun.Load() != maxStrays {
			t.Errorf("%v after %d streams, want %v after %d", err, begun.Load(), errNoWaitStream, maxStrays)
		}
		time.Sleep(noStreamFor)
		if err := ask(); begun.Load() != maxStrays+1 {
			t.Errorf("%v after %d streams, want another one", err, begun.Load())
		}
	})
}

// As when nobody leads. A call of its own would last for the whole wait.
func TestRequestsWaitWithAStreamAfterALongOutage(t *testing.T) {
	leads := false
	p := &playedStreams{allocate: waits, await: func(ctx context.Context, a *connect.ServerStream[bursarv1.AwaitResponse]) error {
		if !leads {
			return connect.NewError(connect.CodeUnavailable, errors.New("no coordinator is known to lead"))
		}
		err := says(0, a)
		<-ctx.Done()
		return err
	}}
	inBubble(t, p, func(t *testing.T, streams *waitStreams) {
		for range 60 {
			if _, err := streams.allocate(t.Context(), &bursarv1.AllocateRequest{}); connect.CodeOf(err) != connect.CodeUnavailable {
				t.Fatalf("while nobody leads: %v", err)
			}
			time.Sleep(time.Second)
		}
		leads = true
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := streams.allocate(ctx, &bursarv1.AllocateRequest{}); connect.CodeOf(err) != connect.CodeDeadlineExceeded {
			t.Errorf("after the outage: %v, want a wait with the stream", err)
		}
	})
}

func TestAStreamThatWasKnownForLongIsTheFirstThatStrays(t *testing.T) {
	streams := newWaitStreams(nil, nil, nil, slog.New(slog.DiscardHandler))
	for n := 1; n <= 2*maxStrays; n++ {
		cut := false
		stream := &waitStream{began: time.Now().Add(-2 * noStreamFor), cut: func() { cut = true }}
		if err := streams.stray(stream, connect.NewError(connect.CodeAborted, errors.New("no such stream"))); connect.CodeOf(err) != connect.CodeUnavailable || !cut {
			t.Errorf("change %d: %v, cut: %t: want UNAVAILABLE and a stream that is cut", n, err, cut)
		}
	}
}

// Otherwise the coordinator would keep the wait as long as the stream lives.
func TestAWaitWhoseEndWasNotAnsweredIsLeft(t *testing.T) {
	for name, fails := range map[string]error{
		"the connection broke": connect.NewError(connect.CodeUnavailable, errors.New("broken")),
		"too busy":             connect.NewError(connect.CodeResourceExhausted, errors.New("busy")),
	} {
		t.Run(name, func(t *testing.T) {
			p := &playedStreams{
				await: func(ctx context.Context, a *connect.ServerStream[bursarv1.AwaitResponse]) error {
					err := says(0, a)
					time.Sleep(time.Second)
					err = errors.Join(err, says(1, a))
					<-ctx.Done()
					return err
				},
				allocate: func(streamed *bursarv1.StreamedWait) (*bursarv1.AllocateResponse, error) {
					if streamed.GetEnded() {
						return nil, fails
					}
					return waits(streamed)
				},
			}
			inBubble(t, p, func(t *testing.T, streams *waitStreams) {
				if _, err := streams.allocate(t.Context(), &bursarv1.AllocateRequest{}); err == nil {
					t.Error("want the error of the call")
				}
				synctest.Wait()
				p.mu.Lock()
				defer p.mu.Unlock()
				if !slices.Equal(p.left, []uint64{1}) {
					t.Errorf("left: %v: want [1]", p.left)
				}
			})
		})
	}
}

// mute is a coordinator that never answers a Leave.
type mute struct {
	bursarv1connect.AllocationServiceClient

	asked int
}

func (m *mute) Leave(ctx context.Context, _ *bursarv1.LeaveRequest) (*bursarv1.LeaveResponse, error) {
	m.asked++
	<-ctx.Done()
	return nil, ctx.Err()
}

func (m *mute) Allocate(context.Context, *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
	panic("played fault")
}

func TestAStreamIsCutOnceItCannotBeToldWhoLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		coordinator, cuts := &mute{}, 0
		var running sync.WaitGroup
		stream := &waitStream{client: coordinator, background: running.Go, cut: func() { cuts++ }, waits: make(map[uint64]chan struct{})}
		began := time.Now()
		for number := range uint64(5 * maxLeft) {
			stream.leave(number)
		}
		running.Wait()
		if took := time.Since(began); coordinator.asked != 1 || cuts != 1 || took != leaveTimeout {
			t.Errorf("%d calls in %s, cut %d times: want one, after %s", coordinator.asked, took, cuts, leaveTimeout)
		}
	})
}

func TestAPanicOfACallKeepsItsStack(t *testing.T) {
	stream := &waitStream{client: &mute{}}
	defer func() {
		cause, _ := recover().(error)
		if cause == nil || !strings.HasPrefix(cause.Error(), "played fault") || !strings.Contains(cause.Error(), "(*mute).Allocate") {
			t.Errorf("%v: want the cause and where it came from", cause)
		}
	}()
	_, _ = stream.ask(t.Context(), &bursarv1.AllocateRequest{}, 1, false)
}
