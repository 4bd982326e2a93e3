package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bursar/bursar/internal/spelling"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/resource"
)

// branch is a queue in a tree of queues.
type branch struct {
	*bursarv1.Queue

	// depth is how many of the queues above it are shown.
	depth int
	above *branch // nil: none is shown
}

func queueAddress(q *bursarv1.Queue) resource.Address {
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
		if c := strings.Compare(clusterText(a.GetKind(), a.GetCluster()), clusterText(b.GetKind(), b.GetCluster())); c != 0 {
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

// name is what the tree shows of a queue: all of its address if nothing above it is shown, else
// its last element.
func (b *branch) name() string {
	if b.above == nil {
		if b.GetUnaddressable() != "" {
			return clusterText(b.GetKind(), b.GetCluster()) + ":" + b.GetPath()
		}
		return resource.Address{Kind: b.GetKind(), Cluster: b.GetCluster(), Path: b.GetPath()}.String()
	}
	name := strings.TrimPrefix(b.GetPath(), b.GetParent()+".")
	if b.GetUnaddressable() == "" { // else it is quoted
		name = spelling.Name(name, ",@")
	}
	return strings.Repeat("  ", b.depth) + name
}

// note is why a queue grants nothing, and what its numbers do not mean, if the one above it does
// not say so already, and what is special about its account.
func (b *branch) note() string {
	reason, meaning := b.GetUnavailable(), clusterNote(b.GetAccount())
	if b.above != nil && reason == b.above.GetUnavailable() {
		reason = ""
	}
	if b.above != nil && meaning == clusterNote(b.above.GetAccount()) {
		meaning = ""
	}
	if reason = oneLine(reason); strings.Contains(meaning, reason) {
		reason = "" // what is held back
	}
	return joined(reason, accountNote(b.GetAccount()), applicationsNote(b.GetAccount()), meaning)
}

// applicationsNote says that a queue starts nothing more now because of what it may have of
// applications, which AVAILABLE does not show. The first master is free.
func applicationsNote(a *bursarv1.Account) string {
	var short []string
	for dimension, most := range a.GetLimit().GetCustom() {
		of := func(r *bursarv1.Resource) int64 { return r.GetCustom()[dimension] }
		has := of(a.GetUsed()) + of(a.GetReserved()) + of(a.GetUsedByOthers())
		if resource.OfApplications(dimension) && has >= most && (has > 0 || !resource.OfMasters(dimension)) {
			short = append(short, dimension)
		}
	}
	if len(short) == 0 {
		return ""
	}
	slices.Sort(short)
	return "no more " + strings.Join(short, " and ") + " now"
}

// availableText is what a request could get; empty if the note says why it could get nothing.
func (b *branch) availableText() string {
	if b.GetUnavailable() != "" {
		return ""
	}
	return quantitiesText(b.GetAvailable())
}

// printQueues prints queues as a tree.
func printQueues(out *printer, queues []*bursarv1.Queue) {
	header := []string{"QUEUE", "PARTITION", "STATE", "LIMIT", "USED", "OURS", "AVAILABLE", "APPS", "MASTERS", "WAITING", "AGE"}
	if out.wide() {
		header = append(header, "GUARANTEED", "CAPACITY", "MAX CAPACITY", "READ", "MAKES QUEUES")
	}
	header = append(header, "NOTE")
	now := time.Now()
	var rows [][]string
	for _, b := range treeOf(queues) {
		a := b.GetAccount()
		row := []string{
			b.name(), spelling.Name(b.GetPartition(), ",@"), b.GetState(), limitText(a.GetLimit()), quantitiesText(b.GetUsed()), quantitiesText(oursOf(a)),
			b.availableText(), applicationsText(b.Queue), mastersText(b.Queue), count(a.GetWaiting()), since(b.GetSnapshotTime(), now),
		}
		if out.wide() {
			if row[1] == "" {
				row[1] = "(default)"
			}
			makes := ""
			if b.GetCreatesChildren() {
				makes = "yes"
			}
			row = append(row, quantitiesText(b.GetGuaranteed()), percentText(b.AbsoluteCapacity), percentText(b.AbsoluteMaxCapacity),
				timeText(b.GetSnapshotTime()), makes)
		}
		rows = append(rows, append(row, b.note()))
	}
	out.table(header, rows)
}

// oursOf is what our allocations hold in a queue.
func oursOf(a *bursarv1.Account) *bursarv1.Resource {
	used, usedErr := convert.VectorFromProto(a.GetUsed())
	reserved, reservedErr := convert.VectorFromProto(a.GetReserved())
	if usedErr != nil || reservedErr != nil {
		return nil
	}
	sum := used
	for dimension, n := range reserved.All() {
		before, _ := sum.Get(dimension)
		sum = sum.With(dimension, before+n)
	}
	if sum.IsZero() {
		return nil
	}
	return convert.VectorToProto(sum)
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
		return memoryText(used) + "/" + memoryText(most)
	case used > 0:
		return memoryText(used)
	}
	return ""
}

// quantitiesText writes a vector for the eye: "64GiB, 16 cpu, 2 yarn.io/gpu". What is of
// applications has columns of its own.
func quantitiesText(r *bursarv1.Resource) string {
	if r == nil {
		return ""
	}
	var parts []string
	for _, dimension := range setDimensions(r) {
		if resource.OfApplications(dimension) {
			continue
		}
		text := quantityOf(r, dimension)
		if dimension != resource.Memory {
			text += " " + dimension
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// limitText writes a limit. A dimension that it does not have is not limited.
func limitText(r *bursarv1.Resource) string {
	text := quantitiesText(r)
	if r != nil && text == "" {
		return "unlimited"
	}
	return text
}

// setDimensions lists the dimensions that are set, in the usual order.
func setDimensions(r *bursarv1.Resource) []string { return dimensions(&bursarv1.Account{Limit: r}) }

// applicationsText writes "3/1/100": active, pending, and the limit. If active and pending ones
// are not known apart, it writes their sum.
func applicationsText(q *bursarv1.Queue) string {
	most := ""
	if q.MaxApplications != nil {
		most = "/" + strconv.Itoa(int(q.GetMaxApplications()))
		if q.GetMaxApplications() == unlimitedApplications {
			most = "/unlimited"
		}
	}
	switch {
	case q.Active != nil && q.Pending != nil:
		return fmt.Sprintf("%d/%d%s", q.GetActive(), q.GetPending(), most)
	case q.Applications != nil:
		return strconv.Itoa(int(q.GetApplications())) + most
	case most != "":
		return "?" + most
	}
	return ""
}

// unlimitedApplications is YARN's word for no limit.
const unlimitedApplications = 1<<31 - 1

// percentText writes a share with at most two decimals.
func percentText(share *float64) string {
	if share == nil {
		return ""
	}
	text := strconv.FormatFloat(*share, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + " %"
}

// joined joins the texts that are not empty.
func joined(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), ", ")
}
