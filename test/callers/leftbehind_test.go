package callers

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

var errNotYet = errors.New("not yet")

// A caller that gives up leaves nothing behind, whatever ends it and when: what it waited for is
// not kept for it, and what was granted to it goes back at once, not when the reservation expires.
func TestACallerThatGivesUpLeavesNothingBehind(t *testing.T) {
	h := newHost(t, 1)
	for name, end := range map[string]struct {
		signal  syscall.Signal
		granted bool // it is stopped when it is granted, and ends before it can confirm
	}{
		"interrupted while it waits":   {signal: syscall.SIGINT},
		"terminated while it waits":    {signal: syscall.SIGTERM},
		"killed while it waits":        {signal: syscall.SIGKILL},
		"killed right after the grant": {signal: syscall.SIGKILL, granted: true},
	} {
		t.Run(name, func(t *testing.T) {
			first := proc.Start(t, h.run(bob, "--", "sleep", "1000"))
			h.holds(t, "the first runs", bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE, 1)
			second := proc.Start(t, h.run(alice, "--wait", "1h", "--ttl", "24h", "--", "true"))
			h.waiting(1)
			if end.granted {
				second.Signal(syscall.SIGSTOP)
				first.Signal(syscall.SIGTERM)
				h.holds(t, "it was granted", bursarv1.AllocationState_ALLOCATION_STATE_RESERVED, 1)
			}
			second.Signal(end.signal)
			h.waiting(0)
			h.holds(t, "nothing is reserved", bursarv1.AllocationState_ALLOCATION_STATE_RESERVED, 0)
			if !end.granted {
				first.Signal(syscall.SIGTERM)
			}
			h.empty()
		})
	}
}

// holds waits until so many allocations are in a state.
func (h *host) holds(t *testing.T, what string, state bursarv1.AllocationState, number int) {
	t.Helper()
	proc.Eventually(t, patience, pollEvery, what, func() error {
		page, err := h.books.Allocations().List(t.Context(), &bursarv1.AllocationServiceListRequest{States: []bursarv1.AllocationState{state}})
		if err == nil && len(page.GetAllocations()) != number {
			err = fmt.Errorf("%d are %s, want %d", len(page.GetAllocations()), state, number)
		}
		return err
	})
}
