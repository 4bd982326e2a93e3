package coordinator

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// playedAgent sends what a host's agent would.
type playedAgent struct {
	*fixture

	host            string
	epoch, sequence uint64
	seen            uint64
}

// agent registers a host with 8 GiB. Its agent then reports what the test says.
func (f *fixture) agent(host string) *playedAgent {
	f.tb.Helper()
	f.host(host, 8*gib)
	return &playedAgent{fixture: f, host: host, epoch: f.status().GetEpoch(), sequence: 1}
}

// beat sends a heartbeat in which all memory is free.
func (a *playedAgent) beat(change func(*bursarv1.SyncRequest)) *bursarv1.SyncResponse {
	a.tb.Helper()
	a.sequence++
	req := &bursarv1.SyncRequest{
		HostId: a.host, Incarnation: 1, Sequence: a.sequence, Epoch: a.epoch, BootId: "boot", LedgerSequence: a.seen,
		Sample: &bursarv1.HostSample{MemoryTotalBytes: quantity(8 * gib), MemoryAvailableBytes: quantity(8 * gib), MemorySafetyBytes: quantity(0)},
	}
	change(req)
	res, err := a.hosts.Sync(a.tb.Context(), req)
	if err != nil {
		a.tb.Fatal(err)
	}
	a.seen = res.GetLedgerSequence()
	return res
}

// engine is one with 1 GiB that runs on the host.
func (a *playedAgent) engine() string {
	a.tb.Helper()
	req := request("r1", gib)
	req.Host = &bursarv1.HostWishes{Id: a.host}
	id := a.allocate(req).GetId()
	if _, err := a.allocations.Confirm(a.tb.Context(), &bursarv1.ConfirmRequest{Id: id, Process: &bursarv1.Process{Pid: 100, StartTime: 7}}); err != nil {
		a.tb.Fatal(err)
	}
	return id
}

// says reports an engine's over-use.
func (a *playedAgent) says(id string, over ...*bursarv1.OverUse) {
	a.tb.Helper()
	a.beat(func(req *bursarv1.SyncRequest) {
		req.Engines = []*bursarv1.EngineReport{{AllocationId: id, OverUse: over}}
	})
}

func memoryOverUse(used int64, policy bursarv1.OverUsePolicy) *bursarv1.OverUse {
	return &bursarv1.OverUse{
		Dimension: "memory", Used: used, Entitled: gib, Policy: policy, Since: timestamppb.New(time.Unix(1_900_000_000, 0)),
	}
}

const (
	warnOnly = bursarv1.OverUsePolicy_OVER_USE_POLICY_WARN
	toKill   = bursarv1.OverUsePolicy_OVER_USE_POLICY_KILL
)

func (f *fixture) wantMetric(line string) {
	f.tb.Helper()
	if !strings.Contains(f.metrics(), "\n"+line+"\n") {
		f.tb.Errorf("there is no metric %s", line)
	}
}

func (f *fixture) wantOverUse(id string, want ...*bursarv1.OverUse) {
	f.tb.Helper()
	if diff := cmp.Diff(want, f.get(id).GetOverUse(), protocmp.Transform()); diff != "" {
		f.tb.Errorf("over-use of %s (-want +got):\n%s", id, diff)
	}
}

// A time that JSON cannot express would break the answer to a List.
func TestATimeThatIsNoneIsNotTaken(t *testing.T) {
	f := start(t, Config{}, newMemoryStore())
	a := f.agent("h1")
	id, began := a.engine(), time.Now()
	for _, at := range []*timestamppb.Timestamp{
		{Seconds: 1, Nanos: math.MinInt32},
		{Seconds: 1, Nanos: -1},
		{Seconds: 1, Nanos: 1e9},
		{Seconds: 1, Nanos: math.MaxInt32},
		{Seconds: -1},
		{Seconds: math.MinInt64, Nanos: -1},
		{Seconds: math.MaxInt64 / int64(time.Second), Nanos: 999_999_999},
		{Seconds: math.MaxInt64},
	} {
		over := memoryOverUse(2*gib, toKill)
		over.Since, over.StopTime = at, at
		a.says(id, over)
		got := f.get(id)
		if since := got.GetOverUse()[0].GetSince().AsTime(); since.Before(began) || got.GetOverUse()[0].GetStopTime() != nil {
			t.Errorf("%v: over-use since %s, stops at %v: want since it was reported, and no stop", at, since, got.GetOverUse()[0].GetStopTime())
		}
		if _, err := protojson.Marshal(got); err != nil {
			t.Errorf("%v: %v", at, err)
		}
		a.says(id)
	}
}

