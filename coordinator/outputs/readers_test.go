package outputs

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// call is an agent's call with a ticket.
type call struct {
	messages chan *bursarv1.SendOutputRequest // what it sends; closed: it ends the call
	answered chan error                       // how it was answered
	over     chan struct{}                    // closed once it was
	cut      context.CancelFunc
}

// deliver makes an agent's call.
func deliver(r *Readers, host string, ticket []byte) *call {
	ctx, cut := context.WithCancel(context.Background())
	c := &call{messages: make(chan *bursarv1.SendOutputRequest), answered: make(chan error, 1), over: make(chan struct{}), cut: cut}
	go func() {
		defer close(c.over)
		c.answered <- r.Deliver(ctx, host, ticket, func() (*bursarv1.SendOutputRequest, error) {
			select {
			case m, open := <-c.messages:
				if !open {
					return nil, io.EOF
				}
				return m, nil
			case <-ctx.Done():
				return nil, connect.NewError(connect.CodeCanceled, ctx.Err())
			}
		}, cut)
	}()
	return c
}

// data sends output that ends before an offset.
func (c *call) data(next int64, text string) {
	c.messages <- &bursarv1.SendOutputRequest{Output: &bursarv1.LogsResponse{NextOffset: next, Piece: &bursarv1.LogsResponse_Data{Data: []byte(text)}}}
}

func (c *call) end(next int64) {
	c.messages <- &bursarv1.SendOutputRequest{Output: &bursarv1.LogsResponse{NextOffset: next, Piece: &bursarv1.LogsResponse_End{End: &bursarv1.LogsEnd{}}}}
}

// leader plays the leader: play decides about each order.
type leader struct {
	play func(n int, logs *bursarv1.LogsRequest, ticket []byte) (string, error)

	mu     sync.Mutex
	orders int
	stops  int
}

func (l *leader) URL() string { return "http://c1" }

func (l *leader) Send(_ context.Context, logs *bursarv1.LogsRequest, ticket []byte) (string, error) {
	l.mu.Lock()
	l.orders++
	n := l.orders
	l.mu.Unlock()
	return l.play(n, logs, ticket)
}

func (l *leader) Stop(context.Context, *bursarv1.LogsRequest, []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stops++
}

// reader is what a reader has got.
type reader struct {
	text strings.Builder
	kept int // keep-alives
	done bool
}

func (r *reader) take(m *bursarv1.LogsResponse) error {
	switch m.GetPiece().(type) {
	case nil:
		r.kept++
	case *bursarv1.LogsResponse_End:
		r.done = true
	}
	r.text.Write(m.GetData())
	return nil
}

var wide = Rates{Caller: 1 << 30, All: 1 << 30}

// A call that breaks is ordered again from the next byte, and the reader sees nothing of it.
func TestABrokenCallGoesOnAtTheNextByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(wide)
		var froms []int64
		l := &leader{play: func(n int, logs *bursarv1.LogsRequest, ticket []byte) (string, error) {
			froms = append(froms, logs.GetOffset())
			if n > 1 && n < 5 { // the agent restarts
				return "", connect.NewError(connect.CodeUnavailable, errors.New("not attached"))
			}
			go func() {
				c := deliver(r, "h1", ticket)
				if n == 1 {
					c.data(3, "abc")
					synctest.Wait() // the reader has it
					c.cut()
				} else {
					c.data(5, "de")
					c.end(5)
				}
				<-c.over
			}()
			return "h1", nil
		}}
		got := &reader{}
		if err := r.Read(t.Context(), "alice", &bursarv1.LogsRequest{Id: "1"}, l, got.take); err != nil || got.text.String() != "abcde" || !got.done {
			t.Errorf("%q, %v", got.text.String(), err)
		}
		if froms[0] != 0 || froms[len(froms)-1] != 3 || len(froms) != 5 {
			t.Errorf("ordered from %v", froms)
		}
	})
}

