package engines

import (
	"context"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/servers"
	"github.com/bursar/bursar/internal/endreason"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// againWithin is how soon a second Ctrl-C has to follow the first one to stop the engine.
const againWithin = 5 * time.Second

// remoteSignals passes the signals that this program gets on to an engine on another host. As long
// as the engine has not begun, the signals that end a program give the request up.
type remoteSignals struct {
	remote *remote
	cancel context.CancelFunc
	stop   func()

	interrupt time.Time // when the last SIGINT came
	stopping  bool
}

func newRemoteSignals(ctx context.Context, r *remote, cancel context.CancelFunc) *remoteSignals {
	ctx = context.WithoutCancel(ctx)
	s := &remoteSignals{remote: r, cancel: cancel}
	s.stop = takeSignals(func(sig syscall.Signal) { s.take(ctx, sig) })
	return s
}

// take decides on one signal.
func (s *remoteSignals) take(ctx context.Context, sig syscall.Signal) {
	r := s.remote
	r.mu.Lock()
	id, begun := r.id, r.begun
	r.mu.Unlock()
	if !begun {
		if isEnd(sig) {
			r.leave(failure.ExitSignal + int(sig))
			s.cancel()
		}
		return
	}
	again := sig == syscall.SIGINT && !s.interrupt.IsZero() && time.Since(s.interrupt) <= againWithin
	if sig == syscall.SIGINT {
		s.interrupt = time.Now()
	}
	switch {
	case again && s.stopping:
		r.c.Sayf("bursar: leaves the engine, which is being stopped: see bursar allocations %s", id)
		r.leave(failure.ExitSignal + int(sig))
		s.cancel()
	case again:
		s.stopEngine(ctx, id, "interrupted twice")
	default:
		s.pass(ctx, id, sig)
	}
}

// pass sends a signal to the engine. If nobody can do that, a signal that ends a program stops it.
func (s *remoteSignals) pass(ctx context.Context, id string, sig syscall.Signal) {
	r := s.remote
	calling, cancel := context.WithTimeout(ctx, servers.PresentPatience)
	defer cancel()
	_, err := r.cl.Engines().Signal(calling, &bursarv1.SignalRequest{Id: id, Signal: bursarv1.Signal(sig)}) //nolint:gosec // the numbers of Linux
	name := endreason.Signal(int32(sig))                                                                    //nolint:gosec // a signal
	switch {
	case err == nil && sig == syscall.SIGINT:
		r.c.Sayf("bursar: passed %s on to the engine; another one within %s stops it", name, cmdline.Hours(againWithin))
	case err == nil, client.NotFound(err): // it has ended
	case client.Precondition(err):
		switch a := r.look(calling); {
		case render.HasEnded(a):
		case isEnd(sig) && sig != syscall.SIGINT: // its main process has ended, say, and others go on
			r.c.Sayf("bursar: %s was not passed on: %s", name, r.c.Message(err))
			s.stopEngine(ctx, id, "its caller got "+name)
		default:
			r.once("refused", func() {
				r.c.Sayf("bursar: %s was not passed on: %s; a second Ctrl-C within %s stops the engine", name, r.c.Message(err), cmdline.Hours(againWithin))
			})
		}
	case connect.CodeOf(err) == connect.CodeUnimplemented && isEnd(sig):
		s.stopEngine(ctx, id, "its caller got "+name)
	case connect.CodeOf(err) == connect.CodeDeadlineExceeded && connect.IsWireError(err):
		r.c.Sayf("bursar: %s may have been passed on, or not: %s", name, r.c.Message(err))
	default:
		r.c.Sayf("bursar: %s was not passed on: %s", name, r.c.Message(err))
	}
}

func (s *remoteSignals) stopEngine(ctx context.Context, id, reason string) {
	r := s.remote
	ctx, cancel := context.WithTimeout(ctx, servers.PresentPatience)
	defer cancel()
	s.stopping = true
	r.c.Sayf("bursar: stops the engine: SIGTERM, and SIGKILL after %s", cmdline.Hours(r.grace))
	if err := r.stopEngine(ctx, id, reason); err != nil {
		r.c.Sayf("bursar: %s; see bursar allocations %s", r.c.Message(err), id)
	}
}
