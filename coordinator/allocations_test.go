package coordinator

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const (
	waiting  = bursarv1.AllocationState_ALLOCATION_STATE_WAITING
	reserved = bursarv1.AllocationState_ALLOCATION_STATE_RESERVED
	active   = bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE
	released = bursarv1.AllocationState_ALLOCATION_STATE_RELEASED
	canceled = bursarv1.AllocationState_ALLOCATION_STATE_CANCELED
)

func TestTheLifeOfAnAllocation(t *testing.T) {
	f := start(t, Config{}, nil)
	ctx := t.Context()
	f.host("h1", gib)
	a := f.allocate(request("life", 512*mib))
	if a.GetState() != reserved || a.GetHostId() != "h1" || a.GetHostAddress() != "h1:7071" || a.GetRequestId() != "life" ||
		a.GetEntitled().GetMemoryBytes() != 512*mib || a.GetCaller() != "local" || a.GetExpireTime() == nil || a.GetRevision() == 0 {
		t.Errorf("granted: %v", a)
	}
	if again := f.allocate(request("life", 512*mib)); !proto.Equal(a, again) {
		t.Errorf("the same request again: %v", cmp.Diff(a, again, protocmp.Transform()))
	}
	_, err := f.allocations.Allocate(ctx, request("life", 256*mib))
	if connect.CodeOf(err) != connect.CodeAlreadyExists {
		t.Errorf("another body under the same id: %v", err)
	}

	confirm := &bursarv1.ConfirmRequest{Id: a.GetId(), Process: &bursarv1.Process{Pid: 42, StartTime: 7}, Entitled: memory(256 * mib)}
	c, err := f.allocations.Confirm(ctx, confirm)
	if err != nil || c.GetAllocation().GetState() != active || c.GetAllocation().GetEntitled().GetMemoryBytes() != 256*mib {
		t.Errorf("confirmed: %v, %v", c, err)
	}
	if again, err := f.allocations.Confirm(ctx, confirm); err != nil || !proto.Equal(c, again) {
		t.Errorf("confirmed again: %v, %v", again, err)
	}
	resized, err := f.allocations.Resize(ctx, &bursarv1.ResizeRequest{Id: a.GetId(), Entitled: memory(300 * mib)})
	if err != nil || resized.GetAllocation().GetEntitled().GetMemoryBytes() != 300*mib {
		t.Errorf("resized: %v, %v", resized, err)
	}
	_, err = f.allocations.Resize(ctx, &bursarv1.ResizeRequest{Id: a.GetId(), Entitled: memory(2 * gib)})
	if _, ok := detail[*bursarv1.InsufficientResources](err); !ok {
		t.Errorf("resized beyond the host: %v", err)
	}
	if _, err := f.allocations.Cancel(ctx, &bursarv1.CancelRequest{Id: a.GetId()}); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("canceled while active: %v", err)
	}
	if stopped, err := f.allocations.Stop(ctx, &bursarv1.StopRequest{Id: a.GetId(), Grace: seconds(3)}); err != nil || !stopped.GetAllocation().GetStopping() {
		t.Errorf("stopped: %v, %v", stopped, err)
	}
	orders := f.sync("h1", f.status().GetEpoch(), 2, gib).GetStops()
	if len(orders) != 1 || orders[0].GetAllocationId() != a.GetId() || orders[0].GetGrace().GetSeconds() != 3 {
		t.Errorf("orders to the agent: %v", orders)
	}

	b := f.allocate(request("second", mib))
	code := int32(3)
	r, err := f.allocations.Release(ctx, &bursarv1.ReleaseRequest{Id: b.GetId(), Reason: "done", ExitStatus: &bursarv1.ExitStatus{Code: &code}})
	if err != nil || r.GetAllocation().GetState() != released || r.GetAllocation().GetExitStatus().GetCode() != 3 {
		t.Errorf("released: %v, %v", r, err)
	}
	again, err := f.allocations.Release(ctx, &bursarv1.ReleaseRequest{Id: b.GetId()})
	if err != nil || !proto.Equal(r, again) {
		t.Errorf("released again: %v, %v", again, err)
	}
	if got := f.get(b.GetId()); !proto.Equal(got, r.GetAllocation()) {
		t.Errorf("got %v", got)
	}
	byRequest, err := f.allocations.Get(ctx, &bursarv1.AllocationServiceGetRequest{RequestId: "second"})
	if err != nil || byRequest.GetAllocation().GetId() != b.GetId() {
		t.Errorf("by request id: %v, %v", byRequest, err)
	}
	if repeated := f.allocate(request("second", mib)); repeated.GetId() != b.GetId() || repeated.GetState() != released {
		t.Errorf("the same request after the end: %v", repeated)
	}
	_, err = f.allocations.Confirm(ctx, &bursarv1.ConfirmRequest{Id: b.GetId()})
	if m, ok := detail[*bursarv1.Allocation](err); connect.CodeOf(err) != connect.CodeFailedPrecondition || !ok || m.GetState() != released {
		t.Errorf("confirmed after the end: %v", err)
	}
	if unknown, err := f.allocations.Release(ctx, &bursarv1.ReleaseRequest{Id: unknownID}); err != nil || unknown.GetAllocation() != nil {
		t.Errorf("released what never was: %v, %v", unknown, err)
	}
	f.audited()
}

