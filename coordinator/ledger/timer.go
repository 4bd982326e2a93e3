package ledger

// timer is due at some time and says for which object. It is in at most one heap.
type timer struct {
	due   Instant
	index int // in the heap, from 1; 0: not set
	owner any // *entry, *host, *cluster, or nil: the ledger's own
}

// timers is a binary heap by due time. Equal times fire in an order that follows from the commands
// alone. The heap has the times, too, so that comparing does not read the timers, which are in the
// entries.
type timers struct {
	heap []scheduled // from index 1
}

type scheduled struct {
	due   Instant
	timer *timer
}

// set moves the timer to a time; zero takes it out.
func (h *timers) set(t *timer, due Instant) {
	switch {
	case due == t.due: // nothing changes
	case due == 0:
		h.remove(t)
	case t.index == 0:
		t.due = due
		if len(h.heap) == 0 {
			h.heap = append(h.heap, scheduled{})
		}
		h.heap = append(h.heap, scheduled{})
		h.up(len(h.heap)-1, scheduled{due, t})
	case due < t.due:
		t.due = due
		h.up(t.index, scheduled{due, t})
	default:
		t.due = due
		h.down(t.index, scheduled{due, t})
	}
}

func (h *timers) remove(t *timer) {
	last := h.heap[len(h.heap)-1]
	h.heap[len(h.heap)-1] = scheduled{}
	h.heap = h.heap[:len(h.heap)-1]
	if last.timer != t {
		at := t.index
		if h.heap[at/2].due > last.due { // index 0 is due before everything
			h.up(at, last)
		} else {
			h.down(at, last)
		}
	}
	t.index, t.due = 0, 0
}

// next is the timer that is due first; nil if none is set.
func (h *timers) next() *timer {
	if len(h.heap) < 2 {
		return nil
	}
	return h.heap[1].timer
}

func (h *timers) up(at int, s scheduled) {
	for at > 1 {
		parent := h.heap[at/2]
		if parent.due <= s.due {
			break
		}
		h.put(at, parent)
		at /= 2
	}
	h.put(at, s)
}

func (h *timers) down(at int, s scheduled) {
	for {
		child := at * 2
		if child >= len(h.heap) {
			break
		}
		if child+1 < len(h.heap) && h.heap[child+1].due < h.heap[child].due {
			child++
		}
		if h.heap[child].due >= s.due {
			break
		}
		h.put(at, h.heap[child])
		at = child
	}
	h.put(at, s)
}

func (h *timers) put(at int, s scheduled) {
	h.heap[at] = s
	s.timer.index = at
}
