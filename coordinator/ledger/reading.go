package ledger

import (
	"fmt"
	"math"
	"slices"

	"github.com/tidwall/btree"

	"github.com/bursar/bursar/resource"
)

// # How the ledger takes in a report of a cluster
//
// A cluster may have thousands of queues and of our applications. So the ledger takes in a report
// by steps; the rest after a step is due at once, and Advance goes on. Small reports need one step.
//
// Each queue changes over to the new report by itself. Its account has the figures of one report at
// every moment: the use that the cluster reports there, less our allocations in that figure. The
// account limits the grants in this queue, independently of the other queues; a request must fit in
// its queue and in each one above by the figures of that queue. So nothing has to wait until all
// queues have changed over. Between two steps readers see some queues by the last reading and some
// by the one before. But the state of the cluster as a whole (the time of the reading, whether it
// is known) changes when the last queue has changed over.
//
// All our allocations count in the root. So the report's figures for them are added up in steps
// before the first queue changes over, next to those of the last report. From then until the end
// the ledger keeps both (whichReading), and a change of an allocation changes both. In the end the
// new figures replace the old ones.

// readingStep is the size of a step, in places where an allocation counts. One takes up to half a
// microsecond. Work that takes longer counts for several.
const readingStep = 1024

// readingList is the reports that the ledger is taking in.
type readingList struct {
	clusters []*cluster // the clusters of the reports, in the order of taking in
	step     int        // size of one step
}

// indexedReport is the index of a checked report.
type indexedReport struct {
	order   []int // of its queues, by address
	answers map[string]*ApplicationReport
	// leaves has the full paths by their last element, sorted, standard the default partitions by
	// path.
	leaves   map[string][]string
	standard map[string]string
	parents  map[string]bool // paths of the queues that take no applications
	capacity fleet
}

// Prepare checks a report and indexes it, as ReportCluster does. A call outside of the commit loop
// keeps this work out of the loop. After it only Asked, GoodFor, Settle and Incarnation may be
// changed.
//
// Errors: *FieldError (a queue without a path, or listed twice).
func (r *ClusterReport) Prepare() error {
	x := &indexedReport{
		order:   make([]int, 0, len(r.Queues)),
		answers: make(map[string]*ApplicationReport, len(r.Applications)),
		leaves:  make(map[string][]string, len(r.Queues)), standard: make(map[string]string, len(r.Queues)),
		parents: map[string]bool{},
	}
	for i := range r.Queues {
		if r.Queues[i].Path == "" {
			return &FieldError{fmt.Sprintf("queues[%d].path", i), "", "the full path of the queue"}
		}
		x.order = append(x.order, i)
	}
	compare := func(i, j int) int { return r.address(i).Compare(r.address(j)) }
	slices.SortStableFunc(x.order, compare)
	for at, i := range x.order {
		if at > 0 && compare(x.order[at-1], i) == 0 {
			return &FieldError{fmt.Sprintf("queues[%d].path", i), r.address(i).String(), "each queue once in each partition"}
		}
		q := &r.Queues[i]
		if _, twice := x.standard[q.Path]; !twice { // otherwise it was listed for another partition
			x.leaves[leaf(q.Path)] = append(x.leaves[leaf(q.Path)], q.Path)
		}
		x.standard[q.Path] = q.DefaultPartition
		if q.LeavesOnly {
			x.parents[q.Path] = true
		}
	}
	if r.Untrusted == "" {
		for i := range r.Applications {
			x.answers[r.Applications[i].ID] = &r.Applications[i]
		}
	}
	x.capacity = r.topLimits()
	r.indexed = x
	return nil
}

// address returns the address of the queue with this index.
func (r *ClusterReport) address(i int) resource.Address {
	return resource.Address{Kind: r.Kind, Cluster: r.Cluster, Path: r.Queues[i].Path, Partition: r.Queues[i].Partition}
}

// reading is a report of a cluster that the ledger is taking in.
type reading struct {
	ClusterReport
	*indexedReport

	cluster *cluster
	number  int32   // of the cluster's reports
	taken   Instant // when it was handed in
	until   Instant // how long it is valid
	// before are the answers of the last report; nil: they do not count.
	before map[string]*ApplicationReport
	// owners has the allocation in which each application counts, see readingowners.go. It must not
	// count in two. Applications that an allocation names later count nowhere until the next
	// report.
	owners map[string]owner
	over   btree.Set[ID] // the allocations that end with their applications
	// endsNone keeps the allocations of over, because the state of the cluster is forgotten.
	endsNone bool
	// next has the report's figures for allocations, and sums their sums by queue. An allocation
	// without an entry has those of the last report.
	next map[ID]*nextShown
	sums map[*clusterQueue]*resource.Sum

	phase   phase
	members int              // number of the cluster's members that this phase has yet to visit
	at      int              // number of queues in order that have changed over
	after   resource.Address // the cluster's queues up to this one have changed over, or are woken
	usersOf *clusterQueue    // the queue that changed over last, if not all its users' parts have
	user    string           // its users up to this one have changed over
	changed bool             // other queues are reported, or a queue has another default partition
	wake    bool             // the cluster was unknown before, and is known now
	// valuation is the change of the cluster's capacity; 0: it is unchanged.
	valuation uint64
	list      []*clusterQueue // scratch
}

// phase is a stage of taking in a report.
type phase int

