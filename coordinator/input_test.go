package coordinator

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func asConnect(err error, target **connect.Error) bool { return errors.As(err, target) }

// badInput is a call that must be refused, with the field that the answer must name.
type badInput struct {
	call func(f *fixture) error
	code connect.Code
	// field is the prefix of the path that a Violations or an InvalidField names; "" if neither
	// fits.
	field string
}

func allocating(change func(*bursarv1.AllocateRequest)) func(f *fixture) error {
	return func(f *fixture) error {
		req := request("", mib)
		change(req)
		_, err := f.allocations.Allocate(f.tb.Context(), req)
		return err
	}
}

func confirming(req *bursarv1.ConfirmRequest) func(f *fixture) error {
	return func(f *fixture) error {
		_, err := f.allocations.Confirm(f.tb.Context(), req)
		return err
	}
}

func putting(q *bursarv1.Quota) func(f *fixture) error {
	return func(f *fixture) error {
		_, err := f.quotas.Put(f.tb.Context(), &bursarv1.PutRequest{Quota: q})
		return err
	}
}

func registering(change func(*bursarv1.RegisterRequest)) func(f *fixture) error {
	return func(f *fixture) error {
		req := &bursarv1.RegisterRequest{HostId: "h9", Incarnation: 1, Capacity: memory(gib)}
		change(req)
		_, err := f.hosts.Register(f.tb.Context(), req)
		return err
	}
}

func syncing(change func(*bursarv1.SyncRequest)) func(f *fixture) error {
	return func(f *fixture) error {
		req := &bursarv1.SyncRequest{HostId: "h1"}
		change(req)
		_, err := f.hosts.Sync(f.tb.Context(), req)
		return err
	}
}

const unknownID = "0123456789abc"

