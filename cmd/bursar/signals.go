package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"github.com/bursar/bursar/internal/cli/failure"
)

// interrupts end a context when somebody interrupts the program, and remember the signal.
type interrupts struct {
	mu     sync.Mutex
	caught os.Signal
	stop   func()
}

// notIgnored leaves out the signals that were ignored when the program started. They stay ignored,
// also for the commands that it starts: nohup ignores SIGHUP, and a shell without job control
// ignores SIGINT and SIGQUIT for what it runs in the background. Go's runtime takes over all other
// signals, but leaves the first two as they were. SIGQUIT is treated like SIGINT.
func notIgnored(which ...os.Signal) []os.Signal {
	if signal.Ignored(syscall.SIGINT) {
		signal.Ignore(syscall.SIGQUIT)
	}
	return slices.DeleteFunc(which, signal.Ignored)
}

// catchInterrupts returns a context that ends with the first SIGINT, SIGTERM or SIGHUP. After stop
// these signals end the program again.
func catchInterrupts(ctx context.Context) (context.Context, *interrupts) {
	return catch(ctx, notIgnored(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)...)
}

// catchEnds is catchInterrupts for servers that end with their terminal, unless nohup has started
// them.
func catchEnds(ctx context.Context) (context.Context, *interrupts) {
	return catch(ctx, append(slices.DeleteFunc([]os.Signal{syscall.SIGHUP}, signal.Ignored), syscall.SIGINT, syscall.SIGTERM)...)
}

// catchStops is catchInterrupts for a server that SIGHUP does not end: it comes on hangups. SIGINT
// also ends a server that a script has put into the background: it can be for nobody else.
func catchStops(ctx context.Context) (_ context.Context, _ *interrupts, hangups <-chan os.Signal) {
	// A signal that comes during a reload is not lost; more than one would be the same.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	ctx, i := catch(ctx, syscall.SIGINT, syscall.SIGTERM)
	stop := i.stop
	i.stop = func() {
		signal.Stop(signals)
		stop()
	}
	return ctx, i, signals
}

func catch(ctx context.Context, which ...os.Signal) (context.Context, *interrupts) {
	ctx, cancel := context.WithCancel(ctx)
	i := &interrupts{}
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
	i.stop = func() {
		signal.Stop(signals)
		cancel()
		<-done
	}
	return ctx, i
}

// code returns the exit code of a program that was interrupted.
func (i *interrupts) code() (code int, interrupted bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	number, ok := i.caught.(syscall.Signal)
	return failure.ExitSignal + int(number), ok
}

// relay passes on the signals that this program gets to the process that it runs. As long as there
// is no process, the signals that end a program cancel.
type relay struct {
	cancel context.CancelFunc
	// group: the process has a process group of its own, and nobody but us signals it. Else it
	// shares our group and the terminal, which sends its signals (^C, ^\, ^Z, a new size) to every
	// process of the group.
	group bool

	signals chan os.Signal
	started chan *os.Process
	// stop ends the relay. It may be called more than once. Call it before the process's pid can
	// belong to another process.
	stop func()

	mu     sync.Mutex
	caught syscall.Signal // while nothing ran; 0: none
}

func newRelay(group bool, cancel context.CancelFunc) *relay {
	r := &relay{
		cancel: cancel, group: group,
		signals: make(chan os.Signal, 16), started: make(chan *os.Process, 1),
	}
	done := make(chan struct{})
	r.stop = sync.OnceFunc(func() {
		signal.Stop(r.signals)
		close(r.signals)
		<-done
	})
	signal.Notify(r.signals, notIgnored(
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH)...)
	go func() {
		defer close(done)
		r.run()
	}()
	return r
}

// to sets the process.
func (r *relay) to(process *os.Process) { r.started <- process }

// interrupted returns the signal that came while no process ran.
func (r *relay) interrupted() (sig syscall.Signal, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.caught, r.caught != 0
}

func (r *relay) run() {
	var process *os.Process
	for got := range r.signals {
		sig, _ := got.(syscall.Signal)
		if process == nil {
			select {
			case process = <-r.started:
			default:
			}
		}
		if process != nil {
			r.pass(process, sig)
			continue
		}
		switch sig {
		// There is no process to signal.
		case syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH:
		default:
			r.mu.Lock()
			r.caught = sig
			r.mu.Unlock()
			r.cancel()
		}
	}
}

func (r *relay) pass(process *os.Process, sig syscall.Signal) {
	switch {
	case r.group:
		_ = syscall.Kill(-process.Pid, sig) // it has ended, then
	case sig == syscall.SIGINT, sig == syscall.SIGQUIT, sig == syscall.SIGWINCH:
		// From the terminal, which has sent it to the process too: a second one would be two
		// interrupts.
	default:
		_ = process.Signal(sig)
	}
}
