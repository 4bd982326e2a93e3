package coordinator

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const secret = "password=hunter2"

// end has an engine of alice's end on h1, whose agent tells of it.
func (c *authServer) end(t *testing.T, end *bursarv1.EngineEnd) string {
	t.Helper()
	root, agent := c.visit(t, "root"), c.visit(t, "agent1")
	if err := agent.register(t, "h1"); err != nil {
		t.Fatal(err)
	}
	end.AllocationId = root.mustAllocate(t, "h1", "alice")
	if _, err := root.allocations.Confirm(t.Context(), &bursarv1.ConfirmRequest{Id: end.GetAllocationId(), Process: &bursarv1.Process{Pid: 100, StartTime: 7}}); err != nil {
		t.Fatal(err)
	}
	status, err := root.cluster.Status(t.Context(), &bursarv1.StatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = agent.hosts.Sync(t.Context(), &bursarv1.SyncRequest{
		HostId: "h1", Incarnation: 1, Sequence: 2, Epoch: status.GetEpoch(), BootId: "boot", Ended: []*bursarv1.EngineEnd{end},
	})
	if err != nil {
		t.Fatal(err)
	}
	return end.GetAllocationId()
}

// everyAnswer is all that a visitor can read of an ended allocation, in every way.
func (v *visitor) everyAnswer(t *testing.T, id string) map[string]string {
	t.Helper()
	told := make(map[string]string)
	note := func(way string, message proto.Message, err error) {
		text := protojson.Format(message)
		if err != nil {
			if connect.CodeOf(err) != connect.CodePermissionDenied && connect.CodeOf(err) != connect.CodeFailedPrecondition {
				t.Fatalf("%s: %v", way, err)
			}
			if text = detailsOf(t, err); strings.Contains(err.Error(), secret) {
				t.Errorf("%s: its words have it: %v", way, err)
			}
			text += err.Error()
		}
		told[way] += text
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got, err := v.allocations.Get(ctx, &bursarv1.AllocationServiceGetRequest{Id: id})
	note("Get", got, err)
	explained, err := v.allocations.Explain(ctx, &bursarv1.ExplainRequest{Id: id})
	note("Explain", explained, err)
	list, err := v.allocations.List(ctx, &bursarv1.AllocationServiceListRequest{Ended: true})
	note("List", list, err)
	released, err := v.allocations.Release(ctx, &bursarv1.ReleaseRequest{Id: id})
	note("Release", released, err)
	confirmed, err := v.allocations.Confirm(ctx, &bursarv1.ConfirmRequest{Id: id, Process: &bursarv1.Process{Pid: 100, StartTime: 7}})
	note("Confirm", confirmed, err)
	renewed, err := v.allocations.Renew(ctx, &bursarv1.RenewRequest{Id: id})
	note("Renew", renewed, err)
	resized, err := v.allocations.Resize(ctx, &bursarv1.ResizeRequest{Id: id, Entitled: &bursarv1.Resource{MemoryBytes: new(int64(1 << 20))}})
	note("Resize", resized, err)
	stopped, err := v.allocations.Stop(ctx, &bursarv1.StopRequest{Id: id})
	note("Stop", stopped, err)
	canceled, err := v.allocations.Cancel(ctx, &bursarv1.CancelRequest{Id: id})
	note("Cancel", canceled, err)
	amended, err := v.allocations.Amend(ctx, &bursarv1.AmendRequest{Id: id, Priority: new(int32(1))})
	note("Amend", amended, err)
	waited, err := v.engines.Wait(ctx, &bursarv1.WaitRequest{Id: id})
	note("Wait", waited, err)
	watch, err := v.allocations.Watch(ctx, &bursarv1.AllocationServiceWatchRequest{AfterRevision: 1})
	for err == nil && watch.Receive() {
		note("Watch", watch.Msg(), nil)
		if watch.Msg().GetAllocation().GetState() == bursarv1.AllocationState_ALLOCATION_STATE_RELEASED {
			break
		}
	}
	if err == nil {
		err = watch.Err()
	}
	note("Watch", nil, err)
	all, err := v.cluster.Watch(ctx, &bursarv1.ClusterServiceWatchRequest{AfterRevision: 1})
	for err == nil && all.Receive() {
		note("ClusterWatch", all.Msg(), nil)
		if all.Msg().GetAllocation().GetState() == bursarv1.AllocationState_ALLOCATION_STATE_RELEASED {
			break
		}
	}
	if err == nil {
		err = all.Err()
	}
	note("ClusterWatch", nil, err)
	return told
}

// detailsOf is what an error has next to its words.
func detailsOf(t *testing.T, err error) (text string) {
	t.Helper()
	refused, ok := errors.AsType[*connect.Error](err)
	if !ok {
		t.Fatalf("%v is no answer", err)
	}
	for _, detail := range refused.Details() {
		message, err := detail.Value()
		if err != nil {
			t.Fatal(err)
		}
		text += protojson.Format(message)
	}
	return text
}

func TestWhatAnEngineWroteIsShownToItsUserOperatorsAndAdminsAlone(t *testing.T) {
	for name, end := range map[string]*bursarv1.EngineEnd{
		"in its field": {Reason: "exit code 1", ErrorOutput: "a\n" + secret, ExitStatus: &bursarv1.ExitStatus{Code: new(int32(1))}},
		"in the reason, by an agent of an older version": {Reason: "exit code 1: a | " + secret, ExitStatus: &bursarv1.ExitStatus{Code: new(int32(1))}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newAuthServer(t)
			id := c.end(t, end)
			for who, v := range map[string]*visitor{
				"alice": c.visit(t, "alice"), "ops": c.visit(t, "ops"), "root": c.visit(t, "root"),
				"alice@h1": c.visit(t, "agent1", identity.Actor{Name: "alice@h1", Users: []string{"alice"}}),
				"reader":   c.visit(t, "reader"), "agent1": c.visit(t, "agent1"),
				"bob@h1": c.visit(t, "agent1", identity.Actor{Name: "bob@h1", Users: []string{"bob"}}),
				"c1":     c.visit(t, "c1", identity.Actor{Name: "bob", Users: []string{"bob"}, Role: identity.Submitter}),
			} {
				may := slices.Contains([]string{"alice", "alice@h1", "ops", "root"}, who)
				answers := v.everyAnswer(t, id)
				for way, text := range answers {
					if shown := strings.Contains(text, secret); shown && !may {
						t.Errorf("%s is shown it by %s: %s", who, way, text)
					}
				}
				if get := answers["Get"]; may && !strings.Contains(get, `"a\n`+secret) && !strings.Contains(get, "a | "+secret) {
					t.Errorf("%s is not shown it: %s", who, get)
				}
				// Those who may and those who may not see it share the event, in any order.
				for _, way := range []string{"Watch", "ClusterWatch"} {
					if text := answers[way]; may && strings.Contains(text, id) && !strings.Contains(text, secret) {
						t.Errorf("%s is not shown it by %s: %s", who, way, text)
					}
				}
				if renew := answers["Renew"]; may && !strings.Contains(renew, secret) {
					t.Errorf("%s is not shown it by the refusal: %s", who, renew)
				}
			}
			c.stop()
			log, err := os.ReadFile(c.config.AuditLog)
			if err != nil || len(log) == 0 || strings.Contains(string(log), secret) {
				t.Errorf("the audit log has it: %v, %s", err, log)
			}
		})
	}
}

// unasked are procedures that answer with allocations, and do not answer with one that has ended.
var unasked = map[protoreflect.FullName]string{
	"bursar.v1.AllocationService.Allocate": "an allocation that has just begun; a repeat of one that ended is in TestARepeatedRequestShowsNoOutput",
	"bursar.v1.AllocationService.Await":    "an allocation that waits or has been granted",
	"bursar.v1.HostService.Accept":         "engines that run",
	"bursar.v1.HostService.Sync":           "allocations to start: they have no output yet",
	"bursar.v1.EngineService.Launch":       "an agent's: one that has just begun",
	"bursar.v1.EngineService.Start":        "an engine of the caller's own request; Wait answers for others",
	"bursar.v1.HostService.Answer":         "an engine that was confirmed just now",
}

// A new procedure that answers with allocations needs a line in everyAnswer, or a reason in
// unasked.
func TestEveryAnswerWithAllocationsIsTried(t *testing.T) {
	c := newAuthServer(t)
	id := c.end(t, &bursarv1.EngineEnd{Reason: "exit code 1", ErrorOutput: secret, ExitStatus: &bursarv1.ExitStatus{Code: new(int32(1))}})
	tried := c.visit(t, "root").everyAnswer(t, id)
	allocation := (&bursarv1.Allocation{}).ProtoReflect().Descriptor().FullName()
	var has func(message protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) bool
	has = func(message protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) bool {
		if message == nil || seen[message.FullName()] {
			return false
		}
		seen[message.FullName()] = true
		for f := range message.Fields().Len() {
			if inner := message.Fields().Get(f).Message(); has(inner, seen) {
				return true
			}
		}
		return message.FullName() == allocation
	}
	protoregistry.GlobalFiles.RangeFilesByPackage("bursar.v1", func(file protoreflect.FileDescriptor) bool {
		for s := range file.Services().Len() {
			for m := range file.Services().Get(s).Methods().Len() {
				method := file.Services().Get(s).Methods().Get(m)
				way := string(method.Name())
				if method.Parent().Name() == "ClusterService" {
					way = "Cluster" + way
				}
				if has(method.Output(), make(map[protoreflect.FullName]bool)) && tried[way] == "" && unasked[method.FullName()] == "" {
					t.Errorf("%s answers with allocations, and is not tried", method.FullName())
				}
			}
		}
		return true
	})
}

// An actor who repeats an Allocate of another's user sees no more of how it ended than by Get.
func TestARepeatedRequestShowsNoOutput(t *testing.T) {
	c := newAuthServer(t)
	c.addHosts(t)
	ctx := t.Context()
	gateway := func(users ...string) *visitor { // whose users its operator has changed
		return c.visit(t, "c1", identity.Actor{Name: "gateway", Users: users, Role: identity.Submitter})
	}
	again := request("r1", mib)
	again.Host = &bursarv1.HostWishes{Id: "h1"}
	again.Labels = map[string]string{"user": "alice"}
	first, err := gateway("alice").allocations.Allocate(ctx, again)
	if err != nil {
		t.Fatal(err)
	}
	_, err = gateway("alice").allocations.Release(ctx, &bursarv1.ReleaseRequest{
		Id: first.GetAllocation().GetId(), Reason: "exit code 1", ExitStatus: &bursarv1.ExitStatus{Code: new(int32(1))}, ErrorOutput: secret,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, users := range []string{"alice", "bob"} {
		res, err := gateway(users).allocations.Allocate(ctx, again)
		text := protojson.Format(res)
		if err != nil {
			text += err.Error() + detailsOf(t, err)
		}
		if shown := strings.Contains(text, secret); shown && users != "alice" {
			t.Errorf("as %s: %s", users, text)
		}
	}
}

func TestAStandbyShowsNoMoreThanTheLeader(t *testing.T) {
	m := startTeam(t, 2)
	leader, standbys := m.led()
	leader.host("h", gib)
	a := leader.allocate(request("r", mib))
	_, err := leader.allocations.Release(t.Context(), &bursarv1.ReleaseRequest{
		Id: a.GetId(), Reason: "exit code 1", ExitStatus: &bursarv1.ExitStatus{Code: new(int32(1))}, ErrorOutput: secret,
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"bob": "", a.GetLabels()["user"]: secret} {
		for _, stale := range []bool{false, true} {
			ctx, info := connect.NewClientContext(t.Context())
			info.RequestHeader().Set(identity.Header, identity.Actor{Name: name, Users: []string{name}, Role: identity.Submitter}.Encode())
			res, err := standbys[0].allocations.Get(ctx, &bursarv1.AllocationServiceGetRequest{Id: a.GetId(), AllowStale: stale})
			if err != nil || res.GetAllocation().GetErrorOutput() != want {
				t.Errorf("%s, stale %v: %v, %v", name, stale, res, err)
			}
		}
		ctx, info := connect.NewClientContext(t.Context())
		info.RequestHeader().Set(identity.Header, identity.Actor{Name: name, Users: []string{name}, Role: identity.Submitter}.Encode())
		for role, want := range map[identity.Role]string{identity.Reader: "", identity.Operator: secret, identity.Submitter: want} {
			ctx, info := connect.NewClientContext(t.Context())
			info.RequestHeader().Set(identity.Header, identity.Actor{Name: name, Users: []string{name}, Role: role}.Encode())
			res, err := standbys[0].allocations.Explain(ctx, &bursarv1.ExplainRequest{Id: a.GetId()})
			if err != nil || res.GetAllocation().GetErrorOutput() != want {
				t.Errorf("Explain as %s %s: %v, %v", role, name, res, err)
			}
		}
		_, err := standbys[0].allocations.Renew(ctx, &bursarv1.RenewRequest{Id: a.GetId()})
		if text := detailsOf(t, err); !strings.Contains(text, a.GetId()) || strings.Contains(text, secret) != (want == secret) {
			t.Errorf("%s: a refusal has %s", name, text)
		}
	}
}
