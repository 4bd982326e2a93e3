package commit

import (
	"sync"

	"github.com/bursar/bursar/coordinator/core"
)

// priorityQueue holds the server's own commands that are answered at once. They are few, they must
// not be refused, and they are applied even while a full batch waits for the store.
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
