package coordinator

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/coordinator/core"
	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/seal"
	"github.com/bursar/bursar/coordinator/wire"
	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/internal/readlimit"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/resource"
)

// largeRequest says as much as a request may, in labels, which an answer to an agent has as well.
func largeRequest(id string) *bursarv1.AllocateRequest {
	req := request(id, mib)
	for i := 0; proto.Size(req) < convert.MaxAllocationSize-300; i++ {
		req.Labels[fmt.Sprintf("label-%02d", i)] = strings.Repeat("x", 255)
	}
	return req
}

// One user's requests must not make the answer to a host's agent larger than the agent reads:
// stops would not arrive there any more.
func TestAHostIsNeverGivenMoreThanItsAgentCanBeToldOf(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", 1<<50)
	labels, err := convert.LabelsFromProto(largeRequest("").GetLabels())
	if err != nil {
		t.Fatal(err)
	}
	pid := int32(100)
	fill := func(l *ledger.Ledger, now ledger.Instant) {
		for i := range 100 {
			c := ledger.AllocateCommand{Actor: identity.Local(), Labels: labels, Resource: resource.NewResource(resource.Vector{}.WithMemory(1))}
			if i%8 < 4 { // one caller has half of a host at most
				c.Actor = identity.Actor{Name: "other", Anyone: true}
			}
			if i%4 == 0 { // and small ones, which take the most beyond what their requests say
				c.Labels = label.Set{{Key: "user", Value: "alice"}}
			}
			granted, err := l.Allocate(now, c)
			if err != nil {
				continue
			}
			id := granted.Allocation.ID
			pid++
			_, err = l.Confirm(now, ledger.ConfirmCommand{
				Actor: identity.Local(), ID: id, Process: ledger.Process{PID: pid, StartTime: 1, Cgroup: strings.Repeat("/c", 100), BootID: "boot"},
			})
			if err == nil {
				_, err = l.Stop(now, ledger.StopCommand{Actor: identity.Local(), ID: id, Reason: strings.Repeat("r", 1024)})
			}
			if err != nil {
				t.Error(err)
			}
		}
	}
	for range 36 { // 2,700 large ones: 21 MB
		if err := f.server.loop.Do(t.Context(), fill); err != nil {
			t.Fatal(err)
		}
	}
	_, refused := f.allocations.Allocate(t.Context(), largeRequest("more"))
	short, found := detail[*bursarv1.InsufficientResources](refused)
	if connect.CodeOf(refused) != connect.CodeResourceExhausted || !found || !strings.Contains(fmt.Sprint(short), "its agent can be sent") {
		t.Fatalf("a host with 2,700 large rows takes one more: %v", refused)
	}
	res, err := f.hosts.Get(t.Context(), &bursarv1.HostServiceGetRequest{Id: "h1"})
	if err != nil || !strings.Contains(res.GetHost().GetUnavailableReason(), "its agent can be sent") {
		t.Errorf("the host says %q, %v", res.GetHost().GetUnavailableReason(), err)
	}
	// A full report without them would release them. This report is not a full one, and its answer
	// is complete all the same.
	bytes := int64(1 << 50)
	answer, err := f.hosts.Sync(t.Context(), &bursarv1.SyncRequest{
		HostId: "h1", Incarnation: 1, Sequence: 2, Epoch: f.status().GetEpoch(), BootId: "boot",
		Sample: &bursarv1.HostSample{MemoryTotalBytes: &bytes, MemoryAvailableBytes: &bytes, MemorySafetyBytes: quantity(0)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !answer.GetComplete() || len(answer.GetStops()) != len(answer.GetGrants()) || len(answer.GetStops()) < 1000 {
		t.Fatalf("complete: %t, %d stops, %d grants", answer.GetComplete(), len(answer.GetStops()), len(answer.GetGrants()))
	}
	size := proto.Size(answer)
	t.Logf("%d engines, all to be stopped, are an answer of %d bytes; an agent reads %d", len(answer.GetGrants()), size, readlimit.Agent)
	if size > readlimit.Agent-readlimit.Agent/16 {
		t.Errorf("an answer of %d bytes, and an agent reads %d", size, readlimit.Agent)
	}
	f.audited()
}

// What the ledger counts for a row bounds what that takes in an answer to an agent.
func TestLiveBytesBoundWhatAnAgentIsSent(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 36))
	text := func(most int) string { return strings.Repeat("t", random.IntN(most+1)) }
	quantities := func(count int) (v resource.Vector) {
		if random.IntN(2) > 0 {
			v = v.WithMemory(resource.MaxQuantity).WithCPU(resource.MaxQuantity).WithInstances(resource.MaxQuantity)
		}
		for i := range random.IntN(count + 1) {
			v = v.With(fmt.Sprint(i)+text(60), resource.MaxQuantity)
		}
		return v
	}
	some := func() (r resource.Resource) {
		r.Vector = quantities(16)
		for range random.IntN(9) {
			at := resource.Address{Kind: text(32), Cluster: text(128), Path: text(512), Partition: text(128)}
			r.External = append(r.External, resource.External{Address: at, Vector: quantities(16)})
		}
		return r
	}
	for i := range 2000 {
		sealer := seal.Sealer{Keys: seal.NewKeys()}
		at := ledger.At(time.Date(2100, 1, 1, 0, 0, 0, 999_999_999, time.UTC))
		a := ledger.Allocation{
			ID: math.MaxUint64, RequestID: text(128), Caller: text(256), State: ledger.Active, Requested: some(), Entitled: some(),
			HostID: text(253), HostAddress: text(512), Priority: -1, Created: at, Reserved: at, Confirmed: at, Expires: at, ReservationTTL: time.Hour,
			OverLimit: true, Stopping: true, StopGrace: time.Hour - 1, Reason: text(1024), StopReason: text(1024),
			Process: ledger.Process{PID: math.MaxInt32, StartTime: math.MaxUint64, Cgroup: text(4096), BootID: text(64), Verified: true},
			Address: text(512), Revision: math.MaxUint64, GrantRevision: math.MaxUint64,
		}
		for i := range random.IntN(33) {
			a.Labels = append(a.Labels, label.Label{Key: fmt.Sprint(i) + text(60), Value: text(255)})
		}
		for range random.IntN(65) {
			a.ApplicationIDs = append(a.ApplicationIDs, text(128))
		}
		if i%2 == 0 {
			a.Claimed = &ledger.Claim{Caller: text(256), RequestID: text(128), Labels: a.Labels, Requested: some(), Entitled: some()}
		}
		r := &core.Report{Result: ledger.SyncResult{Grants: []ledger.Allocation{a}, Stops: []ledger.StopOrder{{ID: a.ID, Grace: a.StopGrace, Reason: a.StopReason}}}}
		if size := int64(proto.Size(wire.SyncResponse(r, sealer))) - int64(proto.Size(wire.SyncResponse(&core.Report{}, sealer))); size > a.LiveBytes() {
			t.Fatalf("counts as %d and takes %d: %+v", a.LiveBytes(), size, a)
		}
	}
}

func TestACallerBeyondItsLiveBytesIsToldSo(t *testing.T) {
	f := start(t, Config{Limits: Limits{CallerLiveBytes: 64 << 10}}, nil)
	f.host("h1", gib)
	var err error
	n := 0
	for ; err == nil && n < 100; n++ {
		req := largeRequest(fmt.Sprint(n))
		req.Wait, req.Async, req.Resource = durationpb.New(time.Hour), true, memory(gib)
		_, err = f.allocations.Allocate(t.Context(), req)
	}
	if connect.CodeOf(err) != connect.CodeResourceExhausted || !strings.Contains(err.Error(), "limits.callerLiveBytes") || !strings.Contains(err.Error(), "at most 65536") {
		t.Fatalf("after %d: %v", n, err)
	}
	const warning = `caller "local": its live allocations take `
	if list := f.status().GetWarnings(); !slices.ContainsFunc(list, func(w string) bool { return strings.HasPrefix(w, warning) }) {
		t.Errorf("status warns of %q: want the caller", list)
	}
	f.wantMetric("bursar_callers_full 1")
	if again := admission.TryAgain(err); again != fullFor {
		t.Errorf("it may try again after %s: want %s", again, fullFor)
	}
	req := largeRequest("0")
	req.Wait, req.Async, req.Resource = durationpb.New(time.Hour), true, memory(gib)
	if _, err := f.allocations.Allocate(t.Context(), req); err != nil {
		t.Errorf("a repeat: %v", err)
	}
	f.audited()
}

// An agent may see the allocations of its host only. Who has many elsewhere is not shown to it.
func TestAgentsAreNotToldWhoHasManyAllocations(t *testing.T) {
	full := make([]ledger.LiveFullError, mostFull+5)
	if list := fullWarnings(identity.Actor{Name: "h1", Role: identity.Agent, Host: "h1"}, full); len(list) > 0 {
		t.Errorf("an agent is told %q", list)
	}
	list := fullWarnings(identity.Local(), full)
	if len(list) != mostFull+1 || !strings.HasPrefix(list[mostFull], "and 5 more") {
		t.Errorf("others are told %q", list)
	}
}
