package coordinator

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestAWaitGoesOnOverARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	f := start(t, Config{}, openSQLite(t, path))
	f.host("h1", gib)
	holder := f.allocate(request("holder", gib))
	answers := make(chan error, 1)
	wait := func(f *fixture) {
		req := request("waits", gib)
		req.Wait = seconds(60)
		_, err := f.allocations.Allocate(context.Background(), req)
		answers <- err
	}
	go wait(f)
	eventually(t, "one waits", func() bool { return f.status().GetWaiting() == 1 })
	id := f.waiter().GetId()
	f.stop()
	if err := <-answers; connect.CodeOf(err) != connect.CodeUnavailable {
		t.Fatalf("while it shuts down: %v", err)
	}

	f = start(t, Config{}, openSQLite(t, path))
	go wait(f)
	f.host("h1", gib)
	f.release(holder.GetId())
	if err := <-answers; err != nil {
		t.Fatal(err)
	}
	if a := f.waiter(); a.GetId() != id || a.GetState() != reserved {
		t.Errorf("got %v: want %s", a, id)
	}
	f.audited()
}

func TestAWaitingRequestIsGrantedWhenAnotherEnds(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	holder := f.allocate(request("holder", gib))
	granted := make(chan *bursarv1.Allocation, 1)
	go func() {
		req := request("waits", gib)
		req.Wait = seconds(60)
		res, err := f.allocations.Allocate(context.Background(), req)
		if err != nil {
			t.Error(err)
		}
		granted <- res.GetAllocation()
	}()
	eventually(t, "one waits", func() bool { return f.status().GetWaiting() == 1 })
	x, err := f.allocations.Explain(t.Context(), &bursarv1.ExplainRequest{Id: f.waiter().GetId()})
	if err != nil || x.GetVerdict() != bursarv1.ExplainResponse_VERDICT_WAITS || len(x.GetShortfalls()) == 0 || x.GetSummary() == "" {
		t.Errorf("explained: %v, %v", x, err)
	}
	f.release(holder.GetId())
	if a := <-granted; a.GetState() != reserved || a.GetHostId() != "h1" {
		t.Errorf("got %v", a)
	}
	f.audited()
}

// A request may name a host that is not there yet. It is not now: it waits until that host comes.
func TestARequestWaitsForAHostThatIsToCome(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	named := func(id string) *bursarv1.AllocateRequest {
		req := request(id, mib)
		req.Host = &bursarv1.HostWishes{Id: "h2"}
		return req
	}
	_, err := f.allocations.Allocate(t.Context(), named(""))
	refused, _ := detail[*bursarv1.InsufficientResources](err)
	if connect.CodeOf(err) != connect.CodeResourceExhausted || refused.GetVerdict() != bursarv1.InsufficientResources_VERDICT_NOT_NOW {
		t.Fatalf("without a wait: %v, %v", err, refused)
	}
	if s := refused.GetShortfalls(); len(s) != 1 || s[0].GetAccount().GetLabels()["host"] != "h2" || s[0].GetDetail() != "there is no such host yet" {
		t.Errorf("without a wait: %v", refused)
	}
	granted := make(chan *bursarv1.Allocation, 1)
	go func() {
		req := named("waits")
		req.Wait = seconds(60)
		res, err := f.allocations.Allocate(context.Background(), req)
		if err != nil {
			t.Error(err)
		}
		granted <- res.GetAllocation()
	}()
	eventually(t, "one waits", func() bool { return f.status().GetWaiting() == 1 })
	if why := f.waiter().GetReason(); why != "waits for host h2: there is no such host yet" {
		t.Errorf("it %s", why)
	}
	f.host("h2", gib)
	if a := <-granted; a.GetState() != reserved || a.GetHostId() != "h2" {
		t.Errorf("got %v", a)
	}
	f.audited()
}

// waiter reads the allocation with the request id "waits".
func (f *fixture) waiter() *bursarv1.Allocation {
	f.tb.Helper()
	res, err := f.allocations.Get(f.tb.Context(), &bursarv1.AllocationServiceGetRequest{RequestId: "waits"})
	if err != nil {
		f.tb.Fatal(err)
	}
	return res.GetAllocation()
}

func TestAWaitThatIsCanceledSaysSo(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	f.allocate(request("holder", gib))
	answer := make(chan error, 1)
	go func() {
		req := request("waits", gib)
		req.Wait = seconds(60)
		_, err := f.allocations.Allocate(context.Background(), req)
		answer <- err
	}()
	eventually(t, "one waits", func() bool { return f.status().GetWaiting() == 1 })
	res, err := f.allocations.Cancel(t.Context(), &bursarv1.CancelRequest{RequestId: "waits", Reason: "not needed"})
	if err != nil || res.GetAllocation().GetState() != canceled {
		t.Fatalf("got %v, %v", res, err)
	}
	if err := <-answer; connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("the caller got %v", err)
	}
	again, err := f.allocations.Cancel(t.Context(), &bursarv1.CancelRequest{RequestId: "waits"})
	if err != nil || again.GetAllocation().GetState() != canceled {
		t.Errorf("canceled again: %v, %v", again, err)
	}
}

