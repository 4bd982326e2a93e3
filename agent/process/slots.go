package process

import (
	"context"

	"golang.org/x/sys/unix"
)

const (
	// mostOpen is how many processes one Stop has open at a time. A tree with more is ended in
	// several rounds.
	mostOpen = 256
	// leastSlots and mostSlots bound how many all of them have open together.
	leastSlots, mostSlots = 64, 8192
	// slotsOfFiles is which part of this process's descriptors slots may take: its callers need
	// some too.
	slotsOfFiles = 4
)

// slots bound how many processes all Stops of an Opener have open. A free slot is an element.
type slots chan struct{}

func newSlots() slots {
	n := leastSlots
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		n = int(max(leastSlots, min(mostSlots, limit.Cur/slotsOfFiles)))
	}
	s := make(slots, n)
	for range n {
		s <- struct{}{}
	}
	return s
}

// acquire takes a slot. Only a Stop that has none may wait for it.
func (s slots) acquire(ctx context.Context, wait bool) bool {
	select {
	case <-s:
		return true
	default:
	}
	if !wait {
		return false
	}
	select {
	case <-s:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s slots) release() { s <- struct{}{} }