func TestOverUseIsShownWhileItLastsAndInTheHistory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	f := start(t, Config{}, openSQLite(t, path))
	a := f.agent("h1")
	id := a.engine()
	before := f.get(id).GetRevision()

	first := memoryOverUse(2*gib, toKill)
	first.StopTime = timestamppb.New(time.Unix(1_900_000_030, 0))
	a.says(id, first)
	a.wantOverUse(id, first)
	begun := f.get(id).GetRevision()
	if begun <= before {
		t.Errorf("it began at revision %d, after %d", begun, before)
	}
	if w := strings.Join(f.status().GetWarnings(), "\n"); !strings.Contains(w, "more than they are entitled to: 1 of 1; that are stopped for it if it goes on: 1") {
		t.Errorf("status warns %q", w)
	}
	f.wantMetric(`bursar_engines_over_use{dimension="memory",policy="kill"} 1`)
	f.wantMetric(`bursar_engines_over_use{dimension="cpu",policy="warn"} 0`)

	later := memoryOverUse(3*gib, toKill)
	a.says(id, later)
	a.wantOverUse(id, first) // as it began
	if got := f.get(id).GetRevision(); got != begun {
		t.Errorf("what goes on is not news: revision %d, want %d", got, begun)
	}
	f.audited()

	f.stop()
	f = start(t, Config{}, openSQLite(t, path))
	f.wantOverUse(id, first)
	f.release(id)
	f.wantOverUse(id, first) // of an engine that has ended, what it used in the end
	if w := f.status().GetWarnings(); len(w) > 0 {
		t.Errorf("status warns %q of an engine that has ended", w)
	}
	f.wantMetric(`bursar_engines_over_use{dimension="memory",policy="kill"} 0`)
}

func TestWatchTellsOfTheBeginningAndTheEndOfOverUse(t *testing.T) {
	f := start(t, Config{}, nil)
	a := f.agent("h1")
	id := a.engine()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := f.allocations.Watch(ctx, &bursarv1.AllocationServiceWatchRequest{Id: id, AfterRevision: f.get(id).GetRevision()})
	if err != nil {
		t.Fatal(err)
	}
	a.says(id, memoryOverUse(2*gib, warnOnly))
	a.says(id, memoryOverUse(3*gib, warnOnly))
	a.says(id, memoryOverUse(3*gib, toKill))
	a.says(id)
	var seen []string
	for len(seen) < 3 && stream.Receive() {
		if m := stream.Msg().GetAllocation(); m != nil {
			text := "keeps to it"
			if over := m.GetOverUse(); len(over) > 0 {
				text = over[0].GetPolicy().String()
			}
			seen = append(seen, text)
		}
	}
	cancel()
	if diff := cmp.Diff([]string{warnOnly.String(), toKill.String(), "keeps to it"}, seen); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	_ = stream.Close()
}

// An agent that is broken, or another's, marks nothing that is not its own to mark.
func TestOverUseIsBelievedOfTheHostsOwnEnginesAlone(t *testing.T) {
	f := start(t, Config{}, nil)
	one, two := f.agent("h1"), f.agent("h2")
	id := one.engine()
	two.says(id, memoryOverUse(2*gib, toKill))
	one.wantOverUse(id)

	known := memoryOverUse(2*gib, warnOnly)
	one.says(id,
		&bursarv1.OverUse{Dimension: "patience", Used: 1, Policy: toKill},
		&bursarv1.OverUse{Dimension: "memory", Used: 1, Policy: 99},
		known,
		memoryOverUse(4*gib, toKill), // the same once more
	)
	one.wantOverUse(id, known)

	waiting := request("r2", 100*gib)
	waiting.Host, waiting.Wait, waiting.Async = &bursarv1.HostWishes{Id: "h1"}, seconds(60), true
	waiting.Resource = memory(8 * gib)
	w := f.allocate(waiting).GetId()
	one.says(w, known)
	one.wantOverUse(w)
	f.audited()
}

