package coordinator

import (
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestHostsAreListedAndLookedAfter(t *testing.T) {
	f := start(t, Config{}, nil)
	ctx := t.Context()
	var all, west []string
	for i := range 12 {
		id, zone := fmt.Sprintf("h%02d", i), "east"
		if i%3 == 0 {
			zone = "west"
			west = append(west, id)
		}
		f.host(id, gib, "zone", zone)
		all = append(all, id)
	}
	list := func(req *bursarv1.HostServiceListRequest) []string {
		t.Helper()
		var ids []string
		for {
			res, err := f.hosts.List(ctx, req)
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range res.GetHosts() {
				ids = append(ids, h.GetId())
			}
			if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
				return ids
			}
		}
	}
	for name, c := range map[string]struct {
		req  *bursarv1.HostServiceListRequest
		want []string
	}{
		"all":       {&bursarv1.HostServiceListRequest{PageSize: 5}, all},
		"by label":  {&bursarv1.HostServiceListRequest{PageSize: 1, Labels: map[string]string{"zone": "west"}}, west},
		"by prefix": {&bursarv1.HostServiceListRequest{IdPrefix: "h1"}, all[10:]},
		"suspect":   {&bursarv1.HostServiceListRequest{States: []bursarv1.HostState{bursarv1.HostState_HOST_STATE_SUSPECT}}, nil},
	} {
		if diff := cmp.Diff(c.want, list(c.req)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}

	c, err := f.hosts.Cordon(ctx, &bursarv1.CordonRequest{HostId: "h00", Reason: "disk"})
	if err != nil || !c.GetHost().GetCordoned() || c.GetHost().GetUnavailableReason() == "" {
		t.Errorf("cordoned: %v, %v", c, err)
	}
	req := request("", mib)
	req.Host = &bursarv1.HostWishes{Id: "h00"}
	if _, err := f.allocations.Allocate(ctx, req); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("on a cordoned host: %v", err)
	}
	if d, err := f.hosts.Drain(ctx, &bursarv1.DrainRequest{HostId: "h00"}); err != nil || !d.GetHost().GetDraining() {
		t.Errorf("drained: %v, %v", d, err)
	}
	if res := f.sync("h00", f.status().GetEpoch(), 2, gib); res.GetAction() != bursarv1.SyncAction_SYNC_ACTION_DRAIN {
		t.Errorf("its agent was told %v", res.GetAction())
	}
	if u, err := f.hosts.Uncordon(ctx, &bursarv1.UncordonRequest{HostId: "h00"}); err != nil || u.GetHost().GetCordoned() || u.GetHost().GetDraining() {
		t.Errorf("uncordoned: %v, %v", u, err)
	}
	f.allocate(req)
	if _, err := f.hosts.Deregister(ctx, &bursarv1.DeregisterRequest{HostId: "h00"}); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("removed with something on it: %v", err)
	}
	if _, err := f.hosts.Deregister(ctx, &bursarv1.DeregisterRequest{HostId: "h00", Force: true}); err != nil {
		t.Error(err)
	}
	if _, err := f.hosts.Get(ctx, &bursarv1.HostServiceGetRequest{Id: "h00"}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("it is still there: %v", err)
	}
	f.audited()
}

func TestASyncHandsOverWhatWasGranted(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	a := f.allocate(request("r", mib))
	epoch := f.status().GetEpoch()
	res := f.sync("h1", epoch, 2, gib)
	if len(res.GetGrants()) != 1 || res.GetGrants()[0].GetId() != a.GetId() || res.GetEpoch() != epoch || res.GetInterval() == nil {
		t.Errorf("got %v", res)
	}
	if _, err := f.hosts.Sync(t.Context(), &bursarv1.SyncRequest{HostId: "h1", Incarnation: 1, Sequence: 2, Epoch: epoch, BootId: "boot"}); connect.CodeOf(err) != connect.CodeAborted {
		t.Errorf("an old sequence number: %v", err)
	}
	if res := f.sync("h1", 0, 3, gib); res.GetAction() != bursarv1.SyncAction_SYNC_ACTION_RESYNC {
		t.Errorf("an old epoch: %v", res)
	}
	if _, err := f.hosts.Sync(t.Context(), &bursarv1.SyncRequest{HostId: "never-registered", Incarnation: 1, Sequence: 1, BootId: "boot"}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("an unknown host: %v", err)
	}
	if _, err := f.hosts.Deregister(t.Context(), &bursarv1.DeregisterRequest{HostId: "h1", Force: true}); err != nil {
		t.Fatal(err)
	}
	if res := f.sync("h1", epoch, 4, gib); res.GetAction() != bursarv1.SyncAction_SYNC_ACTION_RESYNC || res.GetEpoch() != epoch {
		t.Errorf("a host that was forgotten: %v", res)
	}
}

