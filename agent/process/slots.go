package process

import (
	"context"

	"golang.org/x/sys/unix"
)

const (
	// mostOpen is the most processes that one Stop has open at a time. It ends a larger tree in
	// several rounds.
	mostOpen = 256
	// leastSlots and mostSlots bound the number of processes that all Stops together have open.
	leastSlots, mostSlots = 64, 8192
	// slotsOfFiles divides this process's limit of file descriptors: slots may take a quarter,
	// because callers need some too.
	slotsOfFiles = 4
)

// slots bounds the processes that all Stops of an Opener have open. Each free slot is an element.
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

// acquire takes a slot. Only a Stop without a slot may wait for one.
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
