package serve

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/bursar/bursar/coordinator"
	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/pause"
	"github.com/bursar/bursar/internal/standin"
)

// coordinatorStart starts a coordinator, and tries again as long as time may mend the fault.
// Meanwhile a stand-in serves /healthz and /readyz.
type coordinatorStart struct {
	config coordinator.Config
	open   func(ctx context.Context, checked func()) (*coordinator.Server, error)
	log    *slog.Logger

	ready  chan struct{}                      // closed when calls are taken
	waits  chan string                        // gets the reason why the start waits
	server atomic.Pointer[coordinator.Server] // the one that serves; set before ready is closed
	front  *standin.Server                    // nil: nobody stands in
}

func newCoordinatorStart(config coordinator.Config, loaded *configuration, by program, log *slog.Logger) *coordinatorStart {
	return &coordinatorStart{
		config: config.WithDefaults(), log: log, ready: make(chan struct{}), waits: make(chan string),
		open: func(ctx context.Context, checked func()) (*coordinator.Server, error) {
			return openCoordinator(ctx, config, loaded, by, log, checked)
		},
	}
}

// run runs the coordinator until ctx ends.
func (s *coordinatorStart) run(ctx context.Context) (err error) {
	defer func() {
		if s.front != nil {
			err = errors.Join(err, s.front.Close())
		}
	}()
	patient := newAttempts(s.log)
	for waited := false; ; waited = true {
		err := s.attempt(ctx)
		switch {
		case s.server.Load() != nil:
			return err
		case ctx.Err() != nil:
			s.log.Info("stopped before it could start", "error", err)
			return nil
		case !isTransient(err):
			return err
		}
		wait := patient.failed(err)
		s.standIn(ctx, shownReason(err))
		if !waited && s.front != nil {
			s.log.Info("only /healthz and /readyz are served until the start goes on", "address", s.front.Address())
		}
		select {
		case s.waits <- startsLater(err):
		case <-ctx.Done():
		}
		if !pause.For(wait, ctx.Done(), nil) {
			s.log.Info("stopped before it could start", "error", err)
			return nil
		}
	}
}

// attempt opens and runs the coordinator. If it gets ready, server is set.
func (s *coordinatorStart) attempt(ctx context.Context) error {
	server, err := s.open(ctx, func() {
		if s.front == nil { // the store may take long to answer
			s.standIn(ctx, "the store is being opened")
		}
	})
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-server.Ready():
		case <-ended:
			select {
			case <-server.Ready(): // it was, for a moment
			default:
				return
			}
		}
		s.server.Store(server)
		close(s.ready)
	})
	defer watching.Wait()
	defer close(ended)
	if s.front == nil {
		return server.Run(ctx) //nolint:wrapcheck // says what was done
	}
	// The stand-in goes on until the server takes calls, and after an attempt that fails.
	reserved := s.front.Reserve()
	err = server.Serve(ctx, reserved)
	if reserved.Taken() {
		s.front = nil
	}
	return err //nolint:wrapcheck // as above
}

// standIn makes the stand-in say why this coordinator is not ready. If there is none, and the
// address is another's now, the next attempt tries again.
func (s *coordinatorStart) standIn(ctx context.Context, reason string) {
	if s.front != nil {
		s.front.Says(reason)
		return
	}
	options := standin.Options{Reason: reason, OwnerOf: auth.ConnectionOwner(), Log: s.log}
	// Without its certificate it can only answer in the clear.
	if secure, err := s.config.TLS.Open(credential.Options{}); s.config.TLS.IsSet() && err == nil {
		options.TLS = secure.Config()
	}
	front, err := standin.Listen(ctx, s.config.Listen, options)
	if err != nil {
		s.log.Debug("nobody says that this coordinator starts", "error", err)
		return
	}
	s.front = front
}
