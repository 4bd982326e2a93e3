package coordinator

import (
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/internal/access"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/test/proc"
)

// A made-up host of 1 PiB got every placement. Its identity bounds it now, at Register and at Sync.
func TestAHostGetsNoMoreThanItsIdentityAllows(t *testing.T) {
	agent, submitter := access.NewToken(), access.NewToken()
	file := filepath.Join(t.TempDir(), "identities.yaml")
	writeFile(t, file, fmt.Sprintf(`identities:
- {name: vm-1, role: agent, host: h1, tokenHash: %s, capacity: {memory: 8GiB, cpu: 4}, labels: {zone: a}}
- {name: alice, role: submitter, users: [alice], tokenHash: %s}
`, access.Hash(agent), access.Hash(submitter)))
	log := &proc.Output{}
	f := start(t, Config{Identities: file}, nil, func(s *Server) { s.loop.Log = slog.New(slog.NewTextHandler(log, nil)) })
	as := func(token string) *http.Client {
		return &http.Client{Transport: &bearer{f.http.Transport, http.Header{"Authorization": {"Bearer " + token}}}}
	}
	hosts := bursarv1connect.NewHostServiceClient(as(agent), f.url)
	huge := &bursarv1.Resource{MemoryBytes: quantity(1 << 50), CpuMillis: quantity(9e9), Custom: map[string]int64{"gpu": 1000}}
	registered, err := hosts.Register(t.Context(), &bursarv1.RegisterRequest{
		HostId: "h1", Address: "evil.example", Capacity: huge, Protected: memory(9 * gib), BootId: "boot", Incarnation: 1, Labels: map[string]string{"zone": "a", "tier": "gold"},
	})
	if err != nil {
		t.Fatal(err)
	}
	sequence := uint64(0)
	sync := func(capacity *bursarv1.Resource) *bursarv1.Host {
		t.Helper()
		sequence++
		if _, err := hosts.Sync(t.Context(), &bursarv1.SyncRequest{
			HostId: "h1", Incarnation: 1, BootId: "boot", Sequence: sequence, Epoch: registered.GetEpoch(), Full: true, Capacity: capacity,
			Sample: &bursarv1.HostSample{MemoryTotalBytes: quantity(1 << 50), MemoryAvailableBytes: quantity(1 << 50)},
		}); err != nil {
			t.Fatal(err)
		}
		res, err := hosts.Get(t.Context(), &bursarv1.HostServiceGetRequest{Id: "h1"})
		if err != nil {
			t.Fatal(err)
		}
		return res.GetHost()
	}
	removed := []string{"memory: 1PiB, cut to 8GiB", "cpu: 9000000, cut to 4", "gpu: 1000, removed"}
	for name, capacity := range map[string]*bursarv1.Resource{"registered": nil, "reported": huge} {
		h := sync(capacity)
		if limit := h.GetAccount().GetLimit(); limit.GetMemoryBytes() != 8*gib || limit.GetCpuMillis() != 4000 || len(limit.GetCustom()) != 0 {
			t.Errorf("%s: it may give away %v", name, limit)
		}
		if diff := cmp.Diff(append(removed[:3:3], "label tier=gold, removed"), h.GetCut()); diff != "" || len(h.GetLabels()) != 1 {
			t.Errorf("%s, labels %v: %s", name, h.GetLabels(), diff)
		}
	}
	if n := strings.Count(log.String(), "announces more than the identity"); n != 1 {
		t.Errorf("%d lines of the log tell of it: want 1", n)
	}
	allocations := bursarv1connect.NewAllocationServiceClient(as(submitter), f.url)
	want := request("r1", 9*gib)
	want.Labels = map[string]string{"user": "alice"}
	if _, err := allocations.Allocate(t.Context(), want); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("9 GiB on a host of 8 GiB: %v", err)
	}
	if h := sync(memory(4 * gib)); h.GetAccount().GetLimit().GetMemoryBytes() != 4*gib || strings.Contains(strings.Join(h.GetCut(), ";"), "memory") {
		t.Errorf("within its bounds: %v, %q", h.GetAccount().GetLimit(), h.GetCut())
	}
}
