package ledger

import (
	"fmt"
	"math"
	"slices"

	"github.com/tidwall/btree"

	"github.com/bursar/bursar/resource"
)

// # How a report of a cluster is taken in
//
// A cluster may have thousands of queues and of our applications. So a report is taken in by steps;
// what one step leaves is due at once, and Advance goes on. Small reports need one step.
//
// Each queue goes over to the new report by itself. Its account has the figures of one report at
// every moment: what the cluster says is used there, less what that includes of our allocations.
// It limits what is granted in this queue, whatever the others have; a request must fit in its
// queue and in each one above by the figures of that queue. So nothing has to wait until all
// queues have gone over, and between two steps readers see some queues as they were read before
// and some as they were read last. But what is said of the cluster as a whole (when it was asked,
// that something is known of it) changes when the last queue has gone over.
//
// All our allocations count in the root. So what a report includes of them is added up in steps
// before the first queue goes over, next to what the last report includes. From then until the end
// both are kept (whichReading), and a change of an allocation changes both. In the end the new one
// takes the place of the old one.

// readingStep is how much of a report one step takes in, in places where an allocation counts. One
// takes up to half a microsecond. What takes longer counts for several.
const readingStep = 1024

// readingList is the reports that are being taken in.
type readingList struct {
	clusters []*cluster // whose reports they are, the first to be taken in first
	step     int        // how much one step takes in
}

// indexedReport is a report that was checked.
type indexedReport struct {
	order   []int // of its queues, by address
	answers map[string]*ApplicationReport
	// leaves has the full paths by their last element, sorted, standard the default partitions by
	// path.
	leaves   map[string][]string
	standard map[string]string
	parents  map[string]bool // paths of those that take no applications
	capacity fleet
}

// Prepare checks a report and indexes it, as ReportCluster does. If that was done before, outside
// of the commit loop, the loop is not held by it. After it only Asked, GoodFor, Settle and
// Incarnation may be changed.
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
		if _, twice := x.standard[q.Path]; !twice { // else it was listed for another partition
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

// address is that of the queue with this index.
func (r *ClusterReport) address(i int) resource.Address {
	return resource.Address{Kind: r.Kind, Cluster: r.Cluster, Path: r.Queues[i].Path, Partition: r.Queues[i].Partition}
}

// reading is a report of a cluster that is being taken in.
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
	// count in two. What an allocation names later counts nowhere until the next report.
	owners map[string]owner
	over   btree.Set[ID] // the allocations that end with their applications
	// endsNone keeps these: what is read of the cluster is forgotten.
	endsNone bool
	// next is what the report includes of allocations, and sums that of all in a queue; none: what
	// the last report includes.
	next map[ID]*nextShown
	sums map[*clusterQueue]*resource.Sum

	phase   phase
	members int              // how many of the cluster's members this phase has yet to visit
	at      int              // how many of order have gone over
	after   resource.Address // the cluster's queues up to this one have gone over, or are woken
	usersOf *clusterQueue    // the queue that went over last, if not all users' parts of it have
	user    string           // its users up to this one have
	changed bool             // other queues are reported, or a queue has another default partition
	wake    bool             // nothing was known of the cluster before, and now something is
	// valuation is the change of the cluster's capacity; 0: it is what it was.
	valuation uint64
	list      []*clusterQueue // scratch
}

// phase is what is done of a report.
type phase int

const (
	findingOwners   phase = iota
	followingParts        // to the queues in which their applications run
	countingShown         // what the report includes of each allocation
	updatingQueues        // which go over to the report
	revaluingShares       // of which the cluster's capacity is another one
	wakingQueues          // from which nothing could be granted before
	endingMembers         // whose applications have ended
	mergingShown          // what the report includes takes the place of what the last one did
	allDone
)

// ReportCluster takes in what was read of a cluster, or refuses it. If it is much, that takes more
// steps: NextTimer is now until it is done. The ledger keeps the lists of the report.
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
		r.before = nil // they are from another time, or may be newer than these queues
	}
	c.silence = ""
	if !r.valid(l.now) { // nothing is granted by its figures
		c.known = false
		l.timers.set(&c.timer, 0)
	}
	c.reading = r
	l.readings.clusters = append(l.readings.clusters, c)
}

// valid reports whether the figures of the report may be relied on.
func (r *reading) valid(now Instant) bool { return r.Untrusted == "" && now < r.until }

// takeInReports takes in as much of the reports as one step may, one after the other.
func (l *Ledger) takeInReports() {
	before := l.revision
	for left := l.readings.step; len(l.readings.clusters) > 0 && left > 0 && !l.Behind(); {
		l.takeIn(l.readings.clusters[0].reading, &left)
	}
	l.own += int(l.revision - before) //nolint:gosec // what one step ends at most
}

// finishReading takes in all that is left of a report, if there is one. That is one long step: for
// other settings, for silence, and for a report that comes before the last one was taken in.
func (l *Ledger) finishReading(c *cluster) {
	if c.reading != nil {
		left := math.MaxInt
		l.takeIn(c.reading, &left)
	}
}

// takeIn goes on with a report while something is left of the step.
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

// goOn goes on with the present phase. It reports whether that is done.
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

// eachMember visits the members that there were when the phase began, the last one first. One that
// leaves is replaced by the last one, which was visited before. A place where a member counts costs
// so much of the step.
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
