package ledger_test

import (
	"slices"
	"strings"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/resource"
)

// follows applies what a report says of where the applications of a row run: of its parts in the
// cluster the one that has none follows those that run in no other. It reports whether the row is
// announced, for that or because of what became of its applications.
func (m *machine) follows(c *modelCluster, r *ledger.ClusterReport, row *modelRow, owners map[string]ledger.ID, answers map[string]ledger.ApplicationReport) bool {
	here := func(x resource.External) bool { return clusterOf(x.Address) == c.name }
	if row.State != ledger.Active || !slices.ContainsFunc(row.Entitled.External, here) || len(answers) == 0 {
		return false
	}
	settled := c.good && r.Asked >= max(row.Confirmed, row.changed, c.since).Add(r.Settle)
	failure := m.failure(c, row, answers, settled)
	said := failure != "" && failure != row.Reason && !row.finished(answers, settled)
	var strays []ledger.ApplicationReport
	to, free := make(map[string]bool), slices.DeleteFunc(slices.Clone(row.Entitled.External), func(x resource.External) bool { return !here(x) })
	for _, id := range row.ApplicationIDs {
		a, answered := answers[id]
		switch {
		case owners[id] != row.ID:
			continue
		case !answered:
			return said
		case !a.Known || a.Ended:
			continue
		}
		runs := func(x resource.External) bool {
			return here(x) && (x.Path == a.Queue || !strings.Contains(a.Queue, ".") && strings.HasSuffix(x.Path, "."+a.Queue))
		}
		if slices.ContainsFunc(row.Entitled.External, runs) {
			free = slices.DeleteFunc(free, runs)
			continue
		}
		to[c.pathOf(a.Queue)] = true
		strays = append(strays, a)
	}
	if len(to) != 1 || to[""] || len(free) != 1 {
		return said
	}
	for _, a := range strays {
		in := make(map[string]bool) // the partitions that it may run in
		for partition, v := range a.Allocated {
			if partition != ledger.AnyPartition && !v.IsZero() {
				in[partition] = true
			}
		}
		if len(in) == 0 {
			for _, x := range row.Entitled.External {
				if here(x) {
					in[x.Partition] = true
				}
			}
			if len(in) > 1 {
				return said
			}
		}
		if !in[free[0].Partition] {
			return said
		}
	}
	before, next := free[0].Address, free[0].Address
	for path := range to {
		next.Path = path
	}
	for i := range row.Entitled.External {
		if row.Entitled.External[i].Address == before {
			parts := slices.Delete(slices.Clone(row.Entitled.External), i, i+1)
			row.Entitled = resource.NewResource(row.Entitled.Vector, append(parts, resource.External{Address: next, Vector: free[0].Vector})...)
			break
		}
	}
	users := m.model.knownUsers(&row.Allocation)
	for at := range row.users {
		if clusterOf(at) != c.name {
			users[at] = true
		}
	}
	for at := range users {
		if clusterOf(at) != c.name && !row.users[at] {
			delete(users, at)
		}
	}
	row.users = users
	return true
}

// failure is what became of the applications of a row that did not end well; empty: they did, or
// they run.
func (m *machine) failure(c *modelCluster, row *modelRow, answers map[string]ledger.ApplicationReport, settled bool) string {
	for _, id := range row.ApplicationIDs {
		lost := settled
		for _, part := range row.Entitled.External {
			in := answers
			if clusterOf(part.Address) != c.name {
				in = m.model.cluster(clusterOf(part.Address)).answers
			}
			a, answered := in[id]
			if a.Ended && a.Failure != "" {
				return id + " failed"
			}
			lost = lost && answered && !a.Known
		}
		if lost {
			return "its cluster does not know " + id + " any more"
		}
	}
	return ""
}

// pathOf is the full path of a queue that the cluster names; empty: it cannot be told.
func (c *modelCluster) pathOf(queue string) string {
	if queue == "root" || strings.HasPrefix(queue, "root.") {
		return queue
	}
	found := make(map[string]bool)
	for at := range c.queues {
		if strings.HasSuffix(at.Path, "."+queue) {
			found[at.Path] = true
		}
	}
	if len(found) != 1 {
		return ""
	}
	for path := range found {
		return path
	}
	return ""
}
