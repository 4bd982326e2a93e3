package coordinator

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// queueService serves bursar.v1.QueueService where no provider of external queues is built in: there are none, and none can
// be added.
type queueService struct{}

func noProvider(kind string) error {
	return connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("kind: %q: this coordinator has no provider of that kind", kind))
}

// List reads no queues.
func (queueService) List(context.Context, *bursarv1.QueueServiceListRequest) (*bursarv1.QueueServiceListResponse, error) {
	return &bursarv1.QueueServiceListResponse{}, nil
}

// Get finds no queue.
func (queueService) Get(_ context.Context, req *bursarv1.QueueServiceGetRequest) (*bursarv1.QueueServiceGetResponse, error) {
	return nil, noProvider(req.GetKind())
}

// PutProvider is refused.
func (queueService) PutProvider(_ context.Context, req *bursarv1.PutProviderRequest) (*bursarv1.PutProviderResponse, error) {
	return nil, noProvider(req.GetProvider().GetKind())
}

// DeleteProvider is refused.
func (queueService) DeleteProvider(_ context.Context, req *bursarv1.DeleteProviderRequest) (*bursarv1.DeleteProviderResponse, error) {
	return nil, noProvider(req.GetKind())
}

// ListProviders reads no providers.
func (queueService) ListProviders(context.Context, *bursarv1.ListProvidersRequest) (*bursarv1.ListProvidersResponse, error) {
	return &bursarv1.ListProvidersResponse{}, nil
}

// CheckProvider is refused.
func (queueService) CheckProvider(_ context.Context, req *bursarv1.CheckProviderRequest) (*bursarv1.CheckProviderResponse, error) {
	return nil, noProvider(req.GetProvider().GetKind())
}
