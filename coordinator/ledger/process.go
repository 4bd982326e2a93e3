package ledger

import (
	"slices"
	"strconv"
)

// track counts an entry whose process the host's agent watches.
func (h *host) track(e *entry) {
	h.digest += digestOf(e.ID)
	if h.processes == nil {
		h.processes = make(map[int32]*entry)
	}
	if h.processes[e.Process.PID] != nil {
		h.samePID = append(h.samePID, e)
		return
	}
	h.processes[e.Process.PID] = e
}

// untrack undoes track. The entry's process must still be the one that was tracked.
func (h *host) untrack(e *entry) {
	h.digest -= digestOf(e.ID)
	pid := e.Process.PID
	if h.processes[pid] != e {
		h.samePID = slices.DeleteFunc(h.samePID, func(other *entry) bool { return other == e })
		return
	}
	delete(h.processes, pid)
	if next := slices.IndexFunc(h.samePID, func(other *entry) bool { return other.Process.PID == pid }); next >= 0 {
		h.processes[pid] = h.samePID[next]
		h.samePID = slices.Delete(h.samePID, next, next+1)
	}
}

// sharing lists the entries of the host, other than e, that may have this process as their engine.
func (h *host) sharing(p Process, e *entry) (list []*entry) {
	first := h.processes[p.PID]
	if p.PID == 0 || first == nil {
		return nil
	}
	if first != e && first.Process.mayBe(p) {
		list = append(list, first)
	}
	for _, other := range h.samePID {
		if other != e && other.Process.PID == p.PID && other.Process.mayBe(p) {
			list = append(list, other)
		}
	}
	return list
}

// mayBe reports whether two processes with the same pid may be the same one: a start or a boot that
// is not known may be any.
func (p Process) mayBe(other Process) bool {
	return (p.StartTime == other.StartTime || p.StartTime == 0 || other.StartTime == 0) &&
		(p.BootID == other.BootID || p.BootID == "" || other.BootID == "")
}

// mayHave refuses a process that is the engine of another allocation. The exception is a process
// that the host's agent has verified, and that another user has only claimed at a coordinator:
// nobody may keep others from confirming their engines by naming pids.
func (e *entry) mayHave(p Process) error {
	if e.host == nil {
		return nil
	}
	for _, other := range e.host.sharing(p, e) {
		if !other.yields(e, p) {
			return &StateError{
				"process", strconv.Itoa(int(p.PID)) + " of host " + e.host.ID, "the engine of allocation " + other.ID.String(), "a process of no other allocation",
			}
		}
	}
	return nil
}

// yields reports whether the entry gives its process up for another entry, which has this one.
func (e *entry) yields(other *entry, p Process) bool {
	return p.Verified && !e.Process.Verified && e.Labels.Value(userKey) != other.Labels.Value(userKey)
}

// takeProcess ends the entries that only claimed the process of this one, and reports whether there
// were any.
func (l *Ledger) takeProcess(e *entry) (taken bool) {
	if e.host == nil || !e.tracked() {
		return false
	}
	for _, other := range e.host.sharing(e.Process, e) {
		if other.yields(e, e.Process) {
			l.end(other, Released, "its process is the engine of another allocation: the host's agent has verified that")
			taken = true
		}
	}
	return taken
}

// verify notes that the host's agent has verified the process of an active entry, unless two
// entries have it.
func (l *Ledger) verify(e *entry, p Process) {
	if !p.Verified || e.Process.Verified || e.mayHave(p) != nil {
		return
	}
	e.Process.Verified = true
	l.recordEntry(e)
	if l.takeProcess(e) {
		l.grantWaiting()
	}
}
