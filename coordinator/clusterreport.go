package coordinator

import (
	"fmt"
	"unicode/utf8"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// mostDepth is how many queues there may be above one: a ring of them would never end.
const mostDepth = 100

// queueReports are the queues of a snapshot as the ledger takes them. What no ledger could make sense of is an error: it must not get as
// far as the loop. The cost grows with the queues, outside of the loop.
func queueReports(queues []providers.Queue) ([]ledger.QueueReport, error) {
	type place struct{ path, partition string }
	parents := make(map[place]string, len(queues))
	reports := make([]ledger.QueueReport, len(queues))
	for i := range queues {
		q := &queues[i]
		at := place{q.Path, q.Partition}
		if _, twice := parents[at]; twice || q.Path == "" || !utf8.ValidString(q.Path+q.Parent+q.Partition+q.State+q.DefaultPartition) {
			return nil, fmt.Errorf("queue %q in partition %q: want a path, in UTF-8, and each queue once", q.Path, q.Partition)
		}
		parents[at] = q.Parent
		for _, v := range []resource.Vector{q.Limit, q.Used, q.Guaranteed} {
			if err := v.Validate(); err != nil {
				return nil, fmt.Errorf("queue %q in partition %q: %w", q.Path, q.Partition, err)
			}
		}
		reports[i] = ledger.QueueReport{
			Path: q.Path, Parent: q.Parent, Partition: q.Partition, Limit: q.Limit, Used: q.Used, Guaranteed: q.Guaranteed,
			State: q.State, Closed: q.Closed, CreatesChildren: q.CreatesChildren, DefaultPartition: q.DefaultPartition,
			AbsoluteCapacity: q.AbsoluteCapacity, AbsoluteMaxCapacity: q.AbsoluteMaxCapacity,
			Applications: q.Applications, Pending: q.Pending, Active: q.Active, MaxApplications: q.MaxApplications,
		}
	}
	for i := range queues {
		above := queues[i].Parent
		for range mostDepth {
			above = parents[place{above, queues[i].Partition}]
		}
		if above != "" {
			return nil, fmt.Errorf("queue %q in partition %q: want at most %d queues above it", queues[i].Path, queues[i].Partition, mostDepth)
		}
	}
	return reports, nil
}

// applicationReports are answers about applications as the ledger takes them, but for those that nobody asked about or that make no sense.
func applicationReports(answers []providers.Application, asked []string) []ledger.ApplicationReport {
	wanted := make(map[string]bool, len(asked))
	for _, id := range asked {
		wanted[id] = true
	}
	reports := make([]ledger.ApplicationReport, 0, len(answers))
	for _, a := range answers {
		sound := wanted[a.ID]
		for _, v := range a.Allocated {
			sound = sound && v.Validate() == nil
		}
		if !sound {
			continue
		}
		delete(wanted, a.ID)
		reports = append(reports, ledger.ApplicationReport{ID: a.ID, Known: a.Known, Ended: a.Ended, Queue: a.Queue, Allocated: a.Allocated})
	}
	return reports
}
