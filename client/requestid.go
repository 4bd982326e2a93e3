package client

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// NewRequestID mints a request id: 128 random bits as 26 characters of a-z and 2-7.
func NewRequestID() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the program instead
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(random[:])
	return strings.ToLower(text)
}

// allocations gives every Allocate a request id.
type allocations struct {
	bursarv1connect.AllocationServiceClient
}

// Allocate does not change the caller's message: a message that is used again is another request.
func (a allocations) Allocate(ctx context.Context, req *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
	if req.GetRequestId() != "" {
		return a.AllocationServiceClient.Allocate(ctx, req)
	}
	req = proto.CloneOf(req)
	if req == nil {
		req = &bursarv1.AllocateRequest{}
	}
	req.RequestId = NewRequestID()
	res, err := a.AllocationServiceClient.Allocate(ctx, req)
	if Undecided(err) {
		a.cancelUndecided(ctx, req.GetRequestId())
	}
	return res, err
}

// cancelTimeout bounds the cancellation of a request that is given up.
const cancelTimeout = 3 * time.Second

// cancelUndecided cancels a request that may wait or may have been granted, whatever became of
// ctx.
func (a allocations) cancelUndecided(ctx context.Context, requestID string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	_, _ = a.Cancel(ctx, &bursarv1.CancelRequest{RequestId: requestID, Reason: "caller gave up"})
}