func TestARepeatAfterTheEndIsAnsweredAsTheFirstTime(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	f.allocate(request("holder", gib))
	short := request("waits", gib)
	short.Wait = &durationpb.Duration{Nanos: 10e6}
	for range 2 {
		_, err := f.allocations.Allocate(t.Context(), short)
		if m, ok := detail[*bursarv1.InsufficientResources](err); !ok || m.GetReason() != "waited" || len(m.GetShortfalls()) != 1 || !strings.Contains(err.Error(), "host h1: memory") {
			t.Errorf("a wait that is over: %v", err)
		}
	}
	gone := request("gone", gib)
	gone.Wait, gone.Async = seconds(60), true
	id := f.allocate(gone).GetId()
	if _, err := f.allocations.Cancel(t.Context(), &bursarv1.CancelRequest{Id: id}); err != nil {
		t.Fatal(err)
	}
	_, err := f.allocations.Allocate(t.Context(), gone)
	if m, ok := detail[*bursarv1.Allocation](err); connect.CodeOf(err) != connect.CodeFailedPrecondition || !ok || m.GetState() != canceled {
		t.Errorf("a request that was canceled: %v", err)
	}
	x, err := f.allocations.Explain(t.Context(), &bursarv1.ExplainRequest{Id: id})
	if err != nil || x.GetVerdict() != bursarv1.ExplainResponse_VERDICT_DECIDED || x.GetAllocation().GetState() != canceled {
		t.Errorf("explained: %v, %v", x, err)
	}
}

// A grant that its host's agent took back is a request that waits again. Its wait may be over then.
func TestAWaitThatIsOverAfterAVetoIsRefused(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", 2*gib)
	req := request("vetoed", gib)
	req.Wait, req.Async = &durationpb.Duration{Nanos: 300e6}, true
	granted, canceledLater := f.allocate(req), request("canceled", gib)
	canceledLater.Wait, canceledLater.Async = seconds(60), true
	second := f.allocate(canceledLater)
	if _, err := f.hosts.Sync(t.Context(), &bursarv1.SyncRequest{
		HostId: "h1", Incarnation: 1, Sequence: 2, Epoch: f.status().GetEpoch(), BootId: "boot",
		Sample: &bursarv1.HostSample{MemoryTotalBytes: quantity(2 * gib), MemoryAvailableBytes: quantity(0), MemorySafetyBytes: quantity(0)},
		Vetoes: []*bursarv1.Veto{{AllocationId: granted.GetId(), Revision: granted.GetRevision()}, {AllocationId: second.GetId(), Revision: second.GetRevision()}},
	}); err != nil {
		t.Fatal(err)
	}
	if a := f.get(second.GetId()); a.GetState() != waiting || a.GetReserveTime() != nil {
		t.Errorf("it waits again: %v", a)
	}
	eventually(t, "the wait is over", func() bool {
		return f.get(granted.GetId()).GetState() == bursarv1.AllocationState_ALLOCATION_STATE_EXPIRED
	})
	_, err := f.allocations.Allocate(t.Context(), req)
	m, ok := detail[*bursarv1.InsufficientResources](err)
	if connect.CodeOf(err) != connect.CodeResourceExhausted || !ok || m.GetReason() != "waited" || len(m.GetShortfalls()) != 1 {
		t.Errorf("a repeat after its end: %v", err)
	}
	if _, err := f.allocations.Cancel(t.Context(), &bursarv1.CancelRequest{Id: second.GetId()}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.allocations.Allocate(t.Context(), canceledLater); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("a repeat after it was canceled while it waited: %v", err)
	}
}

func TestADeadlineShorterThanTheWaitKeepsThePlace(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	holder := f.allocate(request("holder", gib))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	req := request("waits", gib)
	req.Wait = seconds(60)
	if _, err := f.allocations.Allocate(ctx, req); connect.CodeOf(err) != connect.CodeDeadlineExceeded {
		t.Errorf("got %v", err)
	}
	if n := f.status().GetWaiting(); n != 1 {
		t.Errorf("%d waiting: want 1", n)
	}
	f.release(holder.GetId())
	if a := f.waiter(); a.GetState() != waiting {
		t.Errorf("granted to nobody: %v", a)
	}
	if a := f.allocate(req); a.GetState() != reserved {
		t.Errorf("got %v", a)
	}
}