func TestAHostWhoseAgentRefusesTakesNothing(t *testing.T) {
	f := start(t, Config{}, nil)
	a := f.agent("h1")
	disks := []*bursarv1.DiskSample{{Path: "/data", TotalBytes: 100 * gib, FreeBytes: gib, TotalInodes: 1000, FreeInodes: 10, Short: true}}
	a.beat(func(req *bursarv1.SyncRequest) {
		req.Sample.Refusal, req.Sample.Disks = "/data has 1GiB left,\nwants 10GiB\x1b[31m", disks
		req.Sample.HugePagesTotalBytes, req.Sample.HugePagesFreeBytes = quantity(2*gib), quantity(gib)
		req.Sample.SwapTotalBytes, req.Sample.OutOfMemoryKills = quantity(4*gib), quantity(3)
	})
	const text = "/data has 1GiB left, wants 10GiB [31m"
	res, err := f.hosts.Get(t.Context(), &bursarv1.HostServiceGetRequest{Id: "h1"})
	if err != nil {
		t.Fatal(err)
	}
	h, s := res.GetHost(), res.GetHost().GetSample()
	if h.GetUnavailableReason() != text || s.GetRefusal() != text {
		t.Errorf("it is closed because of %q, and refuses with %q", h.GetUnavailableReason(), s.GetRefusal())
	}
	if diff := cmp.Diff(disks, s.GetDisks(), protocmp.Transform()); diff != "" {
		t.Errorf("disks (-want +got):\n%s", diff)
	}
	if s.GetHugePagesTotalBytes() != 2*gib || s.GetHugePagesFreeBytes() != gib || s.GetSwapTotalBytes() != 4*gib || s.GetOutOfMemoryKills() != 3 {
		t.Errorf("sample: %v", s)
	}

	_, err = f.allocations.Allocate(t.Context(), request("", mib))
	in, ok := detail[*bursarv1.InsufficientResources](err)
	if !ok || connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Fatalf("allocate: %v", err)
	}
	if short := in.GetShortfalls(); len(short) != 1 || short[0].GetNote() != "refused" || short[0].GetDetail() != text || in.GetFilters().GetMeasurement() != 1 {
		t.Errorf("refused with %v", in)
	}
	x, err := f.allocations.Explain(t.Context(), &bursarv1.ExplainRequest{Request: request("", mib)})
	if err != nil || !strings.Contains(x.GetSummary(), "(refused: "+text+")") {
		t.Errorf("explained as %q, %v", x.GetSummary(), err)
	}
	if w := strings.Join(f.status().GetWarnings(), "\n"); !strings.Contains(w, "hosts whose agents take no engines: 1 of 1") {
		t.Errorf("status warns %q", w)
	}
	f.wantMetric("bursar_hosts_refusing 1")

	req := request("r1", mib)
	req.Wait, req.Async = seconds(60), true
	id := f.allocate(req).GetId()
	if got := f.get(id).GetState(); got != bursarv1.AllocationState_ALLOCATION_STATE_WAITING {
		t.Fatalf("it is %v", got)
	}
	a.beat(func(*bursarv1.SyncRequest) {})
	if got := f.get(id).GetState(); got != bursarv1.AllocationState_ALLOCATION_STATE_RESERVED {
		t.Errorf("after the refusal it is %v", got)
	}
}

func TestEndsForLackOfMemoryAreRememberedAndCounted(t *testing.T) {
	f := start(t, Config{}, nil)
	a := f.agent("h1")
	id := a.engine()
	ended := &bursarv1.EngineEnd{
		AllocationId: id, ExitStatus: &bursarv1.ExitStatus{Signal: 9, OutOfMemory: true}, Reason: "killed for lack of memory: its cgroup's limit of 1.1GiB",
	}
	for range 2 { // until it is acknowledged
		a.beat(func(req *bursarv1.SyncRequest) { req.Ended = append(req.Ended, ended) })
	}
	got := f.get(id)
	if got.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_RELEASED || !got.GetExitStatus().GetOutOfMemory() || got.GetReason() != ended.GetReason() {
		t.Errorf("it is %v", got)
	}
	f.wantMetric("bursar_engines_out_of_memory_total 1")
}