const (
	findingOwners   phase = iota
	followingParts        // to the queues in which their applications run
	countingShown         // the report's figures for each allocation
	updatingQueues        // which change over to the report
	revaluingShares       // after a change of the cluster's capacity
	wakingQueues          // that could grant nothing before
	endingMembers         // whose applications have ended
	mergingShown          // the report's figures replace those of the last one
	allDone
)

// ReportCluster takes in a report of a cluster, or refuses it. A large report takes more steps:
// NextTimer is now until it is done. The ledger keeps the lists of the report.
//
// Errors: *NotFoundError (there is no provider for it any more), and those of Prepare.
func (l *Ledger) ReportCluster(now Instant, r ClusterReport) error {
	l.begin(now)
	if l.provider(r.ClusterName) == nil {
		return &NotFoundError{What: "provider", ID: r.String()}
	}
	c := l.clusters[r.ClusterName]
	l.finishReading(c)
	r.Asked = min(r.Asked, l.now)
	if r.Asked < c.asked || r.Asked < c.since {
		return nil
	}
	if r.indexed == nil {
		if err := r.Prepare(); err != nil {
			return err
		}
	}
	l.beginReading(c, r)
	left := l.readings.step
	l.takeIn(c.reading, &left)
	l.grantWaiting()
	return nil
}

// beginReading begins to take in a report.
func (l *Ledger) beginReading(c *cluster, report ClusterReport) {
	c.reports++
	r := &reading{
		ClusterReport: report, indexedReport: report.indexed, cluster: c, number: c.reports, taken: l.now, until: report.Asked.Add(report.GoodFor),
		before: c.answers, owners: make(map[string]owner, len(report.indexed.answers)), members: len(c.members),
		after: resource.Address{Kind: c.Kind, Cluster: c.Cluster}, next: make(map[ID]*nextShown), sums: make(map[*clusterQueue]*resource.Sum),
	}
	if r.Incarnation != c.incarnation || r.Untrusted != "" || !c.known || r.Asked < c.taken {
		r.before = nil // the answers are from another time, or may be newer than these queues
	}
	c.silence = ""
	if !r.valid(l.now) { // nothing is granted by its figures
		c.known = false
		l.timers.set(&c.timer, 0)
	}
	c.reading = r
	l.readings.clusters = append(l.readings.clusters, c)
}

// valid reports whether the figures of the report are reliable.
func (r *reading) valid(now Instant) bool { return r.Untrusted == "" && now < r.until }

// takeInReports takes in reports, one after the other, up to the size of one step.
func (l *Ledger) takeInReports() {
	before := l.revision
	for left := l.readings.step; len(l.readings.clusters) > 0 && left > 0 && !l.Behind(); {
		l.takeIn(l.readings.clusters[0].reading, &left)
	}
	l.own += int(l.revision - before) //nolint:gosec // at most the allocations that one step ends
}

// finishReading takes in the rest of a report, if there is one, in one long step: for other
// settings, for silence, and for a report that comes before the last one was taken in.
func (l *Ledger) finishReading(c *cluster) {
	if c.reading != nil {
		left := math.MaxInt
		l.takeIn(c.reading, &left)
	}
}

// takeIn goes on with a report until the step is used up.
func (l *Ledger) takeIn(r *reading, left *int) {
	for *left > 0 && r.phase < allDone {
		if !r.goOn(l, left) {
			return
		}
		r.phase++
		r.members, r.at, r.after = len(r.cluster.members), 0, resource.Address{Kind: r.Kind, Cluster: r.Cluster}
	}
	if r.phase == allDone {
		r.cluster.reading = nil
		l.readings.clusters = slices.DeleteFunc(l.readings.clusters, func(c *cluster) bool { return c == r.cluster })
	}
}

// goOn goes on with the present phase. It reports whether the phase is done.
func (r *reading) goOn(l *Ledger, left *int) (done bool) {
	switch r.phase {
	case findingOwners:
		return r.eachMember(left, 1, r.addOwner)
	case followingParts:
		return r.eachMember(left, 0, func(e *entry) { *left -= r.follow(l, e) })
	case countingShown:
		return r.eachMember(left, 2, func(e *entry) {
			if r.countShown(e) {
				l.noteForAudit(e)
			}
		})
	case updatingQueues:
		return r.updateQueues(l, left)
	case revaluingShares:
		return r.revalueShares(l, left)
	case wakingQueues:
		return r.wakeQueues(l, left)
	case endingMembers:
		return r.endMembers(l, left)
	default:
		return r.eachMember(left, 1, func(e *entry) {
			if r.mergeShown(e) {
				l.noteForAudit(e)
			}
		})
	}
}

// eachMember visits the members that existed when the phase began, the last one first. A member
// that leaves is replaced by the last one, which was visited before. Each place where a member
// counts subtracts cost from left.
func (r *reading) eachMember(left *int, cost int, visit func(*entry)) (done bool) {
	r.members = min(r.members, len(r.cluster.members))
	for r.members > 0 && *left > 0 {
		r.members--
		e := r.cluster.members[r.members]
		visit(e)
		*left -= cost * (len(e.external.charges) + len(e.ApplicationIDs))
	}
	return r.members == 0
}

// ended reports whether all applications have ended, by the last reports of all clusters.
func (x *external) ended() bool {
	return !slices.ContainsFunc(x.memberships, func(s membership) bool { return !s.ended })
}
