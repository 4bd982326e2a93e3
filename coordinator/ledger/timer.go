package ledger

// timer is due at a moment and says what then. It sits in at most one heap.
type timer struct {
	due   Instant
	index int // in the heap, from 1; 0: not set
	// One of the two is set: whose timer it is.
	entry *entry
	host  *host
}

// timers is a binary heap by due time. Equal times fire in an order that follows from the commands alone.
type timers struct {
	heap []*timer // from index 1
}

// set moves the timer to a moment; zero takes it out.
func (h *timers) set(t *timer, due Instant) {
	switch {
	case due == t.due && (t.index != 0) == (due != 0):
		return
	case due == 0:
		h.remove(t)
	case t.index == 0:
		t.due = due
		if len(h.heap) == 0 {
			h.heap = append(h.heap, nil)
		}
		h.heap = append(h.heap, t)
		h.up(len(h.heap)-1, t)
	case due < t.due:
		t.due = due
		h.up(t.index, t)
	default:
		t.due = due
		h.down(t.index, t)
	}
}

func (h *timers) remove(t *timer) {
	if t.index == 0 {
		return
	}
	last := h.heap[len(h.heap)-1]
	h.heap[len(h.heap)-1] = nil
	h.heap = h.heap[:len(h.heap)-1]
	if last != t {
		at := t.index
		h.up(at, last)
		h.down(last.index, last)
	}
	t.index, t.due = 0, 0
}

// next is the timer that is due first; nil where none is set.
func (h *timers) next() *timer {
	if len(h.heap) < 2 {
		return nil
	}
	return h.heap[1]
}

func (h *timers) up(at int, t *timer) {
	for at > 1 {
		parent := h.heap[at/2]
		if parent.due <= t.due {
			break
		}
		h.heap[at], parent.index = parent, at
		at /= 2
	}
	h.heap[at], t.index = t, at
}

func (h *timers) down(at int, t *timer) {
	for {
		child := at * 2
		if child >= len(h.heap) {
			break
		}
		if child+1 < len(h.heap) && h.heap[child+1].due < h.heap[child].due {
			child++
		}
		if h.heap[child].due >= t.due {
			break
		}
		h.heap[at], h.heap[child].index = h.heap[child], at
		at = child
	}
	h.heap[at], t.index = t, at
}