func badInputs() map[string]badInput {
	invalid := connect.CodeInvalidArgument
	return map[string]badInput{
		"no resource":     {allocating(func(r *bursarv1.AllocateRequest) { r.Resource = nil }), invalid, "resource"},
		"negative memory": {allocating(func(r *bursarv1.AllocateRequest) { r.Resource = memory(-1) }), invalid, "resource.memory_bytes"},
		"absurd memory":   {allocating(func(r *bursarv1.AllocateRequest) { r.Resource = memory(math.MaxInt64) }), invalid, "resource.memory_bytes"},
		"negative custom": {allocating(func(r *bursarv1.AllocateRequest) { r.Resource.Custom = map[string]int64{"gpu": -1} }), invalid, "resource.custom"},
		"custom named like a dimension": {
			allocating(func(r *bursarv1.AllocateRequest) { r.Resource.Custom = map[string]int64{"memory": 1} }), invalid, "resource.custom",
		},
		"bad label key":      {allocating(func(r *bursarv1.AllocateRequest) { r.Labels[" x"] = "y" }), invalid, "labels"},
		"empty label key":    {allocating(func(r *bursarv1.AllocateRequest) { r.Labels[""] = "y" }), invalid, "labels"},
		"control character":  {allocating(func(r *bursarv1.AllocateRequest) { r.Labels["x"] = "a\x00b" }), invalid, "labels"},
		"long label value":   {allocating(func(r *bursarv1.AllocateRequest) { r.Labels["x"] = strings.Repeat("v", 256) }), invalid, "labels"},
		"too many labels":    {allocating(func(r *bursarv1.AllocateRequest) { r.Labels = manyLabels(33) }), invalid, "labels"},
		"required label":     {allocating(func(r *bursarv1.AllocateRequest) { delete(r.Labels, "engineType") }), invalid, "labels[engineType]"},
		"claimed label":      {allocating(func(r *bursarv1.AllocateRequest) { r.Labels["tenant"] = "other" }), invalid, "labels[tenant]"},
		"blank request id":   {allocating(func(r *bursarv1.AllocateRequest) { r.RequestId = "a b" }), invalid, "request_id"},
		"long request id":    {allocating(func(r *bursarv1.AllocateRequest) { r.RequestId = strings.Repeat("r", 129) }), invalid, "request_id"},
		"negative wait":      {allocating(func(r *bursarv1.AllocateRequest) { r.Wait = seconds(-1) }), invalid, "wait"},
		"endless wait":       {allocating(func(r *bursarv1.AllocateRequest) { r.Wait = seconds(1 << 40) }), invalid, "wait"},
		"malformed duration": {allocating(func(r *bursarv1.AllocateRequest) { r.Wait = &durationpb.Duration{Nanos: math.MinInt32} }), invalid, "wait"},
		"no time to confirm": {allocating(func(r *bursarv1.AllocateRequest) { r.ReservationTtl = &durationpb.Duration{Nanos: 1} }), invalid, "reservation_ttl"},
		"absurd priority":    {allocating(func(r *bursarv1.AllocateRequest) { r.Priority = math.MaxInt32 }), invalid, "priority"},
		"bad wish": {allocating(func(r *bursarv1.AllocateRequest) {
			r.Host = &bursarv1.HostWishes{RequiredLabels: map[string]string{"": ""}}
		}), invalid, "host.required_labels"},
		"bad rule": {allocating(func(r *bursarv1.AllocateRequest) {
			r.Host = &bursarv1.HostWishes{RequiredRules: []string{"gpu", "zone within (a)"}}
		}), invalid, "host.required_rules[1]"},
		"bad rule for better hosts": {allocating(func(r *bursarv1.AllocateRequest) { r.Host = &bursarv1.HostWishes{PreferredRules: []string{""}} }), invalid, "host.preferred_rules[0]"},
		"bad rule for others":       {allocating(func(r *bursarv1.AllocateRequest) { r.Host = &bursarv1.HostWishes{AvoidedRules: []string{"cores>x"}} }), invalid, "host.avoided_rules[0]"},
		"unknown host":              {allocating(func(r *bursarv1.AllocateRequest) { r.Host = &bursarv1.HostWishes{Id: "nowhere"} }), connect.CodeResourceExhausted, ""},
		"no provider": {
			allocating(func(r *bursarv1.AllocateRequest) {
				r.Resource.External = []*bursarv1.ExternalResource{{Kind: "yarn", Path: "root.a", MemoryBytes: quantity(1)}}
			}), invalid, "resource.external",
		},
		"malformed external": {
			allocating(func(r *bursarv1.AllocateRequest) {
				r.Resource.External = []*bursarv1.ExternalResource{{Kind: "YARN!", Path: "root.a"}}
			}), invalid, "resource.external",
		},

		"confirm without id":      {confirming(&bursarv1.ConfirmRequest{}), invalid, "id"},
		"confirm a malformed id":  {confirming(&bursarv1.ConfirmRequest{Id: "nonsense"}), invalid, "id"},
		"confirm an unknown id":   {confirming(&bursarv1.ConfirmRequest{Id: unknownID}), connect.CodeNotFound, ""},
		"confirm a negative pid":  {confirming(&bursarv1.ConfirmRequest{Id: unknownID, Process: &bursarv1.Process{Pid: -1}}), invalid, "process.pid"},
		"confirm for no time":     {confirming(&bursarv1.ConfirmRequest{Id: unknownID, Lease: &durationpb.Duration{Nanos: 5}}), invalid, "lease"},
		"confirm negative memory": {confirming(&bursarv1.ConfirmRequest{Id: unknownID, Entitled: memory(-1)}), invalid, "entitled.memory_bytes"},
		"renew an unknown id": {func(f *fixture) error {
			_, err := f.allocations.Renew(f.tb.Context(), &bursarv1.RenewRequest{Id: unknownID})
			return err
		}, connect.CodeNotFound, ""},
		"resize to nothing said": {func(f *fixture) error {
			_, err := f.allocations.Resize(f.tb.Context(), &bursarv1.ResizeRequest{Id: unknownID})
			return err
		}, invalid, "entitled"},
		"stop with a negative grace": {func(f *fixture) error {
			_, err := f.allocations.Stop(f.tb.Context(), &bursarv1.StopRequest{Id: unknownID, Grace: seconds(-1)})
			return err
		}, invalid, "grace"},
		"get without a name": {func(f *fixture) error {
			_, err := f.allocations.Get(f.tb.Context(), &bursarv1.AllocationServiceGetRequest{})
			return err
		}, invalid, "id"},
		"get with two names": {func(f *fixture) error {
			_, err := f.allocations.Get(f.tb.Context(), &bursarv1.AllocationServiceGetRequest{Id: unknownID, RequestId: "r"})
			return err
		}, invalid, "request_id"},
		"get an unknown request": {func(f *fixture) error {
			_, err := f.allocations.Get(f.tb.Context(), &bursarv1.AllocationServiceGetRequest{RequestId: "never made"})
			return err
		}, connect.CodeNotFound, ""},
		"cancel without a name": {func(f *fixture) error {
			_, err := f.allocations.Cancel(f.tb.Context(), &bursarv1.CancelRequest{})
			return err
		}, invalid, "id"},
		"explain nothing": {func(f *fixture) error {
			_, err := f.allocations.Explain(f.tb.Context(), &bursarv1.ExplainRequest{})
			return err
		}, invalid, "id"},
		"explain a bad request": {func(f *fixture) error {
			_, err := f.allocations.Explain(f.tb.Context(), &bursarv1.ExplainRequest{Request: &bursarv1.AllocateRequest{Resource: memory(-1)}})
			return err
		}, invalid, "request.resource.memory_bytes"},
		"list a forged page": {func(f *fixture) error {
			_, err := f.allocations.List(f.tb.Context(), &bursarv1.AllocationServiceListRequest{PageToken: "AAAA"})
			return err
		}, invalid, "page_token"},
		"list a huge page": {func(f *fixture) error {
			_, err := f.allocations.List(f.tb.Context(), &bursarv1.AllocationServiceListRequest{PageSize: 1001})
			return err
		}, invalid, "page_size"},
		"list a state that is none": {func(f *fixture) error {
			_, err := f.allocations.List(f.tb.Context(), &bursarv1.AllocationServiceListRequest{States: []bursarv1.AllocationState{99}})
			return err
		}, invalid, "states"},
		"watch from the future": {func(f *fixture) error {
			stream, err := f.allocations.Watch(f.tb.Context(), &bursarv1.AllocationServiceWatchRequest{AfterRevision: 1 << 40})
			if err != nil {
				return err
			}
			defer stream.Close()
			stream.Receive()
			return stream.Err()
		}, connect.CodeOutOfRange, "after_revision"},
		"list what ended in another age": {func(f *fixture) error {
			_, err := f.allocations.List(f.tb.Context(), &bursarv1.AllocationServiceListRequest{EndedSince: &timestamppb.Timestamp{Seconds: 1 << 40}})
			return err
		}, invalid, "ended_since"},
		"list what ended before a time that is none": {func(f *fixture) error {
			_, err := f.allocations.List(f.tb.Context(), &bursarv1.AllocationServiceListRequest{EndedBefore: &timestamppb.Timestamp{Nanos: -1}})
			return err
		}, invalid, "ended_before"},

		"a host without a name":             {registering(func(r *bursarv1.RegisterRequest) { r.HostId = "" }), invalid, "host_id"},
		"a host with a bad name":            {registering(func(r *bursarv1.RegisterRequest) { r.HostId = "a b" }), invalid, "host_id"},
		"a host without capacity":           {registering(func(r *bursarv1.RegisterRequest) { r.Capacity = nil }), invalid, "capacity"},
		"a host with an epoch beyond reach": {registering(func(r *bursarv1.RegisterRequest) { r.Epoch = 1 << 60 }), invalid, "epoch"},
		"a host with a queue": {registering(func(r *bursarv1.RegisterRequest) {
			r.Capacity.External = []*bursarv1.ExternalResource{{Kind: "yarn", Path: "root"}}
		}), invalid, "capacity"},
		"cordon of a name that no agent can have": {func(f *fixture) error {
			_, err := f.hosts.Cordon(f.tb.Context(), &bursarv1.CordonRequest{HostId: "no where"})
			return err
		}, connect.CodeInvalidArgument, "host_id"},
		"cordon for no time": {func(f *fixture) error {
			_, err := f.hosts.Cordon(f.tb.Context(), &bursarv1.CordonRequest{HostId: "h1", Length: durationpb.New(-time.Second)})
			return err
		}, connect.CodeInvalidArgument, "length"},
		"uncordon nowhere": {func(f *fixture) error {
			_, err := f.hosts.Uncordon(f.tb.Context(), &bursarv1.UncordonRequest{HostId: "nowhere"})
			return err
		}, connect.CodeNotFound, ""},
		"deregister nowhere": {func(f *fixture) error {
			_, err := f.hosts.Deregister(f.tb.Context(), &bursarv1.DeregisterRequest{HostId: "nowhere"})
			return err
		}, connect.CodeNotFound, ""},
		"drain by a deadline far away": {func(f *fixture) error {
			_, err := f.hosts.Drain(f.tb.Context(), &bursarv1.DrainRequest{HostId: "h1", Deadline: seconds(1 << 30)})
			return err
		}, invalid, "deadline"},
		"drain by a deadline that is past": {func(f *fixture) error {
			_, err := f.hosts.Drain(f.tb.Context(), &bursarv1.DrainRequest{HostId: "h1", Deadline: seconds(-1)})
			return err
		}, invalid, "deadline"},
		"sync with over-use below zero": {
			syncing(func(r *bursarv1.SyncRequest) {
				r.Engines = []*bursarv1.EngineReport{{AllocationId: unknownID, OverUse: []*bursarv1.OverUse{{Used: -1}}}}
			}), invalid, "engines[0].over_use[0].used",
		},
		"sync with over-use without end": {
			syncing(func(r *bursarv1.SyncRequest) {
				r.Engines = []*bursarv1.EngineReport{{AllocationId: unknownID, OverUse: slices.Repeat([]*bursarv1.OverUse{{Dimension: "memory"}}, 17)}}
			}), invalid, "engines[0].over_use",
		},
		"sync with a long refusal": {
			syncing(func(r *bursarv1.SyncRequest) { r.Sample = &bursarv1.HostSample{Refusal: strings.Repeat("r", 1025)} }), invalid, "sample.refusal",
		},
		"sync with too many disks": {
			syncing(func(r *bursarv1.SyncRequest) {
				r.Sample = &bursarv1.HostSample{Disks: slices.Repeat([]*bursarv1.DiskSample{{}}, 65)}
			}), invalid, "sample.disks",
		},
		"sync with a disk below zero": {
			syncing(func(r *bursarv1.SyncRequest) {
				r.Sample = &bursarv1.HostSample{Disks: []*bursarv1.DiskSample{{FreeBytes: -1}}}
			}), invalid, "sample.disks[0].free_bytes",
		},
		"sync with a malformed id": {func(f *fixture) error {
			_, err := f.hosts.Sync(f.tb.Context(), &bursarv1.SyncRequest{HostId: "h1", Engines: []*bursarv1.EngineReport{{AllocationId: "?"}}})
			return err
		}, invalid, "engines.allocation_id"},

		"a rule with a bad key": {putting(&bursarv1.Quota{Selector: map[string]string{"": "x"}}), invalid, "quota.selector"},
		"a rule below zero":     {putting(&bursarv1.Quota{Selector: map[string]string{"user": "x"}, Limit: memory(-1)}), invalid, "quota.limit"},
		"a rule that promises more than it has": {
			putting(&bursarv1.Quota{Selector: map[string]string{"user": "x"}, Limit: memory(1), Guaranteed: memory(2)}), invalid, "quota.guaranteed",
		},
		"delete no rule": {func(f *fixture) error {
			_, err := f.quotas.Delete(f.tb.Context(), &bursarv1.DeleteRequest{Selector: map[string]string{"user": "nobody"}})
			return err
		}, connect.CodeNotFound, ""},
		"apply one selector twice": {func(f *fixture) error {
			q := &bursarv1.Quota{Selector: map[string]string{"user": "x"}, Limit: memory(1)}
			_, err := f.quotas.Apply(f.tb.Context(), &bursarv1.ApplyRequest{Quotas: []*bursarv1.Quota{q, q}})
			return err
		}, invalid, "quotas[1].selector"},
		"apply a tie": {func(f *fixture) error {
			_, err := f.quotas.Apply(f.tb.Context(), &bursarv1.ApplyRequest{Quotas: []*bursarv1.Quota{
				{Selector: map[string]string{"tenant": "x"}, Limit: memory(1)},
				{Selector: map[string]string{"user": "x", "creator": "*"}, Limit: memory(1)},
				{Selector: map[string]string{"user": "*", "creator": "y"}, Limit: memory(1)},
			}})
			return err
		}, invalid, "quotas["},
		"apply to a file": {func(f *fixture) error {
			_, err := f.quotas.Apply(f.tb.Context(), &bursarv1.ApplyRequest{Source: "file:/etc/x"})
			return err
		}, invalid, "source"},
		"a queue": {func(f *fixture) error {
			_, err := f.queues.Get(f.tb.Context(), &bursarv1.QueueServiceGetRequest{Kind: "yarn", Path: "root"})
			return err
		}, connect.CodeInvalidArgument, "queue.kind"},
		"a provider": {func(f *fixture) error {
			_, err := f.queues.PutProvider(f.tb.Context(), &bursarv1.PutProviderRequest{Provider: &bursarv1.Provider{Kind: "yarn", Cluster: "c"}})
			return err
		}, connect.CodeInvalidArgument, "provider.kind"},
	}
}

