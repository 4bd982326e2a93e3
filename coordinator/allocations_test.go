package coordinator

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/identity"
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
	req.Resource.CpuMillis, req.Resource.Instances = quantity(0), quantity(0)
	a := f.allocate(req)
	if a.GetEntitled().CpuMillis == nil || a.GetEntitled().Instances == nil {
		t.Errorf("the zeros are gone: %v", a.GetEntitled())
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
		if m, ok := detail[*bursarv1.InsufficientResources](err); !ok || m.GetReason() != "waited" {
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

func TestListsArePagedAndFiltered(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	f.host("h2", gib)
	var all, mine, ended []string
	for i := range 25 {
		req := request(fmt.Sprint("r", i), mib)
		req.Host = &bursarv1.HostWishes{Id: fmt.Sprint("h", 1+i%2)}
		if i%5 == 0 {
			req.Labels["user"] = "bob"
		}
		a := f.allocate(req)
		if i%3 == 0 {
			f.release(a.GetId())
			ended = append(ended, a.GetId())
			continue
		}
		all = append(all, a.GetId())
		if i%5 == 0 {
			mine = append(mine, a.GetId())
		}
	}
	slices.Reverse(ended) // the latest first
	check := func(name string, req *bursarv1.AllocationServiceListRequest, want []string) {
		t.Helper()
		for _, size := range []int32{0, 1, 7, 1000} {
			req.PageSize, req.PageToken = size, ""
			var got []string
			for range 100 {
				res, err := f.allocations.List(t.Context(), req)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if size > 0 && len(res.GetAllocations()) > int(size) {
					t.Errorf("%s: a page of %d: want at most %d", name, len(res.GetAllocations()), size)
				}
				for _, a := range res.GetAllocations() {
					got = append(got, a.GetId())
				}
				if res.GetRevision() == 0 {
					t.Errorf("%s: no revision", name)
				}
				if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
					break
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s in pages of %d (-want +got):\n%s", name, size, diff)
			}
		}
	}
	list := func(change func(*bursarv1.AllocationServiceListRequest)) *bursarv1.AllocationServiceListRequest {
		req := &bursarv1.AllocationServiceListRequest{}
		change(req)
		return req
	}
	check("all that live", list(func(*bursarv1.AllocationServiceListRequest) {}), all)
	check("of a user", list(func(r *bursarv1.AllocationServiceListRequest) { r.Labels = map[string]string{"user": "bob"} }), mine)
	check("with any user", list(func(r *bursarv1.AllocationServiceListRequest) { r.Labels = map[string]string{"user": "*"} }), all)
	check("with a label that none has", list(func(r *bursarv1.AllocationServiceListRequest) { r.Labels = map[string]string{"x": "*"} }), nil)
	check("active", list(func(r *bursarv1.AllocationServiceListRequest) { r.States = []bursarv1.AllocationState{active} }), nil)
	check("by prefix", list(func(r *bursarv1.AllocationServiceListRequest) { r.IdPrefix = all[3][:12] }), all[3:4])
	check("with the history", list(func(r *bursarv1.AllocationServiceListRequest) { r.Ended = true }), slices.Concat(all, ended))
	check("the history alone", list(func(r *bursarv1.AllocationServiceListRequest) {
		r.States = []bursarv1.AllocationState{released, canceled}
	}), ended)

	res, err := f.allocations.List(t.Context(), &bursarv1.AllocationServiceListRequest{PageSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.allocations.List(t.Context(), &bursarv1.AllocationServiceListRequest{PageToken: res.GetNextPageToken(), HostId: "h1"})
	if fieldOf(err) != "page_token" {
		t.Errorf("a token of another query: %v", err)
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
	for peer, local := range map[string]bool{
		"127.0.0.1:5": true, "[::1]:5": true, "[::ffff:127.0.0.1]:5": true, "pipe": true, "@": true, "": true,
		"10.0.0.1:5": false, "[2001:db8::1]:5": false, "192.168.1.9:80": false,
	} {
		if isLocal(peer) != local {
			t.Errorf("isLocal(%q) is %v", peer, !local)
		}
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
