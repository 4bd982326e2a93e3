package coordinator

import (
	"context"

	"github.com/bursar/bursar/coordinator/clusters"
	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/wire"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/resource"
)

// queueService serves bursar.v1.QueueService. Its procedures for providers are in providers.go and
// providercheck.go.
type queueService struct {
	loop    *commit.Loop
	pollers *clusters.Pollers
}

// List reads queues page by page, by address. A coordinator that does not lead, and may answer,
// knows our grants in queues, but not the clusters' reports.
func (s *queueService) List(ctx context.Context, req *bursarv1.QueueServiceListRequest) (*bursarv1.QueueServiceListResponse, error) {
	f := wire.NewFingerprint()
	f.Text(req.GetKind())
	f.Text(req.GetCluster())
	query := uint64(f)
	place, err := wire.PagePlace(query, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	after, ok := wire.AddressFrom(place)
	if !ok {
		return nil, wire.ErrPageToken
	}
	// unreported counts the queues that were left out: before each queue that was found, and in
	// all.
	var unreported struct {
		before      []int32
		kept, other int32
	}
	keep := func(q *ledger.QueueInfo) bool {
		if req.GetKind() != "" && q.Address.Kind != req.GetKind() || req.GetCluster() != "" && q.Address.Cluster != req.GetCluster() {
			return false
		}
		if most := req.GetMaxUnreported(); most > 0 && q.Report.Path == "" {
			if unreported.kept == most {
				unreported.other++
				return false
			}
			unreported.kept++
		}
		unreported.before = append(unreported.before, unreported.other)
		return true
	}
	page, err := commit.Scan(ctx, s.loop.Reader(req.GetAllowStale()), after, wire.PageSize(req.GetPageSize()), commit.QueuesWhere(keep))
	if err != nil {
		return nil, err
	}
	res := &bursarv1.QueueServiceListResponse{LeftOut: unreported.other}
	res.Queues, _ = wire.FillPage(page.Found, wire.PageBytes, wire.QueueMessage)
	if n := len(res.Queues); n < len(page.Found) {
		page.Place, page.More = page.Found[n-1].Address, true
		res.LeftOut = unreported.before[n-1]
	}
	if page.More {
		res.NextPageToken = wire.PageToken(query, wire.AddressText(page.Place))
		return res, nil
	}
	return res, s.addUnaddressable(ctx, req, res)
}

// mostUnaddressable bounds the queues without an address in one answer.
const mostUnaddressable = 512

// addUnaddressable adds the queues that no request can name. They have no address, so the pages do
// not have them.
func (s *queueService) addUnaddressable(ctx context.Context, req *bursarv1.QueueServiceListRequest, res *bursarv1.QueueServiceListResponse) error {
	list, err := commit.Decide(ctx, s.loop.Reader(req.GetAllowStale()), func(l *ledger.Ledger, _ ledger.Instant) ([]ledger.ClusterInfo, error) {
		return l.Clusters(), nil
	})
	if err != nil {
		return err
	}
	added := 0
	for i := range list {
		c := &list[i]
		if req.GetKind() != "" && c.Kind != req.GetKind() || req.GetCluster() != "" && c.Cluster != req.GetCluster() {
			continue
		}
		if c.Unaddressable == nil {
			continue
		}
		res.MoreUnaddressable += int32(c.Unaddressable.More) //nolint:gosec // bounded by the provider
		for j := range c.Unaddressable.Listed {
			if added == mostUnaddressable {
				res.MoreUnaddressable++
				continue
			}
			added++
			res.Queues = append(res.Queues, wire.UnaddressableMessage(c.Kind, c.Cluster, &c.Unaddressable.Listed[j], c.Asked))
		}
	}
	return nil
}

// Get reads one queue. It finds it as a request would: without a cluster in the default one, by
// its full path or its last element.
func (s *queueService) Get(ctx context.Context, req *bursarv1.QueueServiceGetRequest) (*bursarv1.QueueServiceGetResponse, error) {
	at := resource.Address{Kind: req.GetKind(), Cluster: req.GetCluster(), Path: req.GetPath(), Partition: req.GetPartition()}
	q, err := commit.Decide(ctx, s.loop.Reader(req.GetAllowStale()), func(l *ledger.Ledger, _ ledger.Instant) (ledger.QueueInfo, error) {
		return l.Queue(at)
	})
	if err != nil {
		return nil, err
	}
	return &bursarv1.QueueServiceGetResponse{Queue: wire.QueueMessage(&q)}, nil
}
