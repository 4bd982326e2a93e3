package orders

import (
	"context"
	"strings"
	"sync"

	"github.com/bursar/bursar/agent/engine"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// engines plays what starts engines: it keeps what it was to launch.
type engines struct {
	stops   chan *bursarv1.StopOrder
	signals chan string // what it was to send, and for whom
	refuses error       // what it says of a signal
	// begins plays BeginLaunch; nil: it is free.
	begins func(ctx context.Context) error
	// stopping is the context of the last stop, which its order was sent before.
	stopping context.Context
	fails    error // what Launch says; nil: it launches

	mu       sync.Mutex
	launched []engine.Launch // guarded by mu
}

func (e *engines) BeginLaunch(ctx context.Context, _ string) (func(), error) {
	if e.begins == nil {
		return func() {}, nil
	}
	return func() {}, e.begins(ctx)
}

func (e *engines) Launch(ctx context.Context, l engine.Launch) (*bursarv1.Allocation, string, error) {
	e.mu.Lock()
	e.launched = append(e.launched, l)
	e.mu.Unlock()
	if e.fails != nil {
		return nil, "", e.fails
	}
	active, err := l.Coordinator.Confirm(ctx, &bursarv1.ConfirmRequest{Id: l.Request.GetId(), Process: &bursarv1.Process{Pid: 7, StartTime: 1}})
	return active, "/log/" + l.Request.GetId(), err
}

func (e *engines) Stop(ctx context.Context, order *bursarv1.StopOrder) {
	e.stopping = ctx
	e.stops <- order
}

func (e *engines) Signal(_ context.Context, id string, signal bursarv1.Signal, by string) error {
	e.signals <- strings.Join([]string{id, signal.String(), by}, " ")
	return e.refuses
}

func (e *engines) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.launched)
}