func TestZerosAreReservedAndGivenBack(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	req := request("zeros", mib)
	req.Resource.CpuMillis = quantity(0)
	a := f.allocate(req)
	if a.GetEntitled().CpuMillis == nil {
		t.Errorf("the zero is gone: %v", a.GetEntitled())
	}
	if _, err := f.allocations.Confirm(t.Context(), &bursarv1.ConfirmRequest{Id: a.GetId(), Entitled: memory(0)}); err != nil {
		t.Fatal(err)
	}
	f.release(a.GetId())
	res, err := f.hosts.Get(t.Context(), &bursarv1.HostServiceGetRequest{Id: "h1"})
	if err != nil {
		t.Fatal(err)
	}
	account := res.GetHost().GetAccount()
	if account.GetUsed().GetMemoryBytes()+account.GetReserved().GetMemoryBytes() != 0 || account.GetAllocations() != 0 {
		t.Errorf("left over: %v", account)
	}
	f.audited()
}

// An engine of no instances would be in no quota of instances.
func TestAnEngineOfNoInstancesIsRefused(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	refused := func(field, value string, err error) {
		t.Helper()
		if connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), field+`: "`+value+`": want 1 or more`) {
			t.Errorf("got %v, want %s refused", err, field)
		}
	}
	none := request("none", mib)
	none.Resource.Instances = quantity(0)
	_, err := f.allocations.Allocate(t.Context(), none)
	refused("resource.instances", "0", err)

	a := f.allocate(request("one", mib))
	entitled := &bursarv1.Resource{Instances: quantity(0)}
	_, err = f.allocations.Confirm(t.Context(), &bursarv1.ConfirmRequest{Id: a.GetId(), Entitled: entitled})
	refused("entitled.instances", "0", err)
	_, err = f.allocations.Resize(t.Context(), &bursarv1.ResizeRequest{Id: a.GetId(), Entitled: entitled})
	refused("entitled.instances", "0", err)
}

func TestAllocationsOutliveARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	f := start(t, Config{}, openSQLite(t, path))
	f.host("h1", gib)
	a := f.allocate(request("kept", 512*mib))
	ended := f.allocate(request("ended", mib))
	f.release(ended.GetId())
	async := request("async", gib)
	async.Wait, async.Async = seconds(3600), true
	w := f.allocate(async)
	if w.GetState() != waiting {
		t.Fatalf("got %v", w)
	}
	epoch := f.status().GetEpoch()
	f.stop()

	f = start(t, Config{}, openSQLite(t, path))
	if s := f.status(); s.GetEpoch() <= epoch || s.GetReserved() != 1 || s.GetWaiting() != 1 || s.GetHostsReturning() != 1 {
		t.Errorf("after the restart: %v", s)
	}
	if again := f.allocate(request("kept", 512*mib)); again.GetId() != a.GetId() {
		t.Errorf("the same request got %s, then %s", a.GetId(), again.GetId())
	}
	if again := f.allocate(request("ended", mib)); again.GetId() != ended.GetId() || again.GetState() != released {
		t.Errorf("the same request got %s, then %v", ended.GetId(), again)
	}
	_, err := f.allocations.Allocate(t.Context(), request("ended", 2*mib))
	if connect.CodeOf(err) != connect.CodeAlreadyExists {
		t.Errorf("another body under the id of one that ended: %v", err)
	}
	f.host("h1", gib)
	if b := f.allocate(request("new", mib)); b.GetId() == a.GetId() || b.GetRevision() <= a.GetRevision() {
		t.Errorf("a new one: %v", b)
	}
	f.audited()
}

