package commit

import (
	"sync"

	"github.com/bursar/bursar/coordinator/core"
)

// priorityQueue takes commands that must not be refused: those of callers who leave, and of the
// server itself.
type priorityQueue struct {
	mu     sync.Mutex
	list   []core.Command // guarded by mu
	signal chan struct{}
}

func (q *priorityQueue) put(command core.Command) {
	q.mu.Lock()
	q.list = append(q.list, command)
	q.mu.Unlock()
	select {
	case q.signal <- struct{}{}:
	default: // it is signalled already
	}
}

func (q *priorityQueue) takeAll() []core.Command {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.list
	q.list = nil
	return list
}
