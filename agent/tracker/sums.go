package tracker

import (
	"hash/fnv"
	"slices"
)

// sums are over all entries, so that a call need not go through them.
type sums struct {
	digest   uint64 // of the FNV-1a hashes of the ids of all engines; it wraps
	promised int64  // bytes of memory
	// engines are, by process, the ids of the allocations whose engine it is: one, unless a
	// coordinator says otherwise.
	engines map[processKey][]string
}

// processKey is a process across reuse of its pid; the zero value is none.
type processKey struct {
	pid       int32
	startTime uint64
}

// share is what an entry has in the sums.
type share struct {
	digest   uint64
	promised int64
	engine   processKey
}

// put enters an entry by its id, in place of another.
func (t *Tracker) put(e *entry) {
	id := e.grant.GetId()
	if before := t.entries[id]; before != nil && before != e {
		t.recount(before, share{})
	}
	t.entries[id] = e
	t.count(e)
}

// remove removes an entry.
func (t *Tracker) remove(id string) {
	if e := t.entries[id]; e != nil {
		t.recount(e, share{})
	}
	delete(t.entries, id)
	delete(t.shown, id)
}

// count brings the sums up to date with an entry whose phase, grant or usage has changed.
func (t *Tracker) count(e *entry) {
	var s share
	if e.phase == held {
		s.promised = e.promised()
	}
	if e.tracked() {
		p := e.grant.GetProcess()
		s.engine = processKey{p.GetPid(), p.GetStartTime()}
		hash := fnv.New64a()
		_, _ = hash.Write([]byte(e.grant.GetId())) // a hash never fails
		s.digest = hash.Sum64()
	}
	t.recount(e, s)
}

func (t *Tracker) recount(e *entry, now share) {
	before := e.counted
	e.counted = now
	t.sums.digest += now.digest - before.digest
	t.sums.promised += now.promised - before.promised
	if before.engine == now.engine {
		return
	}
	id := e.grant.GetId()
	if left := slices.DeleteFunc(t.sums.engines[before.engine], func(other string) bool { return other == id }); len(left) > 0 {
		t.sums.engines[before.engine] = left
	} else {
		delete(t.sums.engines, before.engine)
	}
	if now.engine != (processKey{}) {
		if t.sums.engines == nil {
			t.sums.engines = make(map[processKey][]string)
		}
		t.sums.engines[now.engine] = append(t.sums.engines[now.engine], id)
	}
}

// EngineOf returns the allocation whose engine is this process.
func (t *Tracker) EngineOf(pid int32, startTime uint64) (id string, ok bool) {
	ids := t.sums.engines[processKey{pid, startTime}]
	if len(ids) == 0 {
		return "", false
	}
	return ids[0], true
}
