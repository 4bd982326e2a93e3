package coordinator

import (
	"testing"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// A subordinate user id acts as itself, and the owner of its range is charged: the owner, and each
// of their ids, have one quota together, and none of them may act for another.
func TestTheOwnerIsChargedForASubordinateID(t *testing.T) {
	c := newAuthServer(t)
	c.addHosts(t)
	ctx := t.Context()
	limit := 2 * mib
	if _, err := c.visit(t, "root").quotas.Put(ctx, &bursarv1.PutRequest{Quota: &bursarv1.Quota{Selector: map[string]string{"user": "*"}, Limit: memory(limit)}}); err != nil {
		t.Fatal(err)
	}
	subordinate := func(uid, owner string) *visitor {
		return c.visit(t, "agent1", identity.Actor{Name: uid + "@h1", Users: []string{uid}, Owner: owner, Role: identity.Submitter})
	}
	alice := c.visit(t, "agent1", identity.Actor{Name: "alice@h1", Users: []string{"alice"}, Role: identity.Submitter})
	first, second := subordinate("100001", "alice"), subordinate("100002", "alice")
	req := func(id, user string) *bursarv1.AllocateRequest {
		r := &bursarv1.AllocateRequest{RequestId: id, Resource: memory(mib), Host: &bursarv1.HostWishes{Id: "h1"}}
		if user != "" {
			r.Labels = map[string]string{"user": user}
		}
		return r
	}
	got, err := first.allocations.Allocate(ctx, req("r1", "100001"))
	if err != nil {
		t.Fatal(err)
	}
	a := got.GetAllocation()
	if a.GetLabels()["user"] != "alice" || a.GetActingUser() != "100001" || a.GetCaller() != "100001@h1" {
		t.Errorf("%v: want that alice is charged, and 100001 acts", a)
	}
	again, err := first.allocations.Allocate(ctx, req("r1", "100001"))
	if err != nil || again.GetAllocation().GetId() != a.GetId() {
		t.Errorf("a repeat: %v, %v", again, err)
	}
	if _, err := second.allocations.Allocate(ctx, req("r2", "")); err != nil {
		t.Error(err)
	}
	// Two of them have taken all of what is alice's.
	for name, v := range map[string]*visitor{"100001": first, "100003": subordinate("100003", "alice"), "alice": alice} {
		if _, err := v.allocations.Allocate(ctx, req("", name)); connect.CodeOf(err) != connect.CodeResourceExhausted {
			t.Errorf("%s has a quota of their own: %v", name, err)
		}
	}
	if _, err := subordinate("200001", "bob").allocations.Allocate(ctx, req("", "200001")); err != nil {
		t.Errorf("bob's: %v", err)
	}
	// None gains a right.
	for name, v := range map[string]*visitor{"alice": alice, "100002": second} {
		_, err := v.allocations.Release(ctx, &bursarv1.ReleaseRequest{Id: a.GetId()})
		expect(t, name+" releases it", err, connect.CodePermissionDenied, "of user 100001")
	}
	stop := func(v *visitor, id string) error {
		_, err := v.allocations.Stop(ctx, &bursarv1.StopRequest{Id: id})
		return err
	}
	for name, v := range map[string]*visitor{"alice": alice, "100002": second} {
		_, err := v.allocations.Confirm(ctx, &bursarv1.ConfirmRequest{Id: a.GetId(), Process: &bursarv1.Process{Pid: 7, StartTime: 1}})
		expect(t, name+" confirms it", err, connect.CodePermissionDenied, "of user 100001")
		expect(t, name+" stops it", stop(v, a.GetId()), connect.CodePermissionDenied, "")
	}
	for _, user := range []string{"alice", "100002", "bob"} {
		_, err := first.allocations.Allocate(ctx, req("", user))
		expect(t, "100001 as "+user, err, connect.CodePermissionDenied, "may not")
		_, err = first.allocations.Explain(ctx, &bursarv1.ExplainRequest{Request: req("", user)})
		expect(t, "100001 asks as "+user, err, connect.CodePermissionDenied, "may not")
	}
	_, err = c.visit(t, "alice", identity.Actor{Name: "100001@h1", Users: []string{"100001"}, Owner: "bob"}).allocations.Allocate(ctx, req("", "100001"))
	expect(t, "a submitter names an owner", err, connect.CodePermissionDenied, "want no such header")
	_, err = c.visit(t, "agent1", identity.Actor{Name: "100001@h1", Users: []string{"100001"}, Anyone: true, Owner: "bob"}).allocations.Allocate(ctx, req("", "100001"))
	expect(t, "an owner of a caller who acts as anyone", err, connect.CodeInvalidArgument, "owner")
	// What its engine wrote is its own.
	_, err = first.allocations.Release(ctx, &bursarv1.ReleaseRequest{
		Id: a.GetId(), Reason: "exit code 1", ExitStatus: &bursarv1.ExitStatus{Code: new(int32(1))}, ErrorOutput: secret,
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]*visitor{"100001": first, "100002": second, "alice": alice} {
		res, err := v.allocations.Get(ctx, &bursarv1.AllocationServiceGetRequest{Id: a.GetId()})
		if shown := res.GetAllocation().GetErrorOutput() == secret; err != nil || shown != (name == "100001") {
			t.Errorf("%s is shown its output: %v, %v", name, shown, err)
		}
	}
	own, err := alice.allocations.Allocate(ctx, req("", "alice"))
	if err != nil {
		t.Fatalf("alice, once one of her ids has given back: %v", err)
	}
	// The owner's are not theirs.
	for name, v := range map[string]*visitor{"100001": first, "100002": second} {
		_, err := v.allocations.Release(ctx, &bursarv1.ReleaseRequest{Id: own.GetAllocation().GetId()})
		expect(t, name+" releases alice's", err, connect.CodePermissionDenied, "of user alice")
		expect(t, name+" stops alice's", stop(v, own.GetAllocation().GetId()), connect.CodePermissionDenied, "")
	}
	_, err = alice.allocations.Release(ctx, &bursarv1.ReleaseRequest{
		Id: own.GetAllocation().GetId(), Reason: "exit code 1", ExitStatus: &bursarv1.ExitStatus{Code: new(int32(1))}, ErrorOutput: secret,
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]*visitor{"100001": first, "alice": alice} {
		res, err := v.allocations.Get(ctx, &bursarv1.AllocationServiceGetRequest{Id: own.GetAllocation().GetId()})
		if shown := res.GetAllocation().GetErrorOutput() == secret; err != nil || shown != (name == "alice") {
			t.Errorf("%s is shown alice's output: %v, %v", name, shown, err)
		}
	}
}
