package process

import (
	"context"

	"golang.org/x/sys/unix"
)

const (
	// mostOpen is how many processes one Stop holds at a time. A tree with more is ended in several rounds.
	mostOpen = 256
	// leastSlots and mostSlots bound how many all of them hold.
	leastSlots, mostSlots = 64, 8192
	// slotsOfFiles is the part of the descriptors that this process may have, which are needed for its callers too.
	slotsOfFiles = 4
)

// slots bound how many processes are held by all Stops of an Opener. A free one is an element.
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

// acquire takes one. Only who holds none may wait for it.
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
