package ledger_test

import (
	"fmt"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// Several agents that report as much as is counted of one cannot bring any sum to its end: not what
// equal labels hold together, and not the account of a rule that comes later.
func TestAgentsThatReportHugeEnginesAreCountedOrRefused(t *testing.T) {
	for name, labels := range map[string]func(host, n int) label.Set{
		"one user":   func(int, int) label.Set { return label.Of("user", "mallory") },
		"many users": func(host, n int) label.Set { return label.Of("user", fmt.Sprint("mallory-", host, "-", n)) },
	} {
		t.Run(name, func(t *testing.T) {
			l, adopted := ready(t), 0
			for host := range 9 {
				id := fmt.Sprint("rogue-", host)
				_, err := l.Register(start, ledger.RegisterCommand{HostID: id, Incarnation: 1, Capacity: resource.Vector{}.WithMemory(1)})
				must(t, err)
				sync := ledger.SyncCommand{HostID: id, Incarnation: 1, Sequence: 1, Full: true}
				for n := range 256 {
					sync.Engines = append(sync.Engines, ledger.EngineReport{ID: ledger.ID(1000*(host+1) + n), Grant: &ledger.Allocation{
						Labels: labels(host, n), Entitled: resource.NewResource(resource.Vector{}.WithMemory(1 << 43)),
						Created: start, Process: ledger.Process{PID: 1},
					}})
				}
				_, err = l.Sync(start, sync)
				must(t, err)
			}
			l.Allocations(0, func(*ledger.Allocation) bool { adopted++; return true })
			if adopted != 9*128 {
				t.Errorf("%d were adopted; want 1 PiB of each agent's", adopted)
			}
			selector, err := label.ParseSelector("team=*")
			must(t, err)
			must(t, l.PutQuota(start, ledger.Quota{Selector: selector, Limit: resource.Vector{}.WithMemory(1)}))
			for range 100 {
				l.Advance(start)
			}
			if found := l.Audit(); len(found) > 0 {
				t.Error(found)
			}
		})
	}
}
