package coordinator

import (
	"errors"
	"strings"
	"testing"

	"connectrpc.com/connect"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// agentStream is a stream on which an agent hears which waits are over.
type agentStream struct {
	f       *fixture
	id      string
	answers *connect.ServerStreamForClient[bursarv1.AwaitResponse]
}

func (f *fixture) await() *agentStream {
	f.tb.Helper()
	answers, err := f.allocations.Await(f.tb.Context(), &bursarv1.AwaitRequest{})
	if err != nil {
		f.tb.Fatal(err)
	}
	if !answers.Receive() {
		f.tb.Fatal(answers.Err())
	}
	s := &agentStream{f, answers.Msg().GetStream(), answers}
	f.tb.Cleanup(s.close)
	return s
}

func (s *agentStream) close() { _ = s.answers.Close() }

// leave says that callers have gone away.
func (s *agentStream) leave(numbers ...uint64) error {
	_, err := s.f.allocations.Leave(s.f.tb.Context(), &bursarv1.LeaveRequest{Stream: s.id, Numbers: numbers})
	return err
}

// ask asks for a GiB with the id "waits", as one wait of the stream.
func (s *agentStream) ask(number uint64, wait int64, ended bool) (*bursarv1.Allocation, error) {
	req := request("waits", gib)
	req.Wait = seconds(wait)
	req.Streamed = &bursarv1.StreamedWait{Stream: s.id, Number: number, Ended: ended}
	res, err := s.f.allocations.Allocate(s.f.tb.Context(), req)
	return res.GetAllocation(), err
}

// waits is ask for what cannot be granted now.
func (s *agentStream) waits(number uint64, wait int64) {
	s.f.tb.Helper()
	a, err := s.ask(number, wait, false)
	if err != nil || a.GetState() != waiting {
		s.f.tb.Fatalf("%v, %v: want one that waits, at once", a, err)
	}
}

// heard is what the stream says next.
func (s *agentStream) heard() []uint64 {
	s.f.tb.Helper()
	if !s.answers.Receive() {
		s.f.tb.Fatal(s.answers.Err())
	}
	return s.answers.Msg().GetEnded()
}

func (s *agentStream) hears(number uint64) {
	s.f.tb.Helper()
	if got := s.heard(); len(got) != 1 || got[0] != number {
		s.f.tb.Fatalf("the stream says %v: want %d", got, number)
	}
}

func TestAStreamTellsWhichWaitIsOverAndTheNextCallHow(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	holder := f.allocate(request("holder", gib))
	s := f.await()
	s.waits(7, 60)
	f.release(holder.GetId())
	s.hears(7)
	if a, err := s.ask(7, 60, true); err != nil || a.GetState() != reserved || a.GetHostId() != "h1" {
		t.Errorf("%v, %v: want the grant", a, err)
	}
	if _, err := s.ask(7, 60, true); connect.CodeOf(err) != connect.CodeAborted {
		t.Errorf("asked for once more: %v: want ABORTED", err)
	}
	if a, err := s.ask(8, 60, false); err != nil || a.GetState() != reserved {
		t.Errorf("a repeat: %v, %v: want the grant", a, err)
	}
	f.audited()
}

func TestTheEndOfAStreamedWaitSaysWhatWasShort(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	f.allocate(request("holder", gib))
	s := f.await()
	s.waits(1, 1)
	s.hears(1)
	_, err := s.ask(1, 1, true)
	short, has := detail[*bursarv1.InsufficientResources](err)
	if connect.CodeOf(err) != connect.CodeResourceExhausted || !has || short.GetReason() != "waited" || len(short.GetShortfalls()) == 0 {
		t.Errorf("%v, %v: want what was short", err, short)
	}
}

// As a call of its own that breaks: the request keeps its place, and is granted only to a caller
// that is back.
func TestACallerThatHasLeftAStreamIsGrantedNothing(t *testing.T) {
	for name, leave := range map[string]func(*agentStream) error{
		"by itself": func(s *agentStream) error { return s.leave(3, 4) },
		"with the stream": func(s *agentStream) error {
			s.close()
			eventually(s.f.tb, "the stream is over", func() bool {
				// Refused as a number that is in use, until then.
				_, err := s.ask(3, 60, false)
				return connect.CodeOf(err) == connect.CodeAborted
			})
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, Config{}, nil)
			f.host("h1", gib)
			holder := f.allocate(request("holder", gib))
			s := f.await()
			s.waits(3, 60)
			if err := leave(s); err != nil {
				t.Fatal(err)
			}
			// Commands of one caller keep their order.
			f.release(holder.GetId())
			if a := f.waiter(); a.GetState() != waiting {
				t.Errorf("granted to nobody: %v", a)
			}
			if a, err := f.await().ask(1, 60, false); err != nil || a.GetState() != reserved {
				t.Errorf("once it is back: %v, %v", a, err)
			}
			f.audited()
		})
	}
}

