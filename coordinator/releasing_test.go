package coordinator

import (
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// A release by the caller's word frees nothing while the process may live. Only the agent of the
// host, and an operator, can say otherwise, and the audit log says what it was.
func TestWhoFreesARunningEngine(t *testing.T) {
	c := newAuthServer(t)
	c.addHosts(t)
	ctx := t.Context()
	alice, ops := c.visit(t, "alice"), c.visit(t, "ops")
	through := c.visit(t, "agent1", identity.Actor{Name: "alice@h1", Users: []string{"alice"}})
	engine := func(process *bursarv1.Process) string {
		id := through.mustAllocate(t, "h1", "alice")
		if _, err := through.allocations.Confirm(ctx, &bursarv1.ConfirmRequest{Id: id, Process: process}); err != nil {
			t.Fatal(err)
		}
		return id
	}
	code := int32(0)
	lie := func(id string, force bool) *bursarv1.ReleaseRequest {
		return &bursarv1.ReleaseRequest{Id: id, Reason: "done", ProcessEnded: true, ExitStatus: &bursarv1.ExitStatus{Code: &code}, Force: force}
	}

	own := engine(&bursarv1.Process{Pid: 100, StartTime: 1})
	r, err := alice.allocations.Release(ctx, lie(own, false))
	if got := r.GetAllocation(); err != nil || got.GetState() != active || !got.GetReleasing() || got.GetStopping() || got.GetExitStatus() != nil {
		t.Errorf("by its caller's word: %v, %v", got, err)
	}
	_, err = alice.allocations.Release(ctx, lie(own, true))
	expect(t, "forced by its caller", err, connect.CodePermissionDenied, "alice may not force the release of allocation "+own)
	_, err = through.allocations.Release(ctx, lie(own, true))
	expect(t, "forced through an agent", err, connect.CodePermissionDenied, "alice@h1 may not force the release")
	other := c.visit(t, "agent2", identity.Actor{Name: "alice@h2", Users: []string{"alice"}})
	if _, err := other.allocations.Release(ctx, lie(own, false)); err == nil {
		t.Error("freed by the agent of another host")
	}
	r, err = through.allocations.Release(ctx, lie(own, false))
	if got := r.GetAllocation(); err != nil || got.GetState() != released || got.GetReleasing() {
		t.Errorf("by its agent: %v, %v", got, err)
	}

	launched := engine(&bursarv1.Process{Pid: 101, StartTime: 1, Launched: true})
	r, err = alice.allocations.Release(ctx, &bursarv1.ReleaseRequest{Id: launched})
	if got := r.GetAllocation(); err != nil || got.GetState() != active || !got.GetReleasing() || !got.GetStopping() {
		t.Errorf("launched: %v, %v", got, err)
	}
	r, err = ops.allocations.Release(ctx, lie(launched, true))
	if got := r.GetAllocation(); err != nil || got.GetState() != released {
		t.Errorf("forced by an operator: %v, %v", got, err)
	}

	// That an agent launched it is the agent's word.
	claimed := alice.mustAllocate(t, "h1", "alice")
	if _, err := alice.allocations.Confirm(ctx, &bursarv1.ConfirmRequest{Id: claimed, Process: &bursarv1.Process{Pid: 102, StartTime: 1, Launched: true}}); err != nil {
		t.Fatal(err)
	}
	if r, err := alice.allocations.Release(ctx, &bursarv1.ReleaseRequest{Id: claimed}); err != nil || r.GetAllocation().GetStopping() {
		t.Errorf("claimed to be launched: %v, %v", r, err)
	}
	c.stop()
	var recorded []string
	for _, record := range c.records(t) {
		if record.Code == "ok" {
			recorded = append(recorded, record.Actor+" "+record.Procedure[strings.LastIndex(record.Procedure, "/")+1:]+" "+record.Target)
		}
	}
	if got, want := strings.Join(recorded, "; "), "alice Stop allocation "+launched+"; ops Release allocation "+launched+", forced"; got != want {
		t.Errorf("recorded %q, want %q", got, want)
	}
}

func TestAmendKeepsThePlace(t *testing.T) {
	f := start(t, Config{}, nil)
	ctx := t.Context()
	f.host("h1", gib)
	f.allocate(request("holder", gib))
	wait := func(id string, bytes int64) *bursarv1.Allocation {
		q := request(id, bytes)
		q.Wait, q.Async = durationpb.New(60e9), true
		return f.allocate(q)
	}
	first, second := wait("first", gib), wait("second", gib)
	for field, q := range map[string]*bursarv1.AmendRequest{
		"resource.memory": {Id: first.GetId(), Resource: memory(2 * gib)},
		"resource":        {Id: first.GetId()},
		"id":              {Resource: memory(1)},
	} {
		_, err := f.allocations.Amend(ctx, q)
		if wrong, ok := detail[*bursarv1.InvalidField](err); !ok || wrong.GetField() != field {
			t.Errorf("%v: %v; want field %s", q, err, field)
		}
	}
	r, err := f.allocations.Amend(ctx, &bursarv1.AmendRequest{RequestId: "first", Resource: memory(gib / 2), Wait: seconds(3600)})
	if got := r.GetAllocation(); err != nil || got.GetId() != first.GetId() || got.GetEntitled().GetMemoryBytes() != gib/2 || !got.GetExpireTime().AsTime().After(first.GetExpireTime().AsTime()) {
		t.Fatalf("amended: %v, %v", r, err)
	}
	if again := wait("first", gib); again.GetId() != first.GetId() {
		t.Errorf("the first body again: %v", again)
	}
	explained, err := f.allocations.Explain(ctx, &bursarv1.ExplainRequest{Id: second.GetId()})
	if err != nil || explained.GetPlace() != 1 {
		t.Errorf("place of the second: %v, %v", explained, err)
	}
	if _, err := f.allocations.Amend(ctx, &bursarv1.AmendRequest{Id: f.get(first.GetId()).GetId(), Priority: new(int32(-1))}); err != nil {
		t.Fatal(err)
	}
	if explained, err = f.allocations.Explain(ctx, &bursarv1.ExplainRequest{Id: second.GetId()}); err != nil || explained.GetPlace() != 0 {
		t.Errorf("place of the second now: %v, %v", explained, err)
	}
	f.audited()
}
