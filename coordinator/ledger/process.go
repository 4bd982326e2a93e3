package ledger

import (
	"slices"
	"strconv"
)

// numbered is an entry with the pid of its process, so that a search need not visit each entry.
type numbered struct {
	pid   int32
	entry *entry
}

// track counts an entry whose process the host's agent watches.
func (h *host) track(e *entry) {
	h.digest += digestOf(e.ID)
	if h.processes == nil {
		h.processes = make(map[int32]*entry)
	}
	if h.processes[e.Process.PID] != nil {
		h.samePID = append(h.samePID, numbered{e.Process.PID, e})
		return
	}
	h.processes[e.Process.PID] = e
}

// untrack undoes track. The entry's process must still be the one that was tracked.
func (h *host) untrack(e *entry) {
	h.digest -= digestOf(e.ID)
	pid := e.Process.PID
	first := h.processes[pid] == e
	if first {
		delete(h.processes, pid)
	}
	if len(h.samePID) == 0 {
		return
	}
	// Entries mostly end in the order in which the last one comes first.
	for i, other := range slices.Backward(h.samePID) {
		if other.entry == e || first && other.pid == pid {
			if first {
				h.processes[pid] = other.entry
			}
			h.samePID = slices.Delete(h.samePID, i, i+1)
			return
		}
	}
}

// hasPID reports whether the host knows an engine with the pid of a tracked entry: that entry, or
// another one of the host.
func (h *host) hasPID(e *entry) bool {
	first := h.processes[e.Process.PID]
	return first == e || first != nil && first.host == h && first.tracked() && first.Process.PID == e.Process.PID && len(h.samePID) > 0
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
		if other.pid == p.PID && other.entry != e && other.entry.Process.mayBe(p) {
			list = append(list, other.entry)
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
	return p.Verified && !e.Process.Verified && e.RightsOf() != other.RightsOf()
}

// mostSamePID is how many entries of a host whose pid is another one's the ledger compares with an
// engine that an agent reports. Only a false report has more, and comparing all of its engines with
// each other would hold up the loop.
const mostSamePID = 64

// takeProcess ends the entries that only claimed the process of this one, and reports whether there
// were any.
func (l *Ledger) takeProcess(e *entry) (taken bool) {
	if e.host == nil || !e.tracked() || len(e.host.samePID) > mostSamePID {
		return false
	}
	for _, other := range e.host.sharing(e.Process, e) {
		if other.yields(e, e.Process) {
			l.becomeReleased(other, "its process is the engine of another allocation: the host's agent has verified that")
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
