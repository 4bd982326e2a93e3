package coordinator

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

// limitAlice gives alice 4 GiB.
func (f *fixture) limitAlice() {
	f.tb.Helper()
	quota := &bursarv1.Quota{Selector: map[string]string{"user": "alice"}, Limit: memory(4 * gib)}
	if _, err := f.quotas.Put(f.tb.Context(), &bursarv1.PutRequest{Quota: quota}); err != nil {
		f.tb.Fatal(err)
	}
}

// invented is a record of an engine of alice's that nobody has started.
func invented(id ledger.ID, host string, gibibytes int64) *bursarv1.EngineReport {
	return &bursarv1.EngineReport{AllocationId: id.String(), Grant: &bursarv1.Allocation{
		Id: id.String(), State: bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE, HostId: host, Labels: map[string]string{"user": "alice"},
		Entitled: memory(gibibytes * gib), Requested: memory(gibibytes * gib), Caller: "alice", RequestId: "r9", Process: &bursarv1.Process{Pid: 4242, StartTime: 5},
	}}
}

func (f *fixture) hostOf(id string) *bursarv1.Host {
	f.tb.Helper()
	res, err := f.hosts.Get(f.tb.Context(), &bursarv1.HostServiceGetRequest{Id: id})
	if err != nil {
		f.tb.Fatal(err)
	}
	return res.GetHost()
}

// One report of invented engines filled the quotas of every user.
func TestInventedEnginesFillNoQuotaOfOthers(t *testing.T) {
	log := &proc.Output{}
	f := start(t, Config{}, nil, func(s *Server) { s.loop.Log = slog.New(slog.NewTextHandler(log, nil)) })
	f.limitAlice()
	f.agent("h1")
	h2 := f.agent("h2")
	report := func(req *bursarv1.SyncRequest) {
		req.Full = true
		forged := invented(12, "h2", 3)
		forged.Grant.Seal = bytes.Repeat([]byte{1}, 25)
		req.Engines = []*bursarv1.EngineReport{invented(11, "h2", 2048), forged}
	}
	h2.beat(report)
	h2.beat(report)

	on := request("r1", 4*gib)
	on.Labels, on.Host = map[string]string{"user": "alice"}, &bursarv1.HostWishes{Id: "h1"}
	granted := f.allocate(on)
	first, second := f.get(ledger.ID(11).String()), f.get(ledger.ID(12).String())
	for id, a := range map[string]*bursarv1.Allocation{"the large one": first, "the forged one": second} {
		if a.GetLabels()["user"] != "@h2" || a.GetCaller() != "@h2" || a.GetClaimed().GetLabels()["user"] != "alice" || a.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE {
			t.Errorf("%s: got %v, want it for @h2, with its claim", id, a)
		}
	}
	if first.GetEntitled().GetMemoryBytes() != 8*gib || first.GetClaimed().GetEntitled().GetMemoryBytes() != 2048*gib || second.GetEntitled().GetMemoryBytes() != 0 {
		t.Errorf("they count for %v and %v, of which %v is claimed: want no more than the host has", first.GetEntitled(), second.GetEntitled(), first.GetClaimed())
	}
	if n := f.hostOf("h2").GetUnaccepted(); n != 2 {
		t.Errorf("the host shows %d engines that are not accepted: want 2", n)
	}
	f.wantMetric("bursar_engines_unaccepted 2")
	if n := strings.Count(log.String(), "no seal vouches"); n != 1 {
		t.Errorf("%d lines of the log tell of it: want 1", n)
	}
	f.audited()

	res, err := f.hosts.Accept(t.Context(), &bursarv1.AcceptRequest{HostId: "h2", Ids: []string{second.GetId()}})
	if err != nil || res.GetLeft() != 0 || len(res.GetAccepted()) != 1 {
		t.Fatalf("%v, %v", res, err)
	}
	if a := res.GetAccepted()[0]; a.GetLabels()["user"] != "alice" || a.GetClaimed() != nil || !a.GetOverLimit() || a.GetEntitled().GetMemoryBytes() != 3*gib || a.GetCaller() != "alice" {
		t.Errorf("accepted: %v", a)
	}
	f.release(granted.GetId())
	on.RequestId = "r2"
	if _, err := f.allocations.Allocate(t.Context(), on); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("alice gets 4 GiB next to an accepted engine of 3 GiB: %v", err)
	}
	f.audited()
	if _, err := f.hosts.Accept(t.Context(), &bursarv1.AcceptRequest{HostId: "h2", Ids: []string{second.GetId()}}); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("accepted twice: %v", err)
	}
	if _, err := f.hosts.Accept(t.Context(), &bursarv1.AcceptRequest{HostId: "h2", Ids: []string{"?"}}); connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "ids[0]") {
		t.Errorf("no id: %v", err)
	}
	on.RequestId, on.Labels = "r3", map[string]string{"user": "@h2"}
	if _, err := f.allocations.Allocate(t.Context(), on); connect.CodeOf(err) != connect.CodeInvalidArgument || !strings.Contains(err.Error(), "labels.user") {
		t.Errorf("a request for a host's user: %v", err)
	}
}