func manyLabels(n int) map[string]string {
	labels := make(map[string]string)
	for i := range n {
		labels[fmt.Sprint("k", i)] = "v"
	}
	return labels
}

// fieldOf is the field that an INVALID_ARGUMENT names, by either detail.
func fieldOf(err error) string {
	if m, ok := detail[*bursarv1.InvalidField](err); ok {
		return m.GetField()
	}
	if m, ok := detail[*validate.Violations](err); ok && len(m.GetViolations()) > 0 {
		return protovalidate.FieldPathString(m.GetViolations()[0].GetField())
	}
	return ""
}

func TestBadInputIsRefusedByNameAndHarmsNothing(t *testing.T) {
	var config Config
	config.Labels.Required = []string{"engineType"}
	config.Labels.Derived = append(config.Labels.Derived, tenantOfUser())
	f := start(t, config, nil)
	f.host("h1", gib)
	before := f.status()
	inputs := badInputs()
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		input := inputs[name]
		err := input.call(f)
		if connect.CodeOf(err) != input.code || err == nil {
			t.Errorf("%s: got %v: want %s", name, err, input.code)
			continue
		}
		if !strings.HasPrefix(fieldOf(err), input.field) {
			t.Errorf("%s: field %q in %v: want %q", name, fieldOf(err), err, input.field)
		}
		if len(err.Error()) < 20 {
			t.Errorf("%s: %q says nothing", name, err)
		}
	}
	f.audited()
	after := f.status()
	if after.GetRevision() != before.GetRevision() || after.GetQuotaRules() != 0 || after.GetEpoch() != before.GetEpoch() {
		t.Errorf("the ledger has changed: %v, before %v", after, before)
	}
}