func TestARefusalNamesEveryAccountThatIsShort(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	f.put(&bursarv1.Quota{Selector: map[string]string{"user": "*"}, Limit: memory(100 * mib)})
	f.allocate(request("a", 90*mib))
	req := request("b", 50*mib)
	_, err := f.allocations.Allocate(t.Context(), req)
	m, ok := detail[*bursarv1.InsufficientResources](err)
	if !ok || m.GetReason() != "refused" || len(m.GetShortfalls()) != 1 {
		t.Fatalf("got %v: %v", err, m)
	}
	want := &bursarv1.Shortfall{
		Account:   &bursarv1.AccountName{Kind: bursarv1.AccountKind_ACCOUNT_KIND_QUOTA, Labels: map[string]string{"user": "alice"}},
		Dimension: "memory", Requested: 50 * mib, Available: 10 * mib, Limit: 100 * mib,
	}
	if diff := cmp.Diff(want, m.GetShortfalls()[0], protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	x, err := f.allocations.Explain(t.Context(), &bursarv1.ExplainRequest{Request: req})
	if err != nil || x.GetVerdict() != bursarv1.ExplainResponse_VERDICT_WAITS {
		t.Errorf("explained: %v, %v", x, err)
	}
	req.Resource = memory(200 * mib)
	if x, err = f.allocations.Explain(t.Context(), &bursarv1.ExplainRequest{Request: req}); err != nil || x.GetVerdict() != bursarv1.ExplainResponse_VERDICT_NEVER {
		t.Errorf("explained: %v, %v", x, err)
	}
	req.Resource = memory(mib)
	if x, err = f.allocations.Explain(t.Context(), &bursarv1.ExplainRequest{Request: req}); err != nil ||
		x.GetVerdict() != bursarv1.ExplainResponse_VERDICT_FITS || x.GetHostId() != "h1" || f.status().GetReserved() != 1 {
		t.Errorf("explained: %v, %v", x, err)
	}
}

func TestActorsAreBelievedOverLoopbackAlone(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	as := func(actor identity.Actor) context.Context {
		ctx, info := connect.NewClientContext(t.Context())
		info.RequestHeader().Set(identity.Header, actor.Encode())
		return ctx
	}
	alice := identity.Actor{Name: "alice@h1", Users: []string{"alice"}}
	res, err := f.allocations.Allocate(as(alice), request("r", mib))
	if err != nil || res.GetAllocation().GetCaller() != "alice@h1" {
		t.Fatalf("got %v, %v", res, err)
	}
	id := res.GetAllocation().GetId()
	bob := identity.Actor{Name: "bob@h1", Users: []string{"bob"}}
	if _, err := f.allocations.Allocate(as(bob), request("r", mib)); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("bob as alice: %v", err)
	}
	if _, err := f.allocations.Confirm(as(bob), &bursarv1.ConfirmRequest{Id: id}); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("bob confirms alice's: %v", err)
	}
	if _, err := f.allocations.Release(as(bob), &bursarv1.ReleaseRequest{Id: id}); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("bob releases alice's: %v", err)
	}
	if _, err := f.hosts.Cordon(as(alice), &bursarv1.CordonRequest{HostId: "h1"}); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("alice cordons: %v", err)
	}
	if _, err := f.quotas.Put(as(alice), &bursarv1.PutRequest{Quota: &bursarv1.Quota{}}); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("alice sets a quota: %v", err)
	}
	urgent := request("urgent", mib)
	urgent.Priority = 5
	if _, err := f.allocations.Allocate(as(alice), urgent); connect.CodeOf(err) != connect.CodePermissionDenied {
		t.Errorf("alice sets a priority: %v", err)
	}
	ctx, info := connect.NewClientContext(t.Context())
	info.RequestHeader().Set(identity.Header, "{")
	if _, err := f.allocations.Allocate(ctx, request("x", mib)); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("a malformed actor: %v", err)
	}
}