// running is an engine of the host's agent as the agent has its record.
func (a *playedAgent) running() *bursarv1.Allocation {
	a.tb.Helper()
	id := a.engine()
	for _, grant := range a.beat(func(*bursarv1.SyncRequest) {}).GetGrants() {
		if grant.GetId() == id {
			return grant
		}
	}
	a.tb.Fatalf("the agent is not sent %s", id)
	return nil
}

func (a *playedAgent) reports(grant *bursarv1.Allocation) {
	a.tb.Helper()
	a.beat(func(req *bursarv1.SyncRequest) {
		req.Full = true
		req.Engines = []*bursarv1.EngineReport{{AllocationId: grant.GetId(), Grant: grant}}
	})
}

// After the store was put back, engines are booked again for their users if the coordinator's seal
// vouches for them. Those of an agent that keeps no seals wait for an operator.
func TestAfterARestoreASealBringsAnEngineBack(t *testing.T) {
	for name, sealed := range map[string]bool{"with its seal": true, "of an older agent": false} {
		t.Run(name, func(t *testing.T) {
			disk := storetest.NewMemory("test")
			f := start(t, Config{}, disk.Open())
			f.limitAlice()
			backup := disk.Copy("test")
			grant := f.agent("h1").running()
			if len(grant.GetSeal()) == 0 || f.get(grant.GetId()).GetSeal() != nil {
				t.Fatalf("the agent gets the seal %x, and others %x: want it for the agent alone", grant.GetSeal(), f.get(grant.GetId()).GetSeal())
			}
			f.stop()
			disk.Restore(backup)
			f = start(t, Config{}, disk.Open())
			if !sealed {
				grant.Seal = nil
			}
			h1 := f.agent("h1")
			h1.reports(grant)
			want := proto.CloneOf(grant)
			got := f.get(grant.GetId())
			if sealed {
				if got.GetClaimed() != nil || got.GetLabels()["user"] != want.GetLabels()["user"] || got.GetCaller() != want.GetCaller() || !proto.Equal(got.GetEntitled(), want.GetEntitled()) {
					t.Errorf("it is\n%v\nand was\n%v", got, want)
				}
				return
			}
			if got.GetLabels()["user"] != "@h1" || !proto.Equal(got.GetClaimed().GetEntitled(), want.GetEntitled()) {
				t.Errorf("without a seal it is %v", got)
			}
			// The agent keeps what it is told, and after another restore the claim is still there.
			var told *bursarv1.Allocation
			for _, a := range h1.beat(func(req *bursarv1.SyncRequest) { req.LedgerSequence = 0 }).GetGrants() {
				told = a
			}
			if told.GetClaimed() == nil || len(told.GetSeal()) != 0 {
				t.Fatalf("the agent is told %v: want the claim, and no seal", told)
			}
			f.stop()
			disk.Restore(backup)
			f = start(t, Config{}, disk.Open())
			f.agent("h1").reports(told)
			if again := f.get(grant.GetId()); !proto.Equal(again.GetClaimed(), got.GetClaimed()) {
				t.Errorf("after another restore the claim is %v, and was %v", again.GetClaimed(), got.GetClaimed())
			}
			if _, err := f.hosts.Accept(t.Context(), &bursarv1.AcceptRequest{HostId: "h1"}); err != nil {
				t.Fatal(err)
			}
			if got := f.get(grant.GetId()); got.GetLabels()["user"] != want.GetLabels()["user"] || got.GetRequestId() != want.GetRequestId() {
				t.Errorf("accepted it is\n%v\nand was\n%v", got, want)
			}
			f.audited()
		})
	}
}

