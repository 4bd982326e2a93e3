package sim

import (
	"maps"

	"github.com/bursar/bursar/coordinator/ledger"
)

// storeRecord is a second record of what was committed, apart from the store: who may commit, the
// rows, and who they belong to.
type storeRecord struct {
	leadership uint64 // the last one that was taken
	epoch      uint64
	sequence   uint64
	rows       map[ledger.ID]row
	requests   map[string]ledger.ID // by caller and request id
	sum        uint64               // over the live rows
	rules      map[string]string    // the stored rules: limits by selector
	launches   launchRows
}

// row is what an allocation's row says.
type row struct {
	state    ledger.State
	revision uint64
	forget   bool
}

func newStoreRecord() storeRecord {
	return storeRecord{rows: make(map[ledger.ID]row), requests: make(map[string]ledger.ID), rules: make(map[string]string), launches: newLaunchRows()}
}

func (r *storeRecord) clone() storeRecord {
	c := *r
	c.rows, c.requests, c.rules, c.launches = maps.Clone(r.rows), maps.Clone(r.requests), maps.Clone(r.rules), r.launches.clone()
	return c
}

// lead holds that every leadership has a higher epoch than all before it in the same past.
func (r *storeRecord) lead(w *World, leadership, epoch uint64) {
	if epoch <= r.epoch {
		w.failf(6, "epoch %d was given out after %d", epoch, r.epoch)
	}
	r.leadership, r.epoch = leadership, epoch
}

// commit takes a batch that the store has accepted. It holds invariant 6: a leadership that is
// over commits nothing. It holds invariant 5: one request id is one allocation. And it holds that
// the rows then equal the ledger of the batch, so that all that was checked in the ledger is true
// of the rows.
func (r *storeRecord) commit(w *World, by string, f *inFlight) {
	if f.leadership != r.leadership {
		w.failf(6, "the store took a commit of %s in epoch %d, whose leadership is over; it is in %d", by, f.batch.Epoch, r.epoch)
	}
	if f.batch.Revision < r.sequence {
		w.failf(6, "the store went from revision %d back to %d", r.sequence, f.batch.Revision)
	}
	if !f.batch.Empty() {
		r.sequence = f.batch.Revision
	}
	for i := range f.batch.Transitions {
		r.put(w, &f.batch.Transitions[i])
	}
	r.launches.commit(w, by, &f.batch.Batch)
	r.putRules(f.batch.Quotas, f.batch.QuotasRemoved)
	if !maps.Equal(r.rules, f.rules) {
		w.failf(4, "after a commit of %s at revision %d the stored rules are %v, and its ledger has %v", by, f.batch.Revision, r.rules, f.rules)
	}
	if f.summed && r.sum != f.sum {
		w.failf(4, "after a commit of %s at revision %d the rows are not what its ledger has", by, f.batch.Revision)
	}
	w.callers.record(f.batch.Transitions)
}

func (r *storeRecord) put(w *World, t *ledger.Allocation) {
	// Its host may have other labels by now than its request wants.
	if t.RequestID == "" && t.Adopted() {
		maps.DeleteFunc(r.requests, func(_ string, id ledger.ID) bool { return id == t.ID })
	}
	key := t.Caller + "/" + t.RequestID
	if id, known := r.requests[key]; known && id != t.ID && !r.rows[id].forget && t.RequestID != "" && !w.callers.pastOf(t.ID.String()).undone {
		w.failf(5, "request %s is stored as %s and as %s", key, id, t.ID)
	}
	r.requests[key] = t.ID
	r.sum -= r.rows[t.ID].weight(t.ID)
	r.rows[t.ID] = row{t.State, t.Revision, t.Forget}
	r.sum += r.rows[t.ID].weight(t.ID)
}

// weight is a row's part in the sum over all live rows; zero if the row is not live. Equal sums
// are of the same rows.
func (r row) weight(id ledger.ID) uint64 {
	if !r.state.Live() {
		return 0
	}
	n := uint64(id) ^ r.revision<<8 ^ uint64(r.state)
	n ^= n >> 30 // as splitmix64 does it
	n *= 0xbf58476d1ce4e5b9
	n ^= n >> 27
	n *= 0x94d049bb133111eb
	return n ^ n>>31
}

// ledgerSum is the same sum over a ledger.
func ledgerSum(l *ledger.Ledger) uint64 {
	sum := uint64(0)
	l.Allocations(0, func(a *ledger.Allocation) bool {
		sum += row{a.State, a.Revision, a.Forget}.weight(a.ID)
		return true
	})
	return sum
}
