package ledger

import (
	"strings"

	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// clusterQueue is a queue of an external cluster, in one of its partitions, with its account. A
// part of an allocation counts in its queue and in every queue above, up to the root. The path
// alone says which these are. So a ledger that was just loaded, and knows nothing of the cluster
// yet, has the same sums.
type clusterQueue struct {
	account  account
	cluster  *cluster
	parent   *clusterQueue // nil: the root
	address  resource.Address
	attached int32 // live allocations, and requests that are being decided
	below    int32 // queues that have it as their parent
	taken    int32 // the number of the report that it was last updated by
	dropped  bool
	known    bool // it is in the last report
	// users are the parts that users with live allocations in this very queue have of it, by name.
	users []*clusterQueue
	of    *userOf // whose part of which queue it is; nil: it is a queue
	// creator is the host whose agent's report created it; nil: a request or a provider did, or a
	// provider has reported it since.
	creator *host

	report QueueReport
	active *activity // nil: it takes part in no division
	// shown is the part of our allocations here that the figures of the last report include for
	// certain.
	shown resource.Sum
}

// queueCharge is an allocation's charge to one cluster queue.
type queueCharge struct {
	queue  *clusterQueue
	own    bool            // one of its parts is in this very queue, not in one below
	vector resource.Vector // the sum of its parts here and below
	shown  resource.Vector // the part of it that the last report's figures include for certain
	use    *shareUse       // of its share, while it holds something
}

func newClusterQueue(c *cluster, at queueKey) *clusterQueue {
	q := &clusterQueue{cluster: c, address: resource.Address{Kind: c.Kind, Cluster: c.Cluster, Path: at.path, Partition: at.partition}}
	q.account.name = queueName(q.address)
	q.account.queue.account, q.account.queue.clusterQueue = &q.account, q
	q.account.setLimit(resource.Vector{}, resource.Vector{})
	return q
}

// queueName is the name of a queue's account.
func queueName(at resource.Address) AccountName {
	set := label.Set{{Key: label.Cluster, Value: at.Cluster}, {Key: kindKey, Value: at.Kind}}
	if at.Partition != "" {
		set = append(set, label.Label{Key: partitionKey, Value: at.Partition})
	}
	return AccountName{Kind: QueueAccount, Labels: append(set, label.Label{Key: pathKey, Value: at.Path})}
}

// Keys in the name of a queue's account, next to label.Cluster.
const (
	kindKey      = "kind"
	pathKey      = "path"
	partitionKey = "partition"
)

// parentPath returns the path of the queue above; false if there is none.
func parentPath(path string) (string, bool) {
	at := strings.LastIndexByte(path, '.')
	if at < 0 {
		return "", false
	}
	return path[:at], true
}

// leaf returns the last element of a path.
func leaf(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// unschedulable says why no new grant may go there; empty if one may. Of a user's part the queue
// says it.
func (q *clusterQueue) unschedulable() Note {
	switch {
	case q.of != nil:
		return ""
	case !q.cluster.known:
		return NoteUnknown
	case !q.known && !q.autoCreated():
		return NoteMissing
	case q.report.Closed:
		return NoteStopped
	}
	return ""
}

// detail is the note in full.
func (q *clusterQueue) detail(note Note, now Instant) string {
	switch note {
	case NoteUnknown:
		return q.cluster.unknown(now)
	case NoteStopped:
		return q.report.State
	case NoteHeldBack:
		return q.heldBack().String()
	default:
		return ""
	}
}

// autoCreated reports whether the cluster creates the queue, which it does not have, when it is
// used.
func (q *clusterQueue) autoCreated() bool {
	return q.cluster.autoCreates(queueKey{q.address.Path, q.address.Partition})
}

// autoCreates reports whether the cluster creates a queue that it does not have when it is used.
// The nearest existing queue above it decides that.
func (c *cluster) autoCreates(at queueKey) bool {
	made, _ := c.undeclared(at)
	return made
}

// undeclared reports of a queue whether the cluster does not have it and creates it when it or one
// below it is used. If it is then a parent, which takes no applications itself, below is the path
// of the parent, itself or below it, below which queues are created.
func (c *cluster) undeclared(at queueKey) (made bool, below string) {
	_, elsewhere := c.standard[at.path] // the queue exists, in other partitions
	if r := c.reading; r != nil && elsewhere {
		_, elsewhere = r.standard[at.path] // else it exists no longer
	}
	if elsewhere {
		return false, ""
	}
	for path, is := parentPath(at.path); is; path, is = parentPath(path) {
		if q := c.queues[queueKey{path, at.partition}]; q != nil && q.known {
			return q.creates(at.path)
		}
	}
	return false, ""
}

// creates is undeclared of a queue below this one, which is the nearest that exists.
func (q *clusterQueue) creates(path string) (made bool, below string) {
	made = q.report.CreatesChildren
	if q.report.Details == nil {
		return made, ""
	}
	for _, declared := range q.report.Details.CreatesBelow {
		if declared == path || strings.HasPrefix(declared, path+".") {
			return true, declared
		}
		made = made || strings.HasPrefix(path, declared+".")
	}
	return made, ""
}

// unschedulable says why nothing new of a request may go to the queue; empty if it may. A part in
// the queue itself may be refused where one in a queue below is not.
func (t *queueCharge) unschedulable() Note {
	q := t.queue
	note := q.unschedulable()
	switch {
	case note != "" || !t.own || q.of != nil:
		return note
	case q.leavesOnly():
		return NoteStopped
	case q.awaitsStarts():
		return NoteHeldBack
	}
	return ""
}

// detail is the note in full.
func (t *queueCharge) detail(note Note, now Instant) string {
	if note == NoteStopped && !t.queue.report.Closed {
		return "applications run in the queues below it, not in it"
	}
	return t.queue.detail(note, now)
}

// fits reports whether the request can go there now, by the state of the cluster and by the
// account.
func (t *queueCharge) fits() bool {
	if t.vector.IsZero() {
		return true
	}
	if t.unschedulable() != "" {
		return false
	}
	t.queue.updateMasters()
	return t.queue.account.fits(t.queue.limited(t.vector)) && !t.queue.masterIsLarge(t.vector) && t.fitsDivision()
}

// leavesOnly reports whether the queue is known to take no applications itself.
func (q *clusterQueue) leavesOnly() bool {
	if q.known {
		return q.report.LeavesOnly
	}
	_, below := q.cluster.undeclared(queueKey{q.address.Path, q.address.Partition})
	return below != ""
}

// leavesBelow are the paths of the first queues below this one, in its partition, that take
// applications: at most so many, by path.
func (q *clusterQueue) leavesBelow(most int) (paths []string) {
	inside, looked := q.address.Path+".", 0
	q.cluster.order.Ascend(q, func(at *clusterQueue) bool {
		looked++
		below := strings.HasPrefix(at.address.Path, inside)
		if below && at.known && !at.report.LeavesOnly && at.address.Partition == q.address.Partition {
			paths = append(paths, at.address.Path)
		}
		return len(paths) < most && looked < mostLooked && strings.HasPrefix(at.address.Path, q.address.Path)
	})
	return paths
}

// mostLooked bounds how many queues are looked at to name those below one. One takes some 20 ns.
const mostLooked = 4096

// free returns the most that a request could get, in memory, cpu and instances.
func (q *clusterQueue) free() [3]int64 {
	if q.unschedulable() != "" {
		return [3]int64{-1, -1, -1}
	}
	return q.account.free()
}

// tooLarge reports whether the queue, however its cluster may grow, is known to be smaller than the
// request, or its largest container smaller than the request's master. The limit of all masters
// together moves with the cluster, so it is never too small for good.
func (q *clusterQueue) tooLarge(request resource.Vector) bool {
	return q.tooLargeNow(request) && (!q.couldGrowTo(withoutMasters(request)) || q.masterIsLarge(request))
}

// tooLargeNow is tooLarge by the limit of today.
func (q *clusterQueue) tooLargeNow(request resource.Vector) bool {
	return q.cluster.known && q.known && (!q.account.couldEverFit(withoutMasters(request)) || q.masterIsLarge(request))
}

// masterIsLarge reports whether a master asks for more than the largest container has.
func (q *clusterQueue) masterIsLarge(request resource.Vector) bool {
	return len(q.largeMasters(nil, request)) > 0
}

// largeMasters appends the shortfalls of a master that exceeds the largest container.
func (q *clusterQueue) largeMasters(list []Shortfall, request resource.Vector) []Shortfall {
	if q.report.Details == nil {
		return list
	}
	for _, d := range masterDimensions {
		most, told := q.report.Details.LargestContainer.Get(d.whole)
		if asked := get(request, d.master); told && asked > most {
			list = append(list, Shortfall{
				Account: q.account.name, Dimension: d.master, Requested: asked, Available: most, Limit: most, Note: NoteNever,
			})
		}
	}
	return list
}

// neverShortfalls appends the shortfalls of a request that is too large for good.
func (q *clusterQueue) neverShortfalls(list []Shortfall, request resource.Vector) []Shortfall {
	large := q.largeMasters(nil, request)
	rest := request
	for i := range large { // these are not short of room
		rest = rest.Without(large[i].Dimension)
	}
	return append(q.account.shortfalls(list, rest), large...)
}

// setReport stores a report of the cluster queue.
func (q *clusterQueue) setReport(r *QueueReport) {
	q.clearCreator()
	q.known, q.report = true, *r
	q.report.Limit, q.report.Used = clamped(r.Limit), clamped(r.Used)
}

// setCreator counts a new cluster queue on the host whose agent's report created it, if one did.
func (q *clusterQueue) setCreator(h *host) {
	if h != nil {
		q.creator = h
		h.createdQueues++
	}
}

// clearCreator stops counting the cluster queue on a host.
func (q *clusterQueue) clearCreator() {
	if q.creator != nil {
		q.creator.createdQueues--
		q.creator = nil
	}
}

// forgetReport removes the report of the cluster queue.
func (q *clusterQueue) forgetReport() {
	q.known, q.report = false, QueueReport{}
	q.applyReport()
	for _, u := range q.users {
		u.applyUserReport()
	}
	q.cluster.prune(q)
}

// applyReport gives the account the limits and the use of the report.
func (q *clusterQueue) applyReport() {
	q.account.complete = q.known && q.of == nil
	q.updateOthers()
	q.account.setLimit(q.report.Limit, resource.Vector{})
	q.updateActive()
	if _, noted := q.cluster.division.masters[q]; !noted {
		q.noteMasters(resource.Vector{})
	}
}

// addInfo adds the properties of a queue, or of a user's part of one, that its account does not
// have.
func (q *clusterQueue) addInfo(info *AccountInfo) {
	info.MayGrow = q.mayGrow()
	if q.of != nil {
		if d := q.of.queue.report.Details; d != nil {
			info.UserPercent = d.UserPercent
		}
		return
	}
	for _, user := range q.users {
		info.Waiting += user.account.queue.waiting
	}
	info.Estimated, info.HeldBack = q.estimated(), q.heldBack()
	if d := q.report.Details; d != nil {
		info.NotEnforced = d.NotEnforced
	}
}

// updateOthers computes the use of others: the report's figures less the part of our allocations
// that they include.
func (q *clusterQueue) updateOthers() {
	others, shown := resource.Vector{}, q.shownBy(q.inForce())
	for dimension, used := range q.report.Used.All() {
		if more := used - shown.Get(dimension); more > 0 {
			others = others.With(dimension, more)
		}
	}
	q.account.others = others
}

// clamped limits quantities to the range in which sums cannot overflow.
func clamped(v resource.Vector) resource.Vector {
	for dimension, quantity := range v.All() {
		if quantity < 0 || quantity > resource.MaxQuantity {
			v = v.With(dimension, min(max(0, quantity), resource.MaxQuantity))
		}
	}
	return v
}