func TestADeadlineStopsWhatIsLeftOnADrainedHost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	f := start(t, Config{}, openSQLite(t, path))
	a := f.agent("h1")
	id := a.engine()
	reserved := request("r2", gib)
	reserved.Host = &bursarv1.HostWishes{Id: "h1"}
	other := f.allocate(reserved).GetId()

	far, err := f.hosts.Drain(t.Context(), &bursarv1.DrainRequest{HostId: "h1", Reason: "disk", Deadline: seconds(3600)})
	if why := far.GetHost().GetUnavailableReason(); err != nil || !strings.HasPrefix(why, "draining: disk; deadline for its engines: 2") {
		t.Errorf("drained by a deadline: %q, %v", why, err)
	}
	if res := a.beat(func(*bursarv1.SyncRequest) {}); len(res.GetStops()) > 0 || res.GetAction() != bursarv1.SyncAction_SYNC_ACTION_DRAIN {
		t.Errorf("before the deadline the agent is told %v", res)
	}
	if _, err := f.hosts.Drain(t.Context(), &bursarv1.DrainRequest{HostId: "h1", Reason: "disk", Deadline: seconds(0)}); err != nil {
		t.Fatal(err)
	}
	if got := f.get(other); got.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_CANCELED {
		t.Errorf("what was reserved is %v", got)
	}
	f.stop()

	f = start(t, Config{}, openSQLite(t, path)) // the next leader goes on with it
	running := f.get(id)
	if !running.GetStopping() {
		t.Errorf("what was active is %v", running)
	}
	a = f.agent("h1")
	res := a.beat(func(req *bursarv1.SyncRequest) {
		req.Full, req.Engines = true, []*bursarv1.EngineReport{{AllocationId: id, Grant: running}}
	})
	if stops := res.GetStops(); len(stops) != 1 || stops[0].GetAllocationId() != id || stops[0].GetReason() != "host h1 is drained: disk" {
		t.Errorf("its agent is told %v", res)
	}
}

// An unknown engine that runs is taken over even if its agent's record of it is damaged. No more
// of the record is kept than of a request.
func TestAnAgentsRecordIsTakenInBounds(t *testing.T) {
	f := start(t, Config{}, nil)
	a := f.agent("h1")
	running := f.get(a.engine())
	running.Id = "1qytgb3d9wefn"
	running.Address, running.Caller, running.Stopping = strings.Repeat("a", 10_000), strings.Repeat("c", 10_000), true
	running.RequestId = strings.Repeat("r", 10_000)
	running.ApplicationIds = append(slices.Repeat([]string{"application"}, 1000), strings.Repeat("x", 1000))
	res := a.beat(func(req *bursarv1.SyncRequest) {
		req.Full, req.Engines = true, []*bursarv1.EngineReport{{AllocationId: running.GetId(), Grant: running}}
		req.Sample.Degraded = map[string]string{"psi": strings.Repeat("y", 10_000)}
	})
	got := f.get(running.GetId())
	if got.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE || len(got.GetAddress()) != 512 || len(got.GetClaimed().GetCaller()) != 256 ||
		got.GetClaimed().GetRequestId() != "" || len(got.GetApplicationIds()) != 64 {
		t.Errorf("it is taken over as %v", got)
	}
	if stops := res.GetStops(); len(stops) != 1 || stops[0].GetGrace().AsDuration() != 10*time.Second || stops[0].GetReason() == "" {
		t.Errorf("an engine that was stopping has the orders %v", stops)
	}
	h, err := f.hosts.Get(t.Context(), &bursarv1.HostServiceGetRequest{Id: "h1"})
	if why := h.GetHost().GetSample().GetDegraded()["psi"]; err != nil || len(why) != 256 {
		t.Errorf("%d bytes of why something was not measured, %v", len(why), err)
	}
}