func TestALargeBodyIsRefusedWithItsSize(t *testing.T) {
	f := start(t, Config{}, nil)
	large := `{"requestId":"` + strings.Repeat("x", 10<<20) + `"}`
	url := f.url + "/bursar.v1.AllocationService/Allocate"
	for name, body := range map[string]io.Reader{
		"with its length":    strings.NewReader(large),
		"without its length": io.MultiReader(strings.NewReader(large)), // sent in chunks
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := f.http.Do(req)
		if err != nil { // the server may hang up before all was sent
			t.Logf("%s: %v", name, err)
			continue
		}
		answer, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusBadRequest || !bytes.Contains(answer, []byte("bursar.v1.InvalidField")) || !bytes.Contains(answer, []byte("131072")) {
			t.Errorf("%s: %d %s", name, res.StatusCode, answer)
		}
	}
	f.host("h1", gib)
	f.allocate(request("", mib)) // it still serves
}

func TestAFullReportMayBeLarge(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	req := &bursarv1.SyncRequest{HostId: "h1", Incarnation: 1, Sequence: 2, Epoch: f.status().GetEpoch(), BootId: "boot"}
	for range 3000 {
		req.Engines = append(req.Engines, &bursarv1.EngineReport{AllocationId: unknownID, Grant: &bursarv1.Allocation{
			Id: unknownID, Reason: strings.Repeat("r", 400),
		}})
	}
	if _, err := f.hosts.Sync(t.Context(), req); err != nil {
		t.Error(err)
	}
}

