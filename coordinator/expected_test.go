package coordinator

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// listed are the hosts that List shows, each as "id state cordoned".
func (f *fixture) listed() (list []string) {
	f.tb.Helper()
	token := ""
	for {
		page, err := f.hosts.List(f.tb.Context(), &bursarv1.HostServiceListRequest{PageSize: 1, PageToken: token})
		if err != nil {
			f.tb.Fatal(err)
		}
		for _, h := range page.GetHosts() {
			list = append(list, fmt.Sprintf("%s %s %t", h.GetId(), strings.TrimPrefix(h.GetState().String(), "HOST_STATE_"), h.GetCordoned()))
		}
		if token = page.GetNextPageToken(); token == "" {
			return list
		}
	}
}

// An order for a host that has not come is stored, shown, and in force when the host comes.
func TestAHostIsCordonedBeforeItComes(t *testing.T) {
	path := t.TempDir() + "/ledger.db"
	f := start(t, Config{}, openSQLite(t, path))
	ctx := t.Context()
	f.host("h1", gib)
	h, err := f.hosts.Cordon(ctx, &bursarv1.CordonRequest{HostId: "h0", Reason: "burn-in", Length: durationpb.New(time.Hour)})
	if err != nil || h.GetHost().GetState() != bursarv1.HostState_HOST_STATE_EXPECTED || h.GetHost().GetCordonedUntil() == nil {
		t.Fatalf("%v, %v", h, err)
	}
	if _, err := f.hosts.Drain(ctx, &bursarv1.DrainRequest{HostId: "h2"}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"no host", "../h", "_h", strings.Repeat("h", 254)} {
		if _, err := f.hosts.Cordon(ctx, &bursarv1.CordonRequest{HostId: id}); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("a name that no agent can have, %.10q: %v", id, err)
		}
	}
	want := []string{"h0 EXPECTED true", "h1 HEALTHY false", "h2 EXPECTED true"}
	if got := f.listed(); !slices.Equal(got, want) {
		t.Errorf("%q: want %q", got, want)
	}
	f.stop()

	f = start(t, Config{}, openSQLite(t, path))
	want[1] = "h1 RETURNING false"
	if got := f.listed(); !slices.Equal(got, want) {
		t.Errorf("after a restart %q: want %q", got, want)
	}
	// Nobody is taken for a host by its name alone.
	if _, err := f.hosts.Sync(ctx, &bursarv1.SyncRequest{HostId: "h0", Incarnation: 1, Epoch: 1}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("a report of a host that has not registered is answered %v", err)
	}
	f.host("h0", gib)
	f.host("h1", gib)
	_, err = f.allocations.Allocate(ctx, &bursarv1.AllocateRequest{
		Labels: map[string]string{"user": "alice"}, Resource: &bursarv1.Resource{MemoryBytes: quantity(10)}, Host: &bursarv1.HostWishes{Id: "h0"},
	})
	if connect.CodeOf(err) != connect.CodeResourceExhausted || !strings.Contains(err.Error(), "burn-in") {
		t.Errorf("a request for the host that has come cordoned is answered %v", err)
	}
	if _, err := f.hosts.Uncordon(ctx, &bursarv1.UncordonRequest{HostId: "h2"}); err != nil {
		t.Error(err)
	}
	want = []string{"h0 HEALTHY true", "h1 HEALTHY false"}
	if got := f.listed(); !slices.Equal(got, want) {
		t.Errorf("%q: want %q", got, want)
	}
	f.audited()
}

func TestNewHostsJoinCordonedIfTheConfigurationSaysSo(t *testing.T) {
	path := t.TempDir() + "/ledger.db"
	f := start(t, Config{}, openSQLite(t, path))
	f.host("old", gib)
	f.stop()

	f = start(t, Config{JoinCordoned: true}, openSQLite(t, path))
	f.host("old", gib)
	f.host("new", gib)
	if got, want := f.listed(), []string{"new HEALTHY true", "old HEALTHY false"}; !slices.Equal(got, want) {
		t.Errorf("%q: want %q", got, want)
	}
	h, err := f.hosts.Get(t.Context(), &bursarv1.HostServiceGetRequest{Id: "new"})
	if err != nil || !strings.Contains(h.GetHost().GetUnavailableReason(), "joinCordoned") {
		t.Errorf("%q, %v: want the setting in the reason", h.GetHost().GetUnavailableReason(), err)
	}
	if _, err := f.hosts.Uncordon(t.Context(), &bursarv1.UncordonRequest{HostId: "new"}); err != nil {
		t.Fatal(err)
	}
	again := &bursarv1.RegisterRequest{HostId: "new", Incarnation: 2, BootId: "boot", Capacity: memory(gib)}
	if _, err := f.hosts.Register(t.Context(), again); err != nil { // its agent starts again
		t.Fatal(err)
	}
	if got, want := f.listed(), []string{"new HEALTHY false", "old HEALTHY false"}; !slices.Equal(got, want) {
		t.Errorf("%q: want %q", got, want)
	}
}

// Metrics count hosts that take no engines, and a host that has not come is none of the lost ones.
func TestMetricsCountClosedHosts(t *testing.T) {
	f := start(t, Config{}, nil)
	ctx := t.Context()
	f.host("h1", gib)
	f.host("h2", gib)
	for _, id := range []string{"h1", "h3"} {
		if _, err := f.hosts.Cordon(ctx, &bursarv1.CordonRequest{HostId: id}); err != nil {
			t.Fatal(err)
		}
	}
	leaving := &bursarv1.SyncRequest{HostId: "h2", Incarnation: 1, BootId: "boot", Epoch: f.status().GetEpoch(), Sequence: 2, Leaving: true}
	if _, err := f.hosts.Sync(ctx, leaving); err != nil {
		t.Fatal(err)
	}
	_, text := f.fetch(http.MethodGet, "/metrics", "")
	for _, line := range []string{
		`bursar_hosts{state="expected"} 1`, `bursar_hosts{state="lost"} 0`, `bursar_hosts{state="healthy"} 2`,
		`bursar_hosts_closed{why="cordoned"} 1`, `bursar_hosts_closed{why="draining"} 0`, `bursar_hosts_closed{why="ended"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no %s", line)
		}
	}
	if strings.Contains(text, `host="h3"`) {
		t.Error("a host that has not come has series of its own")
	}
}
