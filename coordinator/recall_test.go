package coordinator

import (
	"context"
	"testing"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// unlistedStore lists no remembered request ids: it can only be asked for one.
type unlistedStore struct{ store.Store }

func (unlistedStore) Remembered(ctx context.Context, _ store.Position, _ ledger.Instant, _ int) ([]ledger.Remembered, store.Position, error) {
	<-ctx.Done()
	return nil, store.Position{}, ctx.Err()
}

// A new leader answers for what ended before it, by request id, before it knows all request ids.
func TestANewLeaderAnswersForRequestIDsThatItDoesNotKnowYet(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m := startTeam(t, 2, func(_ int, s store.Store) store.Store { return unlistedStore{s} })
	before, _ := m.led()
	before.host("h", gib)
	ended := before.allocate(request("ended", mib))
	if _, err := before.allocations.Release(ctx, &bursarv1.ReleaseRequest{Id: ended.GetId()}); err != nil {
		t.Fatal(err)
	}
	m.bar(before.url, true)
	m.takeAway()
	f, _ := m.led()
	if f == before {
		t.Fatal("nobody else leads")
	}
	repeated, err := f.allocations.Allocate(ctx, request("ended", mib))
	if err != nil || repeated.GetAllocation().GetId() != ended.GetId() || repeated.GetAllocation().GetState() != released {
		t.Errorf("the same request: %v, %v", repeated, err)
	}
	if _, err := f.allocations.Allocate(ctx, request("ended", 2*mib)); connect.CodeOf(err) != connect.CodeAlreadyExists {
		t.Errorf("another request under the same id: %v", err)
	}
	got, err := f.allocations.Get(ctx, &bursarv1.AllocationServiceGetRequest{RequestId: "ended"})
	if err != nil || got.GetAllocation().GetId() != ended.GetId() {
		t.Errorf("get: %v, %v", got, err)
	}
	canceled, err := f.allocations.Cancel(ctx, &bursarv1.CancelRequest{RequestId: "ended"})
	if err != nil || canceled.GetAllocation().GetId() != ended.GetId() {
		t.Errorf("cancel: %v, %v", canceled, err)
	}
	if unknown, err := f.allocations.Cancel(ctx, &bursarv1.CancelRequest{RequestId: "never"}); err != nil || unknown.GetAllocation() != nil {
		t.Errorf("cancel of what never was: %v, %v", unknown, err)
	}
	list, err := f.allocations.List(ctx, &bursarv1.AllocationServiceListRequest{Ended: true})
	if err != nil || len(list.GetAllocations()) != 1 || list.GetAllocations()[0].GetId() != ended.GetId() {
		t.Errorf("list: %v, %v", list, err)
	}
}