// Otherwise the stream would keep more and more waits of one caller that have ended.
func TestAStreamedWaitCountsUntilItIsTakenOut(t *testing.T) {
	for name, take := range map[string]func(*agentStream) error{
		"asked for": func(s *agentStream) error {
			_, err := s.ask(1, 60, true)
			return err
		},
		"left": func(s *agentStream) error { return s.leave(1) },
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, Config{Limits: Limits{CallerWaiting: 1}}, nil)
			f.host("h1", gib)
			holder := f.allocate(request("holder", gib))
			s := f.await()
			s.waits(1, 60)
			full := func(when string) {
				if _, err := s.ask(2, 60, false); connect.CodeOf(err) != connect.CodeResourceExhausted {
					t.Errorf("%s: %v: want RESOURCE_EXHAUSTED", when, err)
				}
			}
			full("while it waits")
			f.release(holder.GetId())
			s.hears(1)
			full("when it is over")
			if err := take(s); err != nil {
				t.Fatal(err)
			}
			if a, err := s.ask(2, 60, false); err != nil || a.GetState() != reserved {
				t.Errorf("when it is taken out: %v, %v", a, err)
			}
		})
	}
}

// As over another connection, or through another coordinator.
func TestACallerThatLeavesBeforeItsRequestComesDoesNotWait(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	f.allocate(request("holder", gib))
	s := f.await()
	if err := s.leave(7); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ask(7, 60, false); connect.CodeOf(err) != connect.CodeCanceled {
		t.Errorf("%v: want CANCELED", err)
	}
	res, err := f.allocations.List(t.Context(), &bursarv1.AllocationServiceListRequest{States: []bursarv1.AllocationState{waiting}})
	if err != nil || len(res.GetAllocations()) != 0 {
		t.Errorf("%v, %v: want none that waits", res.GetAllocations(), err)
	}
	s.waits(8, 60) // the stream goes on
}

func TestAStreamEndsWhenTooManyLeaveBeforeTheyCome(t *testing.T) {
	f := start(t, Config{}, nil)
	s := f.await()
	for number := uint64(0); number <= maxLeftEarly; {
		var some []uint64
		for ; number <= maxLeftEarly && len(some) < 1000; number++ {
			some = append(some, number)
		}
		if err := s.leave(some...); err != nil {
			t.Fatal(err)
		}
	}
	if s.answers.Receive() {
		t.Errorf("the stream says %v: want its end", s.answers.Msg())
	}
	if err := s.answers.Err(); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("%v: want RESOURCE_EXHAUSTED", err)
	}
}

func TestAHostHasFewStreams(t *testing.T) {
	c := newAuthServer(t)
	begin := func(v *visitor) (*connect.ServerStreamForClient[bursarv1.AwaitResponse], error) {
		answers, err := v.allocations.Await(t.Context(), &bursarv1.AwaitRequest{})
		if err != nil || !answers.Receive() {
			return nil, errors.Join(err, answers.Err())
		}
		t.Cleanup(func() { _ = answers.Close() })
		return answers, nil
	}
	agent := c.visit(t, "agent1")
	var last *connect.ServerStreamForClient[bursarv1.AwaitResponse]
	for range maxHostStreams {
		answers, err := begin(agent)
		if err != nil {
			t.Fatal(err)
		}
		last = answers
	}
	if _, err := begin(agent); connect.CodeOf(err) != connect.CodeResourceExhausted || !strings.Contains(err.Error(), "host h1 has 4 streams of Await: want at most 4") {
		t.Errorf("one too many: %v", err)
	}
	if _, err := begin(c.visit(t, "agent2")); err != nil {
		t.Errorf("another host: %v", err)
	}
	if _, err := begin(c.visit(t, "alice")); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("no agent: %v: want PERMISSION_DENIED", err)
	}
	_ = last.Close()
	eventually(t, "one has ended", func() bool {
		_, err := begin(agent)
		return err == nil
	})
}

func TestWhatWaitsWithoutAStreamIsRefused(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	f.allocate(request("holder", gib))
	s := f.await()
	s.waits(1, 60)
	for name, test := range map[string]struct {
		id       string
		streamed *bursarv1.StreamedWait
		want     connect.Code
	}{
		"a stream that is not there": {"a", &bursarv1.StreamedWait{Stream: "gone", Number: 1}, connect.CodeAborted},
		"no stream":                  {"a", &bursarv1.StreamedWait{Number: 1}, connect.CodeInvalidArgument},
		"a number twice":             {"a", &bursarv1.StreamedWait{Stream: s.id, Number: 1}, connect.CodeInvalidArgument},
		"no request_id":              {"", &bursarv1.StreamedWait{Stream: s.id, Number: 2}, connect.CodeInvalidArgument},
		"an end that was not told":   {"a", &bursarv1.StreamedWait{Stream: s.id, Number: 1, Ended: true}, connect.CodeAborted},
	} {
		req := request(test.id, gib)
		req.Wait, req.Streamed = seconds(60), test.streamed
		if _, err := f.allocations.Allocate(t.Context(), req); connect.CodeOf(err) != test.want {
			t.Errorf("%s: %v: want %s", name, err, test.want)
		}
	}
}

func TestAStreamEndsWithItsCoordinator(t *testing.T) {
	f := start(t, Config{}, nil)
	s := f.await()
	f.stop()
	for s.answers.Receive() {
		_ = s // nothing is said any more
	}
	if err := s.answers.Err(); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("%v: want UNAVAILABLE", err)
	}
}
