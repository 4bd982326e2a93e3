package ledger_test

import (
	"cmp"
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
	m.see(row, answers)
	saying := func(stuck string) bool {
		reason := cmp.Or(m.failure(c, row, answers, settled), c.strange(row, answers), stuck)
		if reason == "" && row.Reason == "" {
			reason = m.unknown(c, row, answers, settled, false)
		}
		return reason != "" && reason != row.Reason && !row.finished(answers, settled)
	}
	said := saying("")
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
	for _, a := range strays {
		if c.whose(row, a) != "its own" {
			last := strays[len(strays)-1].ID
			return saying("nobody can tell whose " + last + " is, so its part in " + before.Path + " does not follow it to " + next.Path)
		}
	}
	for i := range row.Entitled.External {
		if row.Entitled.External[i].Address == before {
			parts := slices.Delete(slices.Clone(row.Entitled.External), i, i+1)
			row.Entitled = resource.NewResource(row.Entitled.Vector, append(parts, resource.External{Address: next, Vector: free[0].Vector})...)
			break
		}
	}
	return true
}

// see notes which applications of a row its clusters know.
func (m *machine) see(row *modelRow, answers map[string]ledger.ApplicationReport) {
	seen := make(map[string]bool)
	for _, id := range row.ApplicationIDs {
		seen[id] = row.seen[id] || answers[id].Known
	}
	row.seen = seen
}

// answersOf are the last answers of the cluster of a part, in a report of cluster c.
func (m *machine) answersOf(c *modelCluster, part resource.External, answers map[string]ledger.ApplicationReport) (*modelCluster, map[string]ledger.ApplicationReport) {
	if of := m.model.cluster(clusterOf(part.Address)); of != c {
		return of, of.answers
	}
	return c, answers
}

// failure is what became of the applications of a row that did not end well; empty: they did, or
// they run.
func (m *machine) failure(c *modelCluster, row *modelRow, answers map[string]ledger.ApplicationReport, settled bool) string {
	for _, id := range row.ApplicationIDs {
		for _, part := range row.Entitled.External {
			of, in := m.answersOf(c, part, answers)
			if a := in[id]; a.Ended && a.Failure != "" && of.whose(row, a) != "foreign" {
				return id + " failed"
			}
		}
	}
	return m.unknown(c, row, answers, settled, true)
}

// unknown says which application of a row no cluster knows, of those that one knew or of the
// others.
func (m *machine) unknown(c *modelCluster, row *modelRow, answers map[string]ledger.ApplicationReport, settled, seen bool) string {
	for _, id := range row.ApplicationIDs {
		lost := settled && row.seen[id] == seen
		for _, part := range row.Entitled.External {
			_, in := m.answersOf(c, part, answers)
			a, answered := in[id]
			lost = lost && answered && !a.Known
		}
		switch {
		case lost && seen:
			return "its cluster does not know " + id + " any more"
		case lost:
			return "its cluster does not know " + id
		}
	}
	return ""
}

// strange says which running application of a row is another's.
func (c *modelCluster) strange(row *modelRow, answers map[string]ledger.ApplicationReport) string {
	for _, id := range row.ApplicationIDs {
		a := answers[id]
		switch {
		case !a.Known || a.Ended || c.whose(row, a) != "foreign":
			continue
		case c.userIn(row.Labels) != "":
			return id + " does not run as " + c.userIn(row.Labels) + ", so it counts as others'"
		}
		return id + " counts as others': the label " + userLabelOf(c.settings) + " would say whom it runs as"
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
