package client

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// NewRequestID makes a request id: the time in milliseconds (48 bits), then 80 random bits, as 26
// characters of 0-9 and a-v. Later ids sort after earlier ones as text, so a store writes them next
// to each other in its index; unordered ids cost it a page each (ADR 56).
func NewRequestID() string {
	var milliseconds [8]byte
	binary.BigEndian.PutUint64(milliseconds[:], uint64(time.Now().UnixMilli()))
	var id [16]byte
	copy(id[:6], milliseconds[2:])
	_, _ = rand.Read(id[6:]) // never fails: crypto/rand ends the program instead
	return strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(id[:]))
}

// allocations gives every Allocate a request id.
type allocations struct {
	bursarv1connect.AllocationServiceClient
}

// Allocate does not change the caller's message: if the caller sends it again, that is another
// request.
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

// cancelTimeout bounds the cancellation of an abandoned request.
const cancelTimeout = 3 * time.Second

// cancelUndecided cancels a request that may wait or may have been granted, even if ctx is over.
func (a allocations) cancelUndecided(ctx context.Context, requestID string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	_, _ = a.Cancel(ctx, &bursarv1.CancelRequest{RequestId: requestID, Reason: "caller gave up"})
}
