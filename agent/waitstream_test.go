package agent_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// waitStreams are those of a coordinator that knows Await. They are guarded by its lock.
type waitStreams struct {
	known  bool
	begun  int
	waits  map[string]map[uint64]string // ids of allocations
	cut    chan struct{}                // closed to end them
	strays int                          // streams of which requests find nothing, as behind a balancer
	parked int                          // requests that waited with a call of their own
}

// add has a request wait with its stream, if it says so and the coordinator knows that.
func (w *waitStreams) add(c *coordinator, q *bursarv1.AllocateRequest, id string) bool {
	added := false
	c.do(func() {
		waits := w.waits[q.GetStreamed().GetStream()]
		if added = waits != nil; added {
			waits[q.GetStreamed().GetNumber()] = id
		} else {
			w.parked++
		}
	})
	return added
}

// Await is for agents that wait for their callers with one stream.
func (c *coordinator) Await(ctx context.Context, _ *bursarv1.AwaitRequest, answers *connect.ServerStream[bursarv1.AwaitResponse]) error {
	id, cut := "", make(chan struct{})
	c.do(func() {
		if !c.streams.known {
			return
		}
		c.streams.begun++
		id, c.streams.cut = fmt.Sprint("stream", c.streams.begun), cut
		c.streams.waits = map[string]map[uint64]string{id: {}}
	})
	if id == "" {
		return connect.NewError(connect.CodeUnimplemented, errors.New("no such procedure"))
	}
	if err := answers.Send(&bursarv1.AwaitResponse{Stream: id}); err != nil {
		return err
	}
	for {
		var ended []uint64
		c.mu.Lock()
		changed := c.changed
		for number, waits := range c.streams.waits[id] {
			if c.allocations[waits].GetState() != waiting {
				ended = append(ended, number)
				delete(c.streams.waits[id], number)
			}
		}
		c.mu.Unlock()
		if len(ended) > 0 {
			if err := answers.Send(&bursarv1.AwaitResponse{Ended: ended}); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-cut:
			return connect.NewError(connect.CodeUnavailable, errors.New("another one leads"))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// unknown refuses a request of a stream that the coordinator that it comes to does not know.
func (w *waitStreams) unknown(c *coordinator, q *bursarv1.AllocateRequest) (refused error) {
	if q.GetStreamed() == nil {
		return nil
	}
	c.do(func() {
		if c.streams.begun <= w.strays {
			refused = connect.NewError(connect.CodeAborted, errors.New("streamed.stream: no such stream"))
		}
	})
	return refused
}

// Leave takes note of callers that went away.
func (c *coordinator) Leave(_ context.Context, q *bursarv1.LeaveRequest) (*bursarv1.LeaveResponse, error) {
	c.do(func() {
		for _, number := range q.GetNumbers() {
			if _, waits := c.streams.waits[q.GetStream()][number]; waits {
				delete(c.streams.waits[q.GetStream()], number)
				c.left++
			}
		}
	})
	return &bursarv1.LeaveResponse{}, nil
}

// waits is how many wait with a stream. The coordinator is locked.
func (c *coordinator) waits() (n int) {
	for _, waits := range c.streams.waits {
		n += len(waits)
	}
	return n
}

// streaming is an agent whose coordinator knows Await and grants nothing yet, with three callers
// that wait. The function returns the result of one of them.
func streaming(ctx context.Context, t *testing.T) (*subject, func() error) {
	t.Helper()
	s := run(t)
	s.coordinator.do(func() { s.coordinator.hold, s.coordinator.streams.known = true, true })
	results := make(chan error, 3)
	for i := range 3 {
		q := request(1)
		q.RequestId, q.Wait = fmt.Sprint("r", i), durationpb.New(time.Hour)
		go func() {
			response, err := s.Allocate(ctx, q)
			if err == nil && response.GetAllocation().GetState() != reserved {
				err = fmt.Errorf("got %v", response)
			}
			results <- err
		}()
	}
	s.coordinator.await("three wait", func() bool { return s.coordinator.waits() == 3 })
	return s, func() error { return <-results }
}

func TestCallersWaitWithOneStream(t *testing.T) {
	s, result := streaming(t.Context(), t)
	c := s.coordinator
	c.do(func() { c.hold = false })
	c.grantAll()
	for range 3 {
		if err := result(); err != nil {
			t.Error(err)
		}
	}
	c.do(func() {
		if c.streams.begun != 1 || c.streams.parked != 0 {
			t.Errorf("%d streams, and %d calls that last: want one stream", c.streams.begun, c.streams.parked)
		}
	})
}

func TestCallersWaitWithTheNextStreamIfOneEnds(t *testing.T) {
	s, result := streaming(t.Context(), t)
	c := s.coordinator
	c.do(func() {
		close(c.streams.cut)
		c.streams.waits = nil
	})
	c.await("they wait again", func() bool { return c.streams.begun == 2 && c.waits() == 3 })
	c.do(func() {
		if c.next != 3 || c.streams.parked != 0 {
			t.Errorf("%d requests, %d of them with calls that last: want the same three", c.next, c.streams.parked)
		}
		c.hold = false
	})
	c.grantAll()
	for range 3 {
		if err := result(); err != nil {
			t.Error(err)
		}
	}
}

func TestCallersWaitAlthoughTheirRequestsComeToOneWhoDoesNotKnowTheirStream(t *testing.T) {
	for _, strays := range []int{1, 1000} { // a change of leader; a load balancer
		s := run(t)
		c := s.coordinator
		c.do(func() { c.hold, c.streams.known, c.streams.strays = true, true, strays })
		result := make(chan error, 1)
		q := request(1)
		q.RequestId, q.Wait = "r", durationpb.New(time.Hour)
		go func() {
			response, err := s.Allocate(t.Context(), q)
			if err == nil && response.GetAllocation().GetState() != reserved {
				err = fmt.Errorf("got %v", response)
			}
			result <- err
		}()
		c.await("it waits", func() bool { return c.waits()+c.streams.parked > 0 })
		c.do(func() {
			if own := c.streams.parked > 0; own != (strays > 1) || c.streams.begun > 3 {
				t.Errorf("%d streams are not known: it waits with a call of its own: %t, after %d streams", strays, own, c.streams.begun)
			}
			c.hold = false
		})
		c.grantAll()
		if err := <-result; err != nil {
			t.Errorf("%d streams are not known: %v", strays, err)
		}
	}
}

func TestACallerThatLeavesItsStreamIsSeenAtOnce(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	s, result := streaming(ctx, t)
	leave()
	for range 3 {
		if err := result(); err == nil {
			t.Error("a grant for a caller that went away")
		}
	}
	c := s.coordinator
	c.await("all are known to have left", func() bool { return c.left == 3 && c.waits() == 0 })
}

// grantAll grants to all that wait.
func (c *coordinator) grantAll() {
	c.do(func() {
		for _, a := range c.allocations {
			if a.GetState() == waiting {
				c.put(a, func(a *bursarv1.Allocation) { a.State = reserved })
				delete(c.ended, a.GetId())
			}
		}
	})
}