func TestASyncBringsWhatBecameOfEngines(t *testing.T) {
	f := start(t, Config{}, nil)
	ctx := t.Context()
	f.host("h1", gib)
	epoch := f.status().GetEpoch()
	runs, ends, vetoed := f.allocate(request("runs", mib)), f.allocate(request("ends", mib)), f.allocate(request("vetoed", mib))
	seen := f.sync("h1", epoch, 2, gib).GetLedgerSequence()
	for pid, a := range []*bursarv1.Allocation{runs, ends} {
		confirm := &bursarv1.ConfirmRequest{Id: a.GetId(), Process: &bursarv1.Process{Pid: int32(pid + 10), StartTime: 5, BootId: "boot"}}
		if _, err := f.allocations.Confirm(ctx, confirm); err != nil {
			t.Fatal(err)
		}
	}
	signal := &bursarv1.ExitStatus{Signal: 9}
	res, err := f.hosts.Sync(ctx, &bursarv1.SyncRequest{
		HostId: "h1", Incarnation: 1, Sequence: 3, Epoch: epoch, BootId: "boot", LedgerSequence: seen, Capacity: memory(2 * gib),
		Sample:  &bursarv1.HostSample{MemoryTotalBytes: quantity(2 * gib), MemoryAvailableBytes: quantity(2 * gib), MemorySafetyBytes: quantity(0)},
		Engines: []*bursarv1.EngineReport{{AllocationId: runs.GetId(), Measured: memory(700), UnreclaimableBytes: 500}},
		Ended:   []*bursarv1.EngineEnd{{AllocationId: ends.GetId(), EndTime: runs.GetCreateTime(), ExitStatus: signal, Reason: "killed"}},
		Vetoes:  []*bursarv1.Veto{{AllocationId: vetoed.GetId(), HeadroomBytes: 3, Revision: vetoed.GetRevision()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{ends.GetId()}, res.GetAcknowledged()); diff != "" {
		t.Errorf("acknowledged: %s", diff)
	}
	if a := f.get(runs.GetId()); a.GetMeasured().GetMemoryBytes() != 700 || a.GetUnreclaimableBytes() != 500 || a.GetState() != active {
		t.Errorf("the one that runs: %v", a)
	}
	if a := f.get(ends.GetId()); a.GetState() != released || a.GetExitStatus().GetSignal() != 9 {
		t.Errorf("the one that ended: %v", a)
	}
	if a := f.get(vetoed.GetId()); a.GetState() != canceled || !strings.Contains(a.GetReason(), "veto") {
		t.Errorf("the one that was vetoed: %v", a)
	}
	h, err := f.hosts.Get(ctx, &bursarv1.HostServiceGetRequest{Id: "h1"})
	if err != nil || h.GetHost().GetEnginesMeasured().GetMemoryBytes() != 700 || h.GetHost().GetAccount().GetLimit().GetMemoryBytes() != 2*gib {
		t.Errorf("the host: %v, %v", h, err)
	}
	f.audited()
}

func TestAnEngineThatTheLedgerDoesNotKnowIsTakenOver(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	a := f.allocate(request("r", mib))
	if _, err := f.allocations.Confirm(t.Context(), &bursarv1.ConfirmRequest{Id: a.GetId(), Process: &bursarv1.Process{Pid: 10, StartTime: 5}}); err != nil {
		t.Fatal(err)
	}
	grant := f.get(a.GetId())

	other := start(t, Config{}, nil) // a store that has never heard of it
	other.host("h1", gib)
	_, err := other.hosts.Sync(t.Context(), &bursarv1.SyncRequest{
		HostId: "h1", Incarnation: 1, Sequence: 2, Epoch: other.status().GetEpoch(), BootId: "boot", Full: true,
		Engines: []*bursarv1.EngineReport{{AllocationId: a.GetId(), Measured: memory(700), Grant: grant}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := other.get(a.GetId()); got.GetLabels()["user"] != "@h1" || !cmp.Equal(got.GetClaimed().GetLabels(), grant.GetLabels()) || got.GetEntitled().GetMemoryBytes() != mib {
		t.Errorf("on its agent's word it is %v", got)
	}
	if _, err := other.hosts.Accept(t.Context(), &bursarv1.AcceptRequest{HostId: "h1", Ids: []string{a.GetId()}}); err != nil {
		t.Fatal(err)
	}
	got := other.get(a.GetId())
	if got.GetState() != active || got.GetProcess().GetPid() != 10 || !cmp.Equal(got.GetLabels(), grant.GetLabels()) ||
		got.GetEntitled().GetMemoryBytes() != mib || got.GetRequestId() != "r" {
		t.Errorf("got %v", got)
	}
	other.audited()
}
