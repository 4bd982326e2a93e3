package tracker

import (
	"cmp"
	"hash/fnv"
	"slices"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// sums are totals over all entries, so that a call need not visit all entries.
type sums struct {
	digest   uint64 // of the FNV-1a hashes of the ids of all engines; it wraps
	promised int64  // bytes of memory
	// engines maps a process to the ids of its allocations: one, unless a coordinator has several.
	engines map[processKey][]string
	// claims are the processes that calls in flight are about to make engines.
	claims map[processKey]claim
}

// claim is the claim of one allocation, by a number of calls.
type claim struct {
	id    string
	calls int
}

// processKey identifies a process across reuse of its pid; the zero value is no process.
type processKey struct {
	pid       int32
	startTime uint64
}

// share is the part of one entry in the sums.
type share struct {
	digest   uint64
	promised int64
	engine   processKey
}

// put stores an entry by its id, and replaces an earlier one.
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

// count updates the sums after a change of an entry's phase, grant or usage.
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

const userLabel = "user"

// EngineOf returns the allocation whose engine is this process.
func (t *Tracker) EngineOf(pid int32, startTime uint64) (id string, ok bool) {
	ids := t.sums.engines[processKey{pid, startTime}]
	if len(ids) == 0 {
		return "", false
	}
	return ids[0], true
}

// Claim reserves a process for a call that is about to make it the engine of an allocation, until
// Unclaim. If the process belongs to another allocation, or is reserved for one, Claim returns that
// allocation's id and reserves nothing. It ignores another user's engine that only a coordinator
// knows: any caller may give a coordinator any pid, and the coordinator prefers a process that an
// agent has identified.
func (t *Tracker) Claim(id string, p *bursarv1.Process) (other string) {
	key := processKey{p.GetPid(), p.GetStartTime()}
	for _, has := range t.sums.engines[key] {
		other := t.entries[has]
		if has != id && (t.identified(other) || t.userOf(id) == t.userOf(has)) {
			return has
		}
	}
	c := t.sums.claims[key]
	if c.calls > 0 && c.id != id {
		return c.id
	}
	if t.sums.claims == nil {
		t.sums.claims = make(map[processKey]claim)
	}
	t.sums.claims[key] = claim{id, c.calls + 1}
	return ""
}

// Unclaim undoes one Claim.
func (t *Tracker) Unclaim(p *bursarv1.Process) {
	key := processKey{p.GetPid(), p.GetStartTime()}
	c := t.sums.claims[key]
	if c.calls--; c.calls > 0 {
		t.sums.claims[key] = c
	} else {
		delete(t.sums.claims, key)
	}
}

// userOf returns the user that owns an allocation; empty if not known here.
func (t *Tracker) userOf(id string) string {
	if e := t.entries[id]; e != nil {
		return cmp.Or(e.grant.GetActingUser(), e.grant.GetLabels()[userLabel])
	}
	return ""
}