// However often an agent breaks off, a reader waits for it no longer than a bound.
func TestAReaderIsToldWhenNobodySends(t *testing.T) {
	for name, c := range map[string]struct {
		play  func(r *Readers, n int, ticket []byte) (string, error)
		least time.Duration
		most  time.Duration
		words string
	}{
		"no agent is attached": {func(*Readers, int, []byte) (string, error) {
			return "", connect.NewError(connect.CodeUnavailable, errors.New("the agent is not attached"))
		}, firstPatience, firstPatience + againLast*2, "not attached"},
		"the agent does not come": {func(*Readers, int, []byte) (string, error) { return "h1", nil }, arrivalTime, arrivalTime, "has not called"},
		"the agent comes, and goes": {func(r *Readers, _ int, ticket []byte) (string, error) {
			go func() {
				c := deliver(r, "h1", ticket)
				close(c.messages)
				<-c.over
			}()
			return "h1", nil
		}, laterPatience, laterPatience + againLast*2, "ended its call"},
		"the agent cannot open it": {func(r *Readers, _ int, ticket []byte) (string, error) {
			go func() {
				c := deliver(r, "h1", ticket)
				c.messages <- &bursarv1.SendOutputRequest{Problem: &bursarv1.OutputProblem{Code: "unavailable", Message: "no helper"}}
				<-c.over
			}()
			return "h1", nil
		}, laterPatience, laterPatience + againLast*2, "no helper"},
		"the agent has nothing": {func(r *Readers, _ int, ticket []byte) (string, error) {
			go func() {
				c := deliver(r, "h1", ticket)
				c.messages <- &bursarv1.SendOutputRequest{Problem: &bursarv1.OutputProblem{Code: "failed_precondition", Message: "the caller started it"}}
				<-c.over
			}()
			return "h1", nil
		}, 0, 0, "the caller started it"},
		"another host's agent comes": {func(r *Readers, _ int, ticket []byte) (string, error) {
			go func() {
				if err := <-deliver(r, "h2", ticket).answered; !errors.Is(err, ErrOtherHost) {
					t.Errorf("the other host's agent: %v", err)
				}
			}()
			return "h1", nil
		}, 0, 0, "in place of that of host h1"},
		"another byte comes": {func(r *Readers, _ int, ticket []byte) (string, error) {
			go func() {
				c := deliver(r, "h1", ticket)
				c.data(3, "abc")
				c.data(9, "abc")
				<-c.over
			}()
			return "h1", nil
		}, 0, 0, "byte 6 in place of byte 3"},
		"a large piece comes": {func(r *Readers, _ int, ticket []byte) (string, error) {
			go func() {
				c := deliver(r, "h1", ticket)
				c.data(MaxPiece+1, strings.Repeat("x", MaxPiece+1))
				<-c.over
			}()
			return "h1", nil
		}, 0, 0, "65537 bytes in one piece"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := New(wide)
				began := time.Now()
				l := &leader{play: func(n int, _ *bursarv1.LogsRequest, ticket []byte) (string, error) { return c.play(r, n, ticket) }}
				err := r.Read(t.Context(), "alice", &bursarv1.LogsRequest{Id: "1"}, l, (&reader{}).take)
				if took := time.Since(began); err == nil || !strings.Contains(err.Error(), c.words) || took < c.least || took > c.most {
					t.Errorf("after %v: %v", took, err)
				}
			})
		})
	}
}

// A ticket is good for one call.
func TestATicketIsGoodOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(wide)
		l := &leader{play: func(_ int, _ *bursarv1.LogsRequest, ticket []byte) (string, error) {
			go func() {
				if err := <-deliver(r, "h1", []byte("another")).answered; !errors.Is(err, ErrNoReader) {
					t.Errorf("an unknown ticket: %v", err)
				}
				c := deliver(r, "h1", ticket)
				c.data(1, "a")
				if err := <-deliver(r, "h1", ticket).answered; !errors.Is(err, ErrNoReader) {
					t.Errorf("the ticket again: %v", err)
				}
				c.end(1)
				if err := <-c.answered; err != nil {
					t.Errorf("the call: %v", err)
				}
				if err := <-deliver(r, "h1", ticket).answered; !errors.Is(err, ErrNoReader) {
					t.Errorf("the ticket afterwards: %v", err)
				}
			}()
			return "h1", nil
		}}
		if err := r.Read(t.Context(), "alice", &bursarv1.LogsRequest{Id: "1"}, l, (&reader{}).take); err != nil {
			t.Error(err)
		}
	})
}