func TestAConnectionThatStallsIsClosed(t *testing.T) {
	f := start(t, Config{}, nil, func(s *Server) {
		s.timeouts.Header, s.timeouts.Body, s.timeouts.Idle = 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
	})
	for name, sent := range map[string]string{
		"before anything":    "",
		"within the headers": "POST /bursar.v1.AllocationService/Allocate HTTP/1.1\r\nHost: x\r\n",
		"within the body": "POST /bursar.v1.AllocationService/Allocate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" +
			"Content-Length: 100\r\n\r\n{",
		"between two requests": "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
		"within HTTP/2":        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			var dialer net.Dialer
			conn, err := dialer.DialContext(t.Context(), "tcp", f.server.Address())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, sent); err != nil {
				t.Fatal(err)
			}
			if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection is still open after 20 s")
			}
		})
	}
}

func TestAWaitOutlastsTheTimeForTheBody(t *testing.T) {
	f := start(t, Config{}, nil, func(s *Server) { s.timeouts.Body = 20 * time.Millisecond })
	f.host("h1", gib)
	f.allocate(request("all", gib))
	req := request("waits", gib)
	req.Wait = &durationpb.Duration{Nanos: 200e6}
	_, err := f.allocations.Allocate(t.Context(), req)
	if m, ok := detail[*bursarv1.InsufficientResources](err); !ok || m.GetReason() != "waited" {
		t.Errorf("got %v", err)
	}
}

// tenantOfUser is a rule that derives the tenant from the user.
func tenantOfUser() label.Derivation {
	return label.Derivation{Key: "tenant", From: "user", Values: map[string]string{"alice": "search"}, Default: "guests"}
}
