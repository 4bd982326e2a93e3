package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/placement"
	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// BenchmarkLead begins a leadership with 200,000 live allocations on 10,000 hosts: from their rows,
// or from a copy with 200 changes since. The store's time is not included.
func BenchmarkLead(b *testing.B) {
	const hosts, live, changed = 10_000, 200_000, 200
	selector, err := label.ParseSelector("user=*")
	if err != nil {
		b.Fatal(err)
	}
	rows := ledger.Snapshot{
		Revision: live, LastID: live, Time: ledger.At(time.Now()), Quotas: []ledger.Quota{{Selector: selector, Limit: resource.Vector{}.WithMemory(1 << 50)}},
	}
	for i := range hosts {
		rows.Hosts = append(rows.Hosts, ledger.HostRecord{ID: fmt.Sprintf("host-%05d", i), Capacity: resource.Vector{}.WithMemory(1 << 39).WithCPU(1 << 18).WithInstances(4000)})
	}
	amount := resource.NewResource(resource.Vector{}.WithMemory(1 << 20))
	for i := range live {
		id := ledger.ID(i + 1)
		rows.Allocations = append(rows.Allocations, ledger.Allocation{
			ID: id, State: ledger.Active, HostID: rows.Hosts[i%hosts].ID, Labels: label.Of("user", fmt.Sprint("u", i%64)), Caller: "gateway", RequestID: id.String(),
			Requested: amount, Entitled: amount, Created: rows.Time, Process: ledger.Process{PID: int32(i + 2), StartTime: 1}, Revision: uint64(id),
		})
	}
	config := ledger.Config{HostLiveBytes: 1 << 40, CallerLiveBytes: 1 << 40}
	lead := func(b *testing.B, s ledger.Snapshot) {
		b.Helper()
		c := NewCore(config, func() ledger.Placer { return placement.New(placement.Spread) }, DrawLeadership)
		if err := c.Lead(rows.Time, store.Meta{Epoch: 1}, s); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("loaded", func(b *testing.B) {
		for b.Loop() {
			lead(b, rows)
		}
	})
	b.Run("filed", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			filed, err := ledger.File(config, &rows)
			if err != nil {
				b.Fatal(err)
			}
			var ended []ledger.ID
			for i := range changed {
				ended = append(ended, ledger.ID(i*(live/changed)+1))
			}
			b.StartTimer()
			if err := filed.Update(&ledger.Snapshot{Allocations: rows.Allocations[live-changed:]}, ended, nil); err != nil {
				b.Fatal(err)
			}
			lead(b, ledger.Snapshot{Revision: rows.Revision, LastID: rows.LastID, Time: rows.Time, Quotas: rows.Quotas, Filed: filed, Recalling: true})
		}
	})
}
