package process

import (
	"errors"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/providers/host"
)

// blindable is an Identifier to which processes can be hidden, as by hidepid.
type blindable struct {
	Identifier

	blind atomic.Bool
}

func (b *blindable) Identify(pid int32) (host.Identity, error) {
	if b.blind.Load() {
		return host.Identity{}, host.ErrHidden
	}
	return b.Identifier.Identify(pid)
}

func TestAProcessThatIsHiddenHasNotEnded(t *testing.T) {
	for name, o := range openers(t) {
		t.Run(name, func(t *testing.T) {
			sight := &blindable{Identifier: o.identifier}
			o.identifier = sight
			c := start(t, o, "exec sleep 1000")
			sight.blind.Store(true)
			h, err := o.Open(c.ref)
			if err != nil {
				t.Fatalf("a process that is hidden is taken for one that has ended, or cannot be watched: %v", err)
			}
			defer h.Close()
			if h.Runs() {
				t.Error("it is known to run, though its pid may be another's")
			}
			if err := h.Signal(syscall.SIGKILL); !errors.Is(err, host.ErrHidden) {
				t.Errorf("a process that was never seen gets a signal: %v", err)
			}
			before := h.LastAlive()
			if h.Touch(); h.LastAlive() != before {
				t.Error("it was seen alive")
			}
			sight.blind.Store(false)
			if err := h.Signal(0); err != nil {
				t.Errorf("a process that shows gets no signal: %v", err)
			}
			if runs := h.Runs(); runs != (h.file != nil) {
				t.Errorf("it is known to run: %t", runs)
			}
			sight.blind.Store(true) // again
			if h.file != nil {
				if err := unix.Kill(int(c.ref.PID), unix.SIGKILL); err != nil {
					t.Fatal(err)
				}
				if err := h.Wait(t.Context()); err != nil {
					t.Errorf("the end of a hidden process is not noticed: %v", err)
				}
				if h.Runs() {
					t.Error("it runs after its end")
				}
			}
		})
	}
}

func TestStopDoesNotTakeAHiddenEngineForEnded(t *testing.T) {
	o := openers(t)["pidfd"]
	c := start(t, o, "exec sleep 1000")
	sight := &blindable{Identifier: o.identifier}
	sight.blind.Store(true)
	o.identifier, o.proc = sight, fixture(t, nil) // which shows none
	var hidden *HiddenError
	err := o.Stop(t.Context(), Engine{Root: c.ref, User: new(uint32(unix.Getuid()))}, 0)
	if !errors.As(err, &hidden) || hidden.Root != c.ref {
		t.Errorf("%v; want that process %d cannot be seen", err, c.ref.PID)
	}
}
