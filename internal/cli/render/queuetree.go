package render

import (
	"slices"
	"strings"
	"time"

	"github.com/bursar/bursar/internal/spelling"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// branch is a queue in a tree of queues.
type branch struct {
	*bursarv1.Queue

	// depth is how many of the queues above it are shown.
	depth int
	above *branch // nil: none is shown
}

// QueueAddress returns the address of a queue.
func QueueAddress(q *bursarv1.Queue) resource.Address {
	return resource.Address{Kind: q.GetKind(), Cluster: q.GetCluster(), Path: q.GetPath(), Partition: q.GetPartition()}
}

// treeOf puts queues into the order of a tree: a queue, its other partitions, then the queues
// below it.
func treeOf(queues []*bursarv1.Queue) []*branch {
	type queue struct{ kind, cluster, path string } // in all of its partitions
	known := make(map[queue][]*branch, len(queues))
	tree := make([]*branch, len(queues))
	for i, q := range queues {
		tree[i] = &branch{Queue: q}
		at := queue{q.GetKind(), q.GetCluster(), q.GetPath()}
		known[at] = append(known[at], tree[i])
	}
	slices.SortStableFunc(tree, func(a, b *branch) int {
		if c := strings.Compare(ClusterText(a.GetKind(), a.GetCluster()), ClusterText(b.GetKind(), b.GetCluster())); c != 0 {
			return c
		}
		// By the elements of the path: "root.a.b" before "root.a-b", which is not below root.a.
		if c := slices.Compare(strings.Split(a.GetPath(), "."), strings.Split(b.GetPath(), ".")); c != 0 {
			return c
		}
		return strings.Compare(a.GetPartition(), b.GetPartition())
	})
	for _, b := range tree { // those above come first
		for _, above := range known[queue{b.GetKind(), b.GetCluster(), b.GetParent()}] {
			if b.GetParent() != "" && (b.above == nil || above.GetPartition() == b.GetPartition()) {
				b.above, b.depth = above, above.depth+1
			}
		}
	}
	return tree
}

// name is the name that the tree shows for a queue: all of its address if nothing above it is
// shown, else its last element.
func (b *branch) name() string {
	if b.above == nil {
		if b.GetUnaddressable() != "" {
			return ClusterText(b.GetKind(), b.GetCluster()) + ":" + b.GetPath()
		}
		return resource.Address{Kind: b.GetKind(), Cluster: b.GetCluster(), Path: b.GetPath()}.String()
	}
	name := strings.TrimPrefix(b.GetPath(), b.GetParent()+".")
	if b.GetUnaddressable() == "" { // else it is quoted
		name = spelling.Name(name, ",@")
	}
	return strings.Repeat("  ", b.depth) + name
}

// note is why a queue grants nothing, and how its numbers mislead, if the one above it does not
// say so already, and the peculiarities of its account.
func (b *branch) note() string {
	reason, meaning := b.GetUnavailable(), clusterNote(b.GetAccount())
	if b.above != nil && reason == b.above.GetUnavailable() {
		reason = ""
	}
	if b.above != nil && meaning == clusterNote(b.above.GetAccount()) {
		meaning = ""
	}
	if reason = OneLine(reason); strings.Contains(meaning, reason) {
		reason = "" // what is held back
	}
	return joined(reason, accountNote(b.GetAccount()), applicationsNote(b.GetAccount()), meaning)
}

// availableText is the resource that a request could get; empty if the note says why it could get
// nothing.
func (b *branch) availableText() string {
	if b.GetUnavailable() != "" {
		return ""
	}
	return QuantitiesText(b.GetAvailable())
}

// PrintQueues prints queues as a tree.
func PrintQueues(out *Printer, queues []*bursarv1.Queue) {
	header := []string{"QUEUE", "PARTITION", "STATE", "LIMIT", "USED", "OURS", "AVAILABLE", "APPS", "MASTERS", "WAITING", "AGE"}
	if out.Wide() {
		header = append(header, "GUARANTEED", "CAPACITY", "MAX CAPACITY", "READ", "MAKES QUEUES")
	}
	header = append(header, "NOTE")
	now := time.Now()
	var rows [][]string
	for _, b := range treeOf(queues) {
		a := b.GetAccount()
		row := []string{
			b.name(), spelling.Name(b.GetPartition(), ",@"), b.GetState(), LimitText(a.GetLimit()), QuantitiesText(b.GetUsed()), QuantitiesText(oursOf(a)),
			b.availableText(), ApplicationsText(b.Queue), mastersText(b.Queue), Count(a.GetWaiting()), Since(b.GetSnapshotTime(), now),
		}
		if out.Wide() {
			if row[1] == "" {
				row[1] = "(default)"
			}
			makes := ""
			if b.GetCreatesChildren() {
				makes = "yes"
			}
			row = append(row, QuantitiesText(b.GetGuaranteed()), PercentText(b.AbsoluteCapacity), PercentText(b.AbsoluteMaxCapacity),
				TimeText(b.GetSnapshotTime()), makes)
		}
		rows = append(rows, append(row, b.note()))
	}
	out.Table(header, rows)
}

// mastersText writes "1GiB/4.4GiB": the memory of the masters of applications, ours that are not
// shown yet among them, and how much they may have.
func mastersText(q *bursarv1.Queue) string {
	of := func(r *bursarv1.Resource) int64 { return r.GetCustom()[resource.AMMemory] }
	a := q.GetAccount()
	most, limited := a.GetLimit().GetCustom()[resource.AMMemory]
	used := of(a.GetUsed()) + of(a.GetReserved()) + of(a.GetUsedByOthers())
	switch {
	case limited:
		return MemoryText(used) + "/" + MemoryText(most)
	case used > 0:
		return MemoryText(used)
	}
	return ""
}
