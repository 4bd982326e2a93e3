package cmdline

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"github.com/bursar/bursar/internal/cli/failure"
)

// Interrupts end a context when somebody interrupts the program, and remember the signal.
type Interrupts struct {
	mu     sync.Mutex
	caught os.Signal
	Stop   func()
}

// NotIgnored leaves out the signals that were ignored when the program started. They stay ignored,
// also for the commands that it starts: nohup ignores SIGHUP, and a shell without job control
// ignores SIGINT and SIGQUIT for its background processes. Go's runtime takes over all other
// signals, but leaves the first two as they were. SIGQUIT is treated like SIGINT.
func NotIgnored(which ...os.Signal) []os.Signal {
	if signal.Ignored(syscall.SIGINT) {
		signal.Ignore(syscall.SIGQUIT)
	}
	return slices.DeleteFunc(which, signal.Ignored)
}

// CatchInterrupts returns a context that ends with the first SIGINT, SIGTERM or SIGHUP. After stop
// these signals end the program again.
func CatchInterrupts(ctx context.Context) (context.Context, *Interrupts) {
	return catch(ctx, NotIgnored(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)...)
}

// CatchEnds is CatchInterrupts for servers that end with their terminal, unless nohup has started
// them.
func CatchEnds(ctx context.Context) (context.Context, *Interrupts) {
	return catch(ctx, append(slices.DeleteFunc([]os.Signal{syscall.SIGHUP}, signal.Ignored), syscall.SIGINT, syscall.SIGTERM)...)
}

// CatchStops is CatchInterrupts for a server that SIGHUP does not end: it comes on hangups. SIGINT
// also ends a server that a script has put into the background: it can be for nobody else.
func CatchStops(ctx context.Context) (_ context.Context, _ *Interrupts, hangups <-chan os.Signal) {
	// A signal that comes during a reload is not lost; more than one would be the same.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	ctx, i := catch(ctx, syscall.SIGINT, syscall.SIGTERM)
	stop := i.Stop
	i.Stop = func() {
		signal.Stop(signals)
		stop()
	}
	return ctx, i, signals
}

func catch(ctx context.Context, which ...os.Signal) (context.Context, *Interrupts) {
	ctx, cancel := context.WithCancel(ctx)
	i := &Interrupts{}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, which...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case caught := <-signals:
			i.mu.Lock()
			i.caught = caught
			i.mu.Unlock()
			signal.Stop(signals) // a second one ends the program
			cancel()
		case <-ctx.Done():
		}
	}()
	i.Stop = func() {
		signal.Stop(signals)
		cancel()
		<-done
	}
	return ctx, i
}

// Code returns the exit code of a program that was interrupted.
func (i *Interrupts) Code() (code int, interrupted bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	number, ok := i.caught.(syscall.Signal)
	return failure.ExitSignal + int(number), ok
}
