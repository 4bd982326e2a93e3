package orders

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/agent/hoststate"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/pause"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// mixed plays coordinators of several versions. The agent is at one of them at a time.
type mixed struct {
	bursarv1connect.HostServiceClient

	knows []bool                       // which of them know Attach
	lives func(call int) time.Duration // how long a stream lives; nil: not at all
	leads func(*hoststate.State)       // runs beside the taker; nil: nothing does
	at    int
	calls []time.Duration // when Attach was called
	began time.Time
}

func (m *mixed) Attach(ctx context.Context, _ *bursarv1.AttachRequest) (*connect.ServerStreamForClient[bursarv1.AttachResponse], error) {
	m.calls = append(m.calls, time.Since(m.began))
	if m.lives != nil {
		pause.For(m.lives(len(m.calls)), ctx.Done(), nil)
	}
	if m.knows[m.at] {
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("attached, and lost again"))
	}
	return nil, connect.NewError(connect.CodeUnimplemented, errors.New("404 Not Found"))
}

// nothing sends no output.
type nothing struct{}

func (nothing) Send(context.Context, *bursarv1.SendOutputOrder) {}
func (nothing) Stop(*bursarv1.StopSendingOrder)                 {}
func (nothing) Wait()                                           {}

// run runs a taker for a while.
func (m *mixed) run(t *testing.T, d time.Duration) (log *records) {
	t.Helper()
	log = &records{}
	synctest.Test(t, func(t *testing.T) {
		m.began = time.Now()
		state := hoststate.New(slog.New(slog.DiscardHandler), func() string { return "h1" }, func(time.Duration, error) {})
		state.Open(nil, "boot-1", 3)
		state.Begin(tracker.New(m.began, tracker.Host{ID: "h1", BootID: "boot-1", Incarnation: 3}, tracker.Snapshot{Epoch: 5}))
		taker := New(Options{
			HostID: func() string { return "h1" }, State: state, Hosts: m, Policy: standard, Sender: nothing{},
			Elsewhere: func() { m.at = (m.at + 1) % len(m.knows) }, Log: slog.New(slog.NewTextHandler(log, nil)),
		})
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		if m.leads != nil {
			go m.leads(state)
		}
		if err := taker.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	return log
}

// Coordinators of the version before do not know orders. The agent says so once, and tries seldom.
func TestOlderCoordinatorsAreLeftInPeace(t *testing.T) {
	m := &mixed{knows: []bool{false}}
	log := m.run(t, time.Hour)
	if n := len(m.calls); n < 50 || n > 70 {
		t.Errorf("%d calls in an hour: want about one a minute", n)
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	if n := strings.Count(log.text.String(), "older version"); n != 1 {
		t.Errorf("it says so %d times", n)
	}
}

// An older standby is in front of a newer leader: the agent finds a coordinator that knows orders
// within seconds.
func TestAnAgentFindsTheNewerOfItsCoordinators(t *testing.T) {
	m := &mixed{knows: []bool{false, false, true}}
	m.run(t, 30*time.Second)
	if m.at != 2 || len(m.calls) < 3 || m.calls[2] > 20*time.Second {
		t.Errorf("at coordinator %d, calls after %v", m.at, m.calls)
	}
}

// A stream that has lived for long says that what was before it is over: the next one is opened at
// once.
func TestAStreamThatLivedIsOpenedAgainAtOnce(t *testing.T) {
	const fails = 20
	m := &mixed{knows: []bool{true}, lives: func(call int) time.Duration {
		if call == fails {
			return 30 * time.Second
		}
		return 0
	}}
	m.run(t, 5*time.Minute)
	if after := m.calls[fails] - m.calls[fails-1] - 30*time.Second; after > 2*retryFirst {
		t.Errorf("it is opened again after %v", after)
	}
}

// A new leader may be of a newer version: the agent does not wait for the end of its pause.
func TestANewLeaderEndsThePauseForOlderCoordinators(t *testing.T) {
	const at = 10*time.Minute + 7*time.Second
	m := &mixed{knows: []bool{false}, leads: func(state *hoststate.State) {
		time.Sleep(at - time.Second)
		state.Locked(func(*tracker.Tracker) { state.Answered.Happened() }) // the same leader has answered
		time.Sleep(time.Second)
		state.Locked(func(known *tracker.Tracker) {
			*known = *tracker.New(time.Now(), tracker.Host{ID: "h1", BootID: "boot-1", Incarnation: 3}, tracker.Snapshot{Epoch: 6})
			state.Answered.Happened()
		})
	}}
	log := m.run(t, at+4*time.Second)
	if last := m.calls[len(m.calls)-1]; last != at {
		t.Errorf("the last call was after %v, want %v", last, at)
	}
	if n := strings.Count(log.text.String(), "older version"); n != 1 {
		t.Errorf("it says so %d times", n)
	}
}
