package agent_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/bursar/bursar/test/proc"
)

// Who has said that it will confirm a process and ends before is the only one who knows of the
// reservation.
func TestAReservationGoesBackIfItsCallerEndsBeforeItConfirms(t *testing.T) {
	needsRoot(t)
	s := run(t)
	s.coordinator.awaitState(s.as(mallory, "promise"), canceled)
}

// Another process of the user may be the one that confirms.
func TestAReservationStaysIfItsCallerHasNotSaidThatItConfirms(t *testing.T) {
	needsRoot(t)
	s := run(t)
	kept := s.as(mallory, "allocate")
	s.coordinator.awaitState(s.as(mallory, "promise"), canceled)
	s.coordinator.awaitState(kept, reserved)
}

// The engine may outlive who has confirmed it.
func TestAConfirmedEngineStaysWhenItsCallerEnds(t *testing.T) {
	needsRoot(t)
	s := run(t)
	said := strings.Fields(s.as(mallory, "keep"))
	if len(said) != 2 {
		t.Fatal(said)
	}
	engine := proc.HoldText(t, said[1])
	t.Cleanup(func() { _ = engine.Signal(syscall.SIGKILL) })
	s.ticks(2)
	s.coordinator.awaitState(said[0], active)
}
