package clusters

import (
	"fmt"
	"unicode/utf8"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// mostPartition is how long a partition may be in an address, in characters. Nobody can ask for a
// longer one.
const mostPartition = 128

// QueueReports are the queues of a snapshot in the ledger's form, without those that nobody can
// ask for. A queue that makes no sense is an error: it must not get as far as the loop.
func QueueReports(queues []providers.Queue) ([]ledger.QueueReport, error) {
	type place struct{ path, partition string }
	seen := make(map[place]bool, len(queues))
	reports := make([]ledger.QueueReport, 0, len(queues))
	for i := range queues {
		q := &queues[i]
		at := place{q.Path, q.Partition}
		if seen[at] || q.Path == "" || !utf8.ValidString(q.Path+q.Parent+q.Partition+q.State+q.DefaultPartition) {
			return nil, fmt.Errorf("queue %q in partition %q: want a path, in UTF-8, and each queue once", q.Path, q.Partition)
		}
		seen[at] = true
		if !resource.ValidPath(q.Path) || utf8.RuneCountInString(q.Partition) > mostPartition {
			continue
		}
		for _, v := range []resource.Vector{q.Limit, q.Used, q.Guaranteed} {
			if err := v.Validate(); err != nil {
				return nil, fmt.Errorf("queue %q in partition %q: %w", q.Path, q.Partition, err)
			}
		}
		reports = append(reports, ledger.QueueReport{
			Path: q.Path, Parent: q.Parent, Partition: q.Partition, Limit: q.Limit, Used: q.Used, Guaranteed: q.Guaranteed,
			State: q.State, Closed: q.Closed, CreatesChildren: q.CreatesChildren, DefaultPartition: q.DefaultPartition,
			AbsoluteCapacity: q.AbsoluteCapacity, AbsoluteMaxCapacity: q.AbsoluteMaxCapacity,
			Applications: q.Applications, Pending: q.Pending, Active: q.Active, MaxApplications: q.MaxApplications,
		})
	}
	return reports, nil
}

// applicationReports are answers about applications in the ledger's form, without those that were
// not asked for or that make no sense.
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