// When the reader goes, the agent's call ends, whether it waits or sends; one that has not come is
// stopped.
func TestTheAgentHearsThatTheReaderIsGone(t *testing.T) {
	for _, comes := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := New(wide)
			ctx, leave := context.WithCancel(t.Context())
			calls := make(chan *call, 1)
			l := &leader{play: func(_ int, _ *bursarv1.LogsRequest, ticket []byte) (string, error) {
				if comes {
					calls <- deliver(r, "h1", ticket)
				}
				return "h1", nil
			}}
			ended := make(chan error, 1)
			go func() { ended <- r.Read(ctx, "alice", &bursarv1.LogsRequest{Id: "1"}, l, (&reader{}).take) }()
			synctest.Wait()
			leave()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("the reader: %v", err)
			}
			if comes {
				if err := <-(<-calls).answered; err != nil {
					t.Errorf("the agent: %v", err)
				}
			}
			if l.stops != 1 {
				t.Errorf("agent comes %v: stopped %d times", comes, l.stops)
			}
			if r.Count() != 0 {
				t.Errorf("%d readers", r.Count())
			}
		})
	}
}

// A reader gets a sign of life if there is no output.
func TestAnIdleReaderIsKeptAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(wide)
		l := &leader{play: func(_ int, _ *bursarv1.LogsRequest, ticket []byte) (string, error) {
			go func() {
				c := deliver(r, "h1", ticket)
				time.Sleep(4*KeepAlive + time.Second)
				c.end(0)
				<-c.over
			}()
			return "h1", nil
		}}
		got := &reader{}
		if err := r.Read(t.Context(), "alice", &bursarv1.LogsRequest{Id: "1"}, l, got.take); err != nil || got.kept != 4 {
			t.Errorf("%d messages, %v", got.kept, err)
		}
	})
}

// A reader that takes nothing holds up its own agent alone.
func TestAReaderThatTakesNothingHoldsUpItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(wide)
		ctx, leave := context.WithCancel(t.Context())
		stuck := make(chan error, 1)
		go func() {
			stuck <- r.Read(ctx, "alice", &bursarv1.LogsRequest{Id: "1"}, source(r, 1000), func(*bursarv1.LogsResponse) error {
				<-ctx.Done()
				return ctx.Err()
			})
		}()
		synctest.Wait()
		for range 20 {
			if err := r.Read(t.Context(), "alice", &bursarv1.LogsRequest{Id: "1"}, source(r, 100), (&reader{}).take); err != nil {
				t.Error(err)
			}
		}
		leave()
		if err := <-stuck; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// Readers are bounded by caller and in all, and their places are free again.
func TestReadersAreBounded(t *testing.T) {
	r := New(wide)
	var leaves []func()
	for {
		_, leave, err := r.enter("alice")
		if err != nil {
			if busy, ok := errors.AsType[*BusyError](err); !ok || busy.Caller != "alice" || len(leaves) != maxReadersCaller {
				t.Errorf("after %d: %v", len(leaves), err)
			}
			break
		}
		leaves = append(leaves, leave)
	}
	for i := len(leaves); i < maxReaders; i++ {
		_, leave, err := r.enter("caller" + string(rune('a'+i%8)))
		if err != nil {
			t.Fatal(i, err)
		}
		leaves = append(leaves, leave)
	}
	if _, _, err := r.enter("zoe"); err == nil {
		t.Error("one reader too many")
	}
	for _, leave := range leaves {
		leave()
	}
	if _, _, err := r.enter("alice"); err != nil || r.Count() != 1 {
		t.Errorf("%d readers, %v", r.Count(), err)
	}
}

// A coordinator that stops ends its readers.
func TestCloseEndsReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(wide)
		why := errors.New("it stops")
		l := &leader{play: func(_ int, _ *bursarv1.LogsRequest, ticket []byte) (string, error) {
			deliver(r, "h1", ticket)
			return "h1", nil
		}}
		ended := make(chan error, 1)
		go func() { ended <- r.Read(t.Context(), "alice", &bursarv1.LogsRequest{Id: "1"}, l, (&reader{}).take) }()
		synctest.Wait()
		r.Close(why)
		if err := <-ended; !errors.Is(err, why) {
			t.Error(err)
		}
		if err := r.Read(t.Context(), "alice", &bursarv1.LogsRequest{Id: "1"}, l, (&reader{}).take); !errors.Is(err, why) {
			t.Error(err)
		}
	})
}
