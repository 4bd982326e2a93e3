package engines

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/bursar/bursar/internal/cli/cmdline"
)

// relay passes on the signals that this program gets to the process that it runs. As long as there
// is no process, the signals that end a program cancel.
type relay struct {
	cancel context.CancelFunc
	// group: the process has a process group of its own, and nobody but us signals it. Else it
	// shares our group and the terminal, which sends its signals (^C, ^\, ^Z, a new size) to every
	// process of the group.
	group bool

	started chan *os.Process
	process *os.Process // of the goroutine that takes signals; nil: there is none yet
	// stop ends the relay. It may be called more than once. Call it before the process's pid can
	// belong to another process.
	stop func()

	mu     sync.Mutex
	caught syscall.Signal // while nothing ran; 0: none
}

func newRelay(group bool, cancel context.CancelFunc) *relay {
	r := &relay{
		cancel: cancel, group: group, started: make(chan *os.Process, 1),
	}
	r.stop = takeSignals(r.take, syscall.SIGWINCH)
	return r
}

// takeSignals has each signal that this program gets taken, one after the other: those that a user
// sends to a command, and more. Signals that this program ignores are left out. stop returns when
// none is being taken any more, and may be called more than once.
func takeSignals(take func(syscall.Signal), more ...os.Signal) (stop func()) {
	came, done := make(chan os.Signal, 16), make(chan struct{})
	signal.Notify(came, cmdline.NotIgnored(append(more,
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)...)...)
	go func() {
		defer close(done)
		for got := range came {
			sig, _ := got.(syscall.Signal)
			take(sig)
		}
	}()
	return sync.OnceFunc(func() {
		signal.Stop(came)
		close(came)
		<-done
	})
}

// to sets the process.
func (r *relay) to(process *os.Process) { r.started <- process }

// interrupted returns the signal that came while no process ran.
func (r *relay) interrupted() (sig syscall.Signal, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.caught, r.caught != 0
}

// take decides on one signal.
func (r *relay) take(sig syscall.Signal) {
	if r.process == nil {
		select {
		case r.process = <-r.started:
		default:
		}
	}
	if r.process != nil {
		r.pass(r.process, sig)
		return
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
