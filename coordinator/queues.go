package coordinator

import (
	"context"
	"strings"

	"github.com/bursar/bursar/coordinator/ledger"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// queueService serves bursar.v1.QueueService. What is about providers stands in providers.go and providercheck.go.
type queueService struct {
	writer  *writer
	pollers *pollers
}

// List reads queues page by page, by address. A coordinator that does not lead, and may answer, knows what we were granted in queues, and
// nothing of what their clusters say.
func (s *queueService) List(ctx context.Context, req *bursarv1.QueueServiceListRequest) (*bursarv1.QueueServiceListResponse, error) {
	f := newFingerprint()
	f.text(req.GetKind())
	f.text(req.GetCluster())
	query := uint64(f)
	place, err := pagePlace(query, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	after, ok := addressFrom(place)
	if !ok {
		return nil, errPageToken
	}
	keep := func(q *ledger.QueueInfo) bool {
		return (req.GetKind() == "" || q.Address.Kind == req.GetKind()) && (req.GetCluster() == "" || q.Address.Cluster == req.GetCluster())
	}
	page, err := scan(ctx, s.writer.reads(req.GetAllowStale()), after, pageSize(req.GetPageSize()), queuesWhere(keep))
	if err != nil {
		return nil, err
	}
	res := &bursarv1.QueueServiceListResponse{}
	res.Queues, _ = fill(page.found, pageBytes, queueMessage)
	if n := len(res.Queues); n < len(page.found) {
		page.place, page.more = page.found[n-1].Address, true
	}
	if page.more {
		res.NextPageToken = pageToken(query, addressText(page.place))
	}
	return res, nil
}

// addressText is an address as a page token has it.
func addressText(a resource.Address) string {
	return strings.Join([]string{a.Kind, a.Cluster, a.Path, a.Partition}, "\x00")
}

// addressFrom is the way back; the empty text is the place before the first.
func addressFrom(text string) (resource.Address, bool) {
	if text == "" {
		return resource.Address{}, true
	}
	parts := strings.Split(text, "\x00")
	if len(parts) != 4 {
		return resource.Address{}, false
	}
	return resource.Address{Kind: parts[0], Cluster: parts[1], Path: parts[2], Partition: parts[3]}, true
}

// Get reads one queue. It is found as a request for it would find it: without a cluster in the default one, by its full path or its last
// element.
func (s *queueService) Get(ctx context.Context, req *bursarv1.QueueServiceGetRequest) (*bursarv1.QueueServiceGetResponse, error) {
	at := resource.Address{Kind: req.GetKind(), Cluster: req.GetCluster(), Path: req.GetPath(), Partition: req.GetPartition()}
	q, err := decide(ctx, s.writer.reads(req.GetAllowStale()), func(l *ledger.Ledger, _ ledger.Instant) (ledger.QueueInfo, error) {
		return l.Queue(at)
	})
	if err != nil {
		return nil, err
	}
	return &bursarv1.QueueServiceGetResponse{Queue: queueMessage(&q)}, nil
}

// queueMessage is a queue as the API shows it.
func queueMessage(q *ledger.QueueInfo) *bursarv1.Queue {
	m := reportMessage(&q.Report)
	m.Kind, m.Cluster, m.Path, m.Partition = q.Address.Kind, q.Address.Cluster, q.Address.Path, q.Address.Partition
	m.Parent, m.Account = q.Parent, accountMessage(&q.Account)
	m.SnapshotTime, m.Unavailable = timeMessage(q.Asked), q.Unavailable
	if q.Unavailable == "" {
		m.Available = vectorMessage(q.Available)
	}
	return m
}

// reportMessage is what a cluster says of a queue.
func reportMessage(r *ledger.QueueReport) *bursarv1.Queue {
	return &bursarv1.Queue{
		Path: r.Path, Partition: r.Partition, Parent: r.Parent, State: r.State, CreatesChildren: r.CreatesChildren,
		Used: vectorMessage(r.Used), Guaranteed: vectorMessage(r.Guaranteed),
		AbsoluteCapacity: r.AbsoluteCapacity, AbsoluteMaxCapacity: r.AbsoluteMaxCapacity,
		Applications: r.Applications, Pending: r.Pending, Active: r.Active, MaxApplications: r.MaxApplications,
	}
}
