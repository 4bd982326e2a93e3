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
	signal.Notify(r.signals, cmdline.NotIgnored(
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
