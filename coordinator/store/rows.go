package store

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"github.com/bursar/bursar/coordinator/ledger"
)

// Rows is a batch in the form of a backend: each row once, numbers in the form of columns. It
// shares no memory with parts of the batch that may change: a commit that was given up still runs
// when its caller already uses that memory for something else.
type Rows struct {
	Epoch            int64
	Sequence, LastID int64
	Time             int64
	Outages          string // empty: unchanged
	// FirstEnd is the earliest end of an allocation in the batch; the largest number if none ended.
	FirstEnd      int64
	Allocations   []AllocationRow // in the order of ids, so that new rows append
	Hosts, Quotas []KeyedRow
	Providers     []KeyedRow
	Refusals      []KeyedRow
	Launches      []LaunchRow
	// HostsGone, QuotasGone, ProvidersGone and RefusalsGone are the keys that are removed and not
	// put again.
	HostsGone, QuotasGone, ProvidersGone, RefusalsGone []string
	// LaunchesGone are the removed launches. One that is put in the same batch is removed, too.
	LaunchesGone []int64

	payloads []byte
	last     map[ledger.ID]int // the index of each id's last transition
}

// AllocationRow is the row of an allocation. See the migrations for its columns.
type AllocationRow struct {
	ID                        int64
	State                     int16
	Ended                     int64
	HostID, Caller, RequestID string
	RequestHash               int64
	Forget                    int16
	Payload                   []byte
}

// KeyedRow is the row of a host, of a rule, of a provider or of a refusal.
type KeyedRow struct {
	Key     string // a host's or refusal's id, a selector's text, or a provider's "kind:cluster"
	Payload []byte
}

// LaunchRow is the row of a launch.
type LaunchRow struct {
	ID      int64
	Payload []byte
}

// mostKept is the payload memory in bytes that is kept for the next batch. Few batches are larger.
const mostKept = 1 << 20

// Reset prepares the rows for the next batch. Their content is no longer valid then.
func (r *Rows) Reset() {
	clear(r.Allocations)
	clear(r.last)
	r.Allocations, r.Hosts, r.Quotas, r.Providers, r.Refusals = r.Allocations[:0], nil, nil, nil, nil
	r.Launches, r.LaunchesGone = nil, nil
	if r.payloads = r.payloads[:0]; cap(r.payloads) > mostKept {
		r.payloads = nil
	}
}

// Encode makes the rows of a batch: the last change of each key. The error is a *RowError.
func (r *Rows) Encode(batch *Batch) error {
	r.Epoch, r.Sequence, r.LastID = Signed(batch.Epoch), Signed(batch.Revision), Signed(uint64(batch.LastID))
	r.Time, r.Outages = int64(batch.Time), batch.Outages
	if err := r.encodeAllocations(batch.Transitions); err != nil {
		return err
	}
	var err error
	r.Hosts, err = keyed(batch.Hosts, func(h *ledger.HostRecord) string { return h.ID }, EncodeHost)
	if err != nil {
		return err
	}
	r.Quotas, err = keyed(batch.Quotas, func(q *ledger.Quota) string { return q.Selector.String() }, EncodeQuota)
	if err != nil {
		return err
	}
	r.Providers, err = keyed(batch.Providers, func(p *ledger.ProviderRecord) string { return p.String() }, EncodeProvider)
	if err != nil {
		return err
	}
	r.Refusals, err = keyed(batch.Refusals, (*ledger.Refusal).ID, EncodeRefusal)
	r.HostsGone, r.QuotasGone = gone(batch.HostsRemoved, r.Hosts), gone(batch.QuotasRemoved, r.Quotas)
	r.ProvidersGone, r.RefusalsGone = gone(names(batch.ProvidersRemoved), r.Providers), gone(batch.RefusalsRemoved, r.Refusals)
	r.encodeLaunches(batch)
	return err
}

// encodeLaunches makes the rows of launches that are not removed in the same batch.
func (r *Rows) encodeLaunches(batch *Batch) {
	for i := range batch.Launches {
		if row := &batch.Launches[i]; !slices.Contains(batch.LaunchesRemoved, row.ID) {
			r.Launches = append(r.Launches, LaunchRow{Signed(uint64(row.ID)), bytes.Clone(row.Spec)})
		}
	}
	for _, id := range batch.LaunchesRemoved {
		r.LaunchesGone = append(r.LaunchesGone, Signed(uint64(id)))
	}
}

func (r *Rows) encodeAllocations(transitions []ledger.Allocation) error {
	r.FirstEnd = math.MaxInt64
	if r.last == nil {
		r.last = make(map[ledger.ID]int)
	}
	for i := range transitions {
		r.last[transitions[i].ID] = i
	}
	for i := range transitions {
		a := &transitions[i]
		if r.last[a.ID] != i {
			continue
		}
		begin := len(r.payloads)
		var err error
		if r.payloads, err = AppendAllocation(r.payloads, a); err != nil {
			return err
		}
		row := AllocationRow{
			ID: Signed(uint64(a.ID)), State: StateOf(a), Ended: int64(EndOf(a)), HostID: a.HostID, Caller: CallerOf(a),
			RequestID: a.RequestID, RequestHash: Signed(a.RequestHash), Payload: r.payloads[begin:],
		}
		if a.Forget {
			row.Forget = 1
		}
		if row.Ended > 0 {
			r.FirstEnd = min(r.FirstEnd, row.Ended)
		}
		r.Allocations = append(r.Allocations, row)
	}
	slices.SortFunc(r.Allocations, func(x, y AllocationRow) int { return cmp.Compare(x.ID, y.ID) })
	return nil
}

// names returns the keys of providers' rows.
func names(clusters []ledger.ClusterName) (list []string) {
	for _, name := range clusters {
		list = append(list, name.String())
	}
	return list
}

// keyed makes rows of hosts, rules, providers or refusals, the last one of each key.
func keyed[T any](list []T, key func(*T) string, encode func(*T) ([]byte, error)) ([]KeyedRow, error) {
	if len(list) == 0 {
		return nil, nil
	}
	rows := make([]KeyedRow, 0, len(list))
	at := make(map[string]int, len(list))
	for i := range list {
		payload, err := encode(&list[i])
		if err != nil {
			return nil, err
		}
		row := KeyedRow{key(&list[i]), payload}
		if twice, found := at[row.Key]; found {
			rows[twice] = row
			continue
		}
		at[row.Key] = len(rows)
		rows = append(rows, row)
	}
	return rows, nil
}

// gone returns the keys that are removed without being put in the same batch.
func gone(removed []string, put []KeyedRow) []string {
	var list []string
	for _, key := range removed {
		if !slices.ContainsFunc(put, func(row KeyedRow) bool { return row.Key == key }) {
			list = append(list, key)
		}
	}
	return list
}

// Signed converts to a signed column of 64 bits: the bits stay the same.
func Signed(n uint64) int64 { return int64(n) } //nolint:gosec // as said

// Unsigned is the inverse of Signed.
func Unsigned(n int64) uint64 { return uint64(n) } //nolint:gosec // as said
