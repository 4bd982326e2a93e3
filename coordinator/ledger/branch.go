package ledger

import (
	"strings"

	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// branch is a queue of an external cluster, in one of its partitions, with its account. A part of
// an allocation counts in its queue and in every branch above, up to the root. The path alone says
// which these are. So a ledger that was just loaded, and knows nothing of the cluster yet, has the
// same sums.
type branch struct {
	account  account
	cluster  *cluster
	parent   *branch // nil: the root
	address  resource.Address
	below    int // branches that have it as their parent
	attached int // live allocations, and requests that are being decided
	dropped  bool
	// creator is the host whose agent's report created it; nil: a request or a provider did, or a
	// provider has reported it since.
	creator *host

	report QueueReport
	known  bool // it is in the last report
	seen   int  // the cluster's count of reports when it was last in one
	// shown is the part of our allocations here that the report's figures include for certain.
	shown resource.Sum
}

// charge is what an allocation asks of one branch, and counts there.
type charge struct {
	branch *branch
	own    bool            // one of its parts is in this very queue, not in one below
	vector resource.Vector // the sum of its parts here and below
	shown  resource.Vector // the part of it that the last report's figures include for certain
}

func newBranch(c *cluster, at queueKey) *branch {
	b := &branch{cluster: c, address: resource.Address{Kind: c.Kind, Cluster: c.Cluster, Path: at.path, Partition: at.partition}}
	b.account.name = queueName(b.address)
	b.account.queue.account, b.account.queue.branch = &b.account, b
	b.account.setLimit(resource.Vector{}, resource.Vector{})
	return b
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

// unschedulable says why no new grant may go there; empty if one may.
func (b *branch) unschedulable() string {
	switch {
	case !b.cluster.known:
		return NoteUnknown
	case !b.known && !b.autoCreated():
		return NoteMissing
	case b.report.Closed:
		return NoteStopped
	}
	return ""
}

// detail is the note in full.
func (b *branch) detail(note string, now Instant) string {
	switch note {
	case NoteUnknown:
		return b.cluster.unknown(now)
	case NoteStopped:
		return b.report.State
	}
	return ""
}

// autoCreated reports whether the cluster creates the queue, which it does not have, when it is
// used.
func (b *branch) autoCreated() bool {
	return b.cluster.autoCreates(queueKey{b.address.Path, b.address.Partition})
}

// autoCreates reports whether the cluster creates a queue that it does not have when it is used.
// The nearest existing queue above it decides that.
func (c *cluster) autoCreates(at queueKey) bool {
	if _, elsewhere := c.standard[at.path]; elsewhere { // the queue exists, in other partitions
		return false
	}
	for path, below := parentPath(at.path); below; path, below = parentPath(path) {
		if b := c.branches[queueKey{path, at.partition}]; b != nil && b.known {
			return b.report.CreatesChildren
		}
	}
	return false
}

// fits reports whether the request can go there now, by what is known of the cluster and by the
// account.
func (b *branch) fits(request resource.Vector) bool {
	return request.IsZero() || b.unschedulable() == "" && b.account.fits(request)
}

// free is what a request could get at most, in memory, cpu and instances.
func (b *branch) free() [3]int64 {
	if b.unschedulable() != "" {
		return [3]int64{-1, -1, -1}
	}
	return b.account.free()
}

// tooLarge reports whether the queue is known to be smaller than the request.
func (b *branch) tooLarge(request resource.Vector) bool {
	return b.cluster.known && b.known && !b.account.couldEverFit(request)
}

// setReport stores what a report says of the branch.
func (b *branch) setReport(r *QueueReport) {
	b.clearCreator()
	b.known, b.report = true, *r
	b.report.Limit, b.report.Used = clamped(r.Limit), clamped(r.Used)
}

// setCreator counts a new branch on the host whose agent's report created it, if one did.
func (b *branch) setCreator(h *host) {
	if h != nil {
		b.creator = h
		h.createdBranches++
	}
}

// clearCreator stops counting the branch on a host.
func (b *branch) clearCreator() {
	if b.creator != nil {
		b.creator.createdBranches--
		b.creator = nil
	}
}

// forgetReport forgets what was reported of the branch.
func (b *branch) forgetReport() {
	b.known, b.report = false, QueueReport{}
	b.applyReport()
	b.cluster.prune(b)
}

// applyReport gives the account the limits and the use of the report.
func (b *branch) applyReport() {
	b.account.complete = b.known
	b.updateOthers()
	b.account.setLimit(b.report.Limit, resource.Vector{})
}

// updateOthers computes what others use: the report's figures less the part of our allocations
// that they include.
func (b *branch) updateOthers() {
	others := resource.Vector{}
	for dimension, used := range b.report.Used.All() {
		if more := used - b.shown.Get(dimension); more > 0 {
			others = others.With(dimension, more)
		}
	}
	b.account.others = others
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

// setShown changes how much of an allocation the report's figures include. Call updateOthers
// afterwards: what an allocation leaves behind counts as used by others until a report says
// otherwise.
func (b *branch) setShown(t *charge, v resource.Vector) (changed bool) {
	if t.shown.EqualTo(v) {
		return false
	}
	err := b.shown.Minus(t.shown)
	if err == nil {
		err = b.shown.Add(v)
	}
	if err != nil {
		panic("ledger: " + b.account.name.String() + ": shown: " + err.Error())
	}
	t.shown = v
	return true
}
