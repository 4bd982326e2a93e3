package clusters

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/spelling"
	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// The lengths to which a cluster's texts about an application are truncated, in bytes: they are
// part of each row of its allocation.
const (
	mostWord        = 32
	mostDiagnostics = 300
)

// shownText returns the beginning of a text, on one line and without terminal control characters.
func shownText(text string, most int) string {
	return spelling.Printable(spelling.Cut(strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "?"), most), '?')
}

// QueueReports converts the queues of a snapshot for the ledger, without queues that no request can
// name. A malformed queue is an error: it must not reach the loop.
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
		if !resource.ValidPath(q.Path) || utf8.RuneCountInString(q.Partition) > providers.MostPartition {
			continue
		}
		for _, v := range []resource.Vector{q.Limit, q.Used, q.Guaranteed, q.UserLimit, q.LargestContainer, q.MayGrow, q.UsersMayGrow} {
			if err := v.Validate(); err != nil {
				return nil, fmt.Errorf("queue %q in partition %q: %w", q.Path, q.Partition, err)
			}
		}
		users, err := queueUsers(q)
		if err != nil {
			return nil, fmt.Errorf("queue %q in partition %q: %w", q.Path, q.Partition, err)
		}
		reports = append(reports, ledger.QueueReport{
			Path: q.Path, Parent: q.Parent, Partition: q.Partition, Limit: q.Limit, Used: q.Used, Guaranteed: q.Guaranteed,
			Users: users, FirstIsFree: q.FirstIsFree, Details: queueDetails(q),
			State: q.State, Closed: q.Closed, CreatesChildren: q.CreatesChildren, LeavesOnly: q.LeavesOnly, DefaultPartition: q.DefaultPartition,
			AbsoluteCapacity: q.AbsoluteCapacity, AbsoluteMaxCapacity: q.AbsoluteMaxCapacity,
			Applications: q.Applications, Pending: q.Pending, Active: q.Active, MaxApplications: q.MaxApplications,
		})
	}
	return reports, nil
}

// UnaddressableQueues converts a snapshot's list of queues that no request can name; nil: there are
// none.
func UnaddressableQueues(s *providers.Snapshot) *ledger.UnaddressableQueues {
	if len(s.Unaddressable) == 0 {
		return nil
	}
	all := &ledger.UnaddressableQueues{More: s.MoreUnaddressable}
	for _, u := range s.Unaddressable {
		all.Listed = append(all.Listed, ledger.UnaddressableQueue(u))
	}
	return all
}

// queueDetails converts a queue's fields other than its limits and use; nil: there are none.
func queueDetails(q *providers.Queue) *ledger.QueueDetails {
	plain := q.LargestContainer.IsUnset() && q.MayGrow.IsUnset() && q.UsersMayGrow.IsUnset() && q.Division == nil && q.ChildDivision == nil
	if plain && len(q.NotEnforced)+len(q.Estimated)+len(q.CreatesBelow) == 0 && q.UserPercent == nil && q.HeldBack <= 0 {
		return nil
	}
	return &ledger.QueueDetails{
		LargestContainer: q.LargestContainer, Division: division(q.Division), ChildDivision: division(q.ChildDivision),
		NotEnforced: q.NotEnforced, Estimated: q.Estimated, UserPercent: q.UserPercent, CreatesBelow: q.CreatesBelow,
		MayGrow: q.MayGrow, UsersMayGrow: q.UsersMayGrow, HeldBack: ledger.HeldBack{Applications: q.HeldBack, Reason: shownText(q.HeldBackBy, mostDiagnostics)},
	}
}

// division converts a Division; nil: there is none.
func division(d *providers.Division) *ledger.Division {
	if d == nil {
		return nil
	}
	return new(ledger.Division(*d))
}

// queueUsers converts the users of a queue and sorts them by name; nil: there are none.
func queueUsers(q *providers.Queue) (*ledger.QueueUsers, error) {
	if len(q.Users) == 0 && q.UserLimit.IsUnset() {
		return nil, nil //nolint:nilnil // nothing is said
	}
	reports := make([]ledger.UserReport, 0, len(q.Users))
	for i := range q.Users {
		u := &q.Users[i]
		for _, v := range []resource.Vector{u.Limit, u.Used} {
			if err := v.Validate(); err != nil {
				return nil, fmt.Errorf("user %q: %w", u.Name, err)
			}
		}
		reports = append(reports, ledger.UserReport{User: u.Name, Limit: u.Limit, Used: u.Used})
	}
	slices.SortFunc(reports, func(a, b ledger.UserReport) int { return cmp.Compare(a.User, b.User) })
	for i := 1; i < len(reports); i++ {
		if reports[i-1].User == reports[i].User {
			return nil, fmt.Errorf("user %q: want each once", reports[i].User)
		}
	}
	return &ledger.QueueUsers{Listed: reports, Limit: q.UserLimit}, nil
}

// applicationReports converts answers about applications, without malformed answers and
// applications that were not asked for.
func applicationReports(answers []providers.Application, asked []string) []ledger.ApplicationReport {
	wanted := make(map[string]bool, len(asked))
	for _, id := range asked {
		wanted[id] = true
	}
	reports := make([]ledger.ApplicationReport, 0, len(answers))
	for _, a := range answers {
		sound := wanted[a.ID] && utf8.ValidString(a.Queue+a.User)
		for _, v := range a.Allocated {
			sound = sound && v.Validate() == nil
		}
		if !sound {
			continue
		}
		delete(wanted, a.ID)
		reports = append(reports, ledger.ApplicationReport{
			ID: a.ID, Known: a.Known, Ended: a.Ended, Failure: shownText(a.Failure, mostWord), Diagnostics: shownText(a.Diagnostics, mostDiagnostics),
			Queue: a.Queue, User: a.User, Allocated: a.Allocated,
		})
	}
	return reports
}
