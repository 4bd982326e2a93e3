package engine

import (
	"context"
	"fmt"
	"sync"

	"connectrpc.com/connect"
)

// launches are the calls of Launch that are under way, one at a time for an allocation: two would
// start two engines. They are not part of an engine's state: while a call is under way there is no
// engine yet, and the allocation that it names may not even exist. The zero value is ready to use.
type launches struct {
	mu      sync.Mutex
	current map[string]chan struct{} // guarded by mu; by allocation; closed when the call has ended
}

// begin waits until no other call is about the allocation. The caller must call ended when it is
// done.
func (l *launches) begin(ctx context.Context, id string) (ended func(), err error) {
	for {
		l.mu.Lock()
		other := l.current[id]
		if other == nil {
			mine := make(chan struct{})
			if l.current == nil {
				l.current = make(map[string]chan struct{})
			}
			l.current[id] = mine
			l.mu.Unlock()
			return func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				delete(l.current, id)
				close(mine)
			}, nil
		}
		l.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, connect.NewError(connect.CodeUnavailable, fmt.Errorf("allocation %s is being launched by another call: %w", id, ctx.Err()))
		}
	}
}

// has reports whether a call is about the allocation.
func (l *launches) has(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current[id] != nil
}
