package orders

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/agent/hoststate"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// listener is a coordinator that only hears answers.
type listener struct {
	bursarv1connect.HostServiceClient

	mu      sync.Mutex
	answers []*bursarv1.AnswerRequest // guarded by mu
}

func (l *listener) Answer(_ context.Context, answer *bursarv1.AnswerRequest) (*bursarv1.AnswerResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers = append(l.answers, answer)
	return &bursarv1.AnswerResponse{}, nil
}

// slow has a taker launch so many engines at once. Each takes a minute, and fails. ctx is the
// agent's. It returns when nothing is under way.
func slow(ctx context.Context, n int) (*Taker, *listener) {
	state := hoststate.New(slog.New(slog.DiscardHandler), func() string { return "h1" }, func(time.Duration, error) {})
	state.Open(nil, "boot-1", 3)
	state.Begin(tracker.New(time.Now(), tracker.Host{ID: "h1", BootID: "boot-1", Incarnation: 3}, tracker.Snapshot{Epoch: 5}))
	heard := &listener{}
	taker := New(Options{
		HostID: func() string { return "h1" }, State: state, Hosts: heard, Policy: standard, Log: slog.New(slog.DiscardHandler),
		Engines: &engines{begins: func(ctx context.Context) error {
			select {
			case <-time.After(time.Minute):
				return errors.New("the home is slow")
			case <-ctx.Done():
				return ctx.Err()
			}
		}},
	})
	var launches sync.WaitGroup
	for i := range n {
		launches.Go(func() { taker.launch(ctx, &bursarv1.LaunchOrder{AllocationId: fmt.Sprint("a", i)}) })
	}
	launches.Wait()
	return taker, heard
}

// The time of a launch begins with the launch: orders that waited for others have not failed.
func TestALaunchHasItsWholeTimeHoweverLongItWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, heard := slow(t.Context(), 4*atOnce)
		if len(heard.answers) != 4*atOnce {
			t.Errorf("%d answers", len(heard.answers))
		}
		for _, answer := range heard.answers {
			if reason := answer.GetFailed().GetReason(); !strings.Contains(reason, "the home is slow") {
				t.Errorf("%s failed because of %q", answer.GetAllocationId(), reason)
			}
		}
	})
}

// An agent that stops waits for what has begun. Orders that wait for a slot are new when they are
// repeated, and nobody hears that they failed.
func TestOrdersThatHaveNotBegunEndWithTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		taker, heard := slow(ctx, 4*atOnce)
		if took := time.Since(began); took != time.Minute {
			t.Errorf("it took %v", took)
		}
		if len(heard.answers) != atOnce || taker.taken.Len() != atOnce {
			t.Errorf("%d answers, %d orders are remembered: want %d", len(heard.answers), taker.taken.Len(), atOnce)
		}
	})
}

// A coordinator that lies can make an agent remember so many orders, and no more. What was dropped
// is taken when it is repeated.
func TestOrdersUnderWayAreBounded(t *testing.T) {
	const beyond = 40
	r := newRig(t, standard())
	free := make(chan struct{})
	r.begins = func(context.Context) error {
		<-free
		return errors.New("it is held")
	}
	order := func(id string, size int) *bursarv1.AttachResponse {
		return &bursarv1.AttachResponse{Epoch: 5, Order: &bursarv1.AttachResponse_Launch{Launch: &bursarv1.LaunchOrder{AllocationId: id, Spec: make([]byte, size)}}}
	}
	for i := range mostUnderWay + beyond {
		r.orders <- order(fmt.Sprint("a", i), 0)
	}
	r.orders <- &bursarv1.AttachResponse{Epoch: 5, Order: &bursarv1.AttachResponse_Stop{Stop: &bursarv1.StopOrder{AllocationId: "a"}}}
	<-r.stops // all before it were taken, or dropped
	if n := r.log.count("too many are under way"); n != beyond {
		t.Errorf("%d orders were dropped, want %d", n, beyond)
	}
	close(free)
	for range mostUnderWay {
		r.next(t)
	}
	last := fmt.Sprint("a", mostUnderWay+beyond-1)
	for _, wrong := range []*bursarv1.AttachResponse{order("no id", 0), order(strings.Repeat("a", 65), 0), order("large", maxOrder), order(last, 0)} {
		r.orders <- wrong
	}
	if answer := r.next(t); answer.GetAllocationId() != last {
		t.Errorf("%s is answered, want %s", answer.GetAllocationId(), last)
	}
	if n := r.log.count("no coordinator gives"); n != 3 {
		t.Errorf("%d orders were refused, want 3", n)
	}
}