// A host that has said that an engine ended, and says again that it runs, shows its old seal.
func TestASealDoesNotOutliveItsEngine(t *testing.T) {
	f := start(t, Config{}, nil)
	h1, h2 := f.agent("h1"), f.agent("h2")
	grant := h1.running()
	h2.reports(grant) // another host has learned of it
	if got := f.get(grant.GetId()); got.GetHostId() != "h1" {
		t.Errorf("it is on %s", got.GetHostId())
	}
	h1.beat(func(req *bursarv1.SyncRequest) {
		req.Ended = []*bursarv1.EngineEnd{{AllocationId: grant.GetId()}}
	})
	h1.reports(grant)
	got := f.get(grant.GetId())
	if got.GetLabels()["user"] != "@h1" || got.GetClaimed() == nil {
		t.Errorf("after its end it is %v: want it for @h1", got)
	}
	// The ledger remembers the request: its caller still finds it.
	if got.GetCaller() != grant.GetCaller() || got.GetRequestId() != grant.GetRequestId() {
		t.Errorf("it is of %q (%q), and was of %q (%q)", got.GetCaller(), got.GetRequestId(), grant.GetCaller(), grant.GetRequestId())
	}
	f.audited()
}

// An engine that was confirmed just before the store was lost has its seal already: the answer that
// its host's agent gets has it, and that to others has none.
func TestTheAgentsAnswerHasTheSeal(t *testing.T) {
	disk := storetest.NewMemory("test")
	f := start(t, Config{}, disk.Open())
	f.agent("h1")
	backup := disk.Copy("test")
	through := func(host string) context.Context {
		ctx, info := connect.NewClientContext(t.Context())
		info.RequestHeader().Set(identity.Header, identity.Actor{Name: "alice@h1", Users: []string{"alice"}, Role: identity.Submitter, Host: host}.Encode())
		return ctx
	}
	req := request("r1", gib)
	req.Labels, req.Host = map[string]string{"user": "alice"}, &bursarv1.HostWishes{Id: "h1"}
	res, err := f.allocations.Allocate(through("h1"), req)
	if err != nil {
		t.Fatal(err)
	}
	id := res.GetAllocation().GetId()
	process := &bursarv1.Process{Pid: 100, StartTime: 7}
	if confirmed, err := f.allocations.Confirm(through("h1"), &bursarv1.ConfirmRequest{Id: id, Process: process}); err != nil || len(confirmed.GetAllocation().GetSeal()) == 0 {
		t.Fatalf("%v, %v: want a seal", confirmed, err)
	}
	if resized, err := f.allocations.Resize(through(""), &bursarv1.ResizeRequest{Id: id, Entitled: memory(3 * gib)}); err != nil || len(resized.GetAllocation().GetSeal()) != 0 {
		t.Fatalf("%v, %v: want no seal for a caller elsewhere", resized, err)
	}
	resized, err := f.allocations.Resize(through("h1"), &bursarv1.ResizeRequest{Id: id, Entitled: memory(2 * gib)})
	if err != nil {
		t.Fatal(err)
	}
	f.stop()
	disk.Restore(backup)
	f = start(t, Config{}, disk.Open())
	f.agent("h1").reports(resized.GetAllocation())
	if got := f.get(id); got.GetClaimed() != nil || got.GetLabels()["user"] != "alice" || got.GetEntitled().GetMemoryBytes() != 2*gib {
		t.Errorf("after the loss of the store it is %v", got)
	}
	f.audited()
}
