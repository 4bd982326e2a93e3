package wire

import (
	"strings"

	"github.com/bursar/bursar/coordinator/ledger"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// AddressText returns the form of an address in a page token.
func AddressText(a resource.Address) string {
	return strings.Join([]string{a.Kind, a.Cluster, a.Path, a.Partition}, "\x00")
}

// AddressFrom is the inverse of AddressText; the empty text is the place before the first.
func AddressFrom(text string) (resource.Address, bool) {
	if text == "" {
		return resource.Address{}, true
	}
	parts := strings.Split(text, "\x00")
	if len(parts) != 4 {
		return resource.Address{}, false
	}
	return resource.Address{Kind: parts[0], Cluster: parts[1], Path: parts[2], Partition: parts[3]}, true
}

// QueueMessage converts a queue.
func QueueMessage(q *ledger.QueueInfo) *bursarv1.Queue {
	m := ReportMessage(&q.Report)
	m.Kind, m.Cluster, m.Path, m.Partition = q.Address.Kind, q.Address.Cluster, q.Address.Path, q.Address.Partition
	m.Parent, m.Account = q.Parent, AccountMessage(&q.Account)
	m.SnapshotTime, m.Unavailable = TimeMessage(q.Asked), q.Unavailable
	if q.Unavailable == "" {
		m.Available = VectorMessage(q.Available)
	}
	return m
}

// UnaddressableMessage converts a queue that no request can name.
func UnaddressableMessage(kind, cluster string, u *ledger.UnaddressableQueue, asked ledger.Instant) *bursarv1.Queue {
	path := u.Name
	if u.Parent != "" {
		path = u.Parent + "." + u.Name
	}
	return &bursarv1.Queue{
		Kind: kind, Cluster: cluster, Path: path, Parent: u.Parent, Partition: u.Partition, SnapshotTime: TimeMessage(asked),
		Unaddressable: u.Reason, Unavailable: "no request can name it: " + u.Reason,
	}
}

// ReportMessage converts a cluster's report of a queue.
func ReportMessage(r *ledger.QueueReport) *bursarv1.Queue {
	return &bursarv1.Queue{
		Path: r.Path, Partition: r.Partition, Parent: r.Parent, State: r.State, CreatesChildren: r.CreatesChildren, LeavesOnly: r.LeavesOnly,
		Used: VectorMessage(r.Used), Guaranteed: VectorMessage(r.Guaranteed),
		AbsoluteCapacity: r.AbsoluteCapacity, AbsoluteMaxCapacity: r.AbsoluteMaxCapacity,
		Applications: r.Applications, Pending: r.Pending, Active: r.Active, MaxApplications: r.MaxApplications,
	}
}
