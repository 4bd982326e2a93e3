package client

import (
	"context"
	"iter"

	"google.golang.org/protobuf/proto"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// ListAllocations yields the pages of the requested allocations, until the last one or the first
// error.
func (c *Client) ListAllocations(
	ctx context.Context, req *bursarv1.AllocationServiceListRequest,
) iter.Seq2[*bursarv1.AllocationServiceListResponse, error] {
	return pages(req, func(req *bursarv1.AllocationServiceListRequest, token string) (*bursarv1.AllocationServiceListResponse, error) {
		req.PageToken = token
		return c.allocations.List(ctx, req)
	})
}

// ListHosts yields the pages of the requested hosts, until the last one or the first error.
func (c *Client) ListHosts(
	ctx context.Context, req *bursarv1.HostServiceListRequest,
) iter.Seq2[*bursarv1.HostServiceListResponse, error] {
	return pages(req, func(req *bursarv1.HostServiceListRequest, token string) (*bursarv1.HostServiceListResponse, error) {
		req.PageToken = token
		return c.hosts.List(ctx, req)
	})
}

// ListQuotas yields the pages of the quotas, until the last one or the first error. All rules come
// before the first account.
func (c *Client) ListQuotas(
	ctx context.Context, req *bursarv1.QuotaServiceListRequest,
) iter.Seq2[*bursarv1.QuotaServiceListResponse, error] {
	return pages(req, func(req *bursarv1.QuotaServiceListRequest, token string) (*bursarv1.QuotaServiceListResponse, error) {
		req.PageToken = token
		return c.quotas.List(ctx, req)
	})
}

// ListQueues yields the pages of the requested queues, until the last one or the first error.
func (c *Client) ListQueues(
	ctx context.Context, req *bursarv1.QueueServiceListRequest,
) iter.Seq2[*bursarv1.QueueServiceListResponse, error] {
	return pages(req, func(req *bursarv1.QueueServiceListRequest, token string) (*bursarv1.QueueServiceListResponse, error) {
		req.PageToken = token
		return c.queues.List(ctx, req)
	})
}

// pages requests one page after the other with a copy of the request.
func pages[Q any, R any, QP interface {
	*Q
	proto.Message
	GetPageToken() string
}, RP interface {
	*R
	GetNextPageToken() string
}](
	req QP, get func(req QP, token string) (RP, error),
) iter.Seq2[RP, error] {
	return func(yield func(RP, error) bool) {
		next := QP(new(Q))
		if req != nil {
			next = proto.CloneOf(req)
		}
		token := next.GetPageToken()
		for {
			page, err := get(next, token)
			if err != nil {
				yield(nil, err)
				return
			}
			token = page.GetNextPageToken()
			if !yield(page, nil) || token == "" {
				return
			}
		}
	}
}
