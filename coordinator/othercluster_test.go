package coordinator

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/internal/clusterid"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// A coordinator refuses an agent that belongs to another cluster before the ledger hears of its
// host, and says so to its operator.
func TestCallersOfAnotherClusterAreRefused(t *testing.T) {
	f := start(t, Config{}, nil)
	own := f.status().GetStoreId()
	register := func(from clusterid.Identity) (http.Header, error) {
		ctx, info := connect.NewClientContext(t.Context())
		from.Put(info.RequestHeader())
		_, err := f.hosts.Register(ctx, &bursarv1.RegisterRequest{HostId: "h1", Capacity: memory(gib), Incarnation: 1})
		if refused, ok := errors.AsType[*connect.Error](err); ok {
			return refused.Meta(), err
		}
		return info.ResponseHeader(), err
	}
	other := clusterid.New("second", "gggghhhhiiiijjjjkkkkllll33")
	header, err := register(other)
	if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), other.String()) || !strings.Contains(err.Error(), own) {
		t.Errorf("error %v: want FAILED_PRECONDITION that names both clusters", err)
	}
	if got := clusterid.Of(header); got.Store != own {
		t.Errorf("the answer is of %s: want store %s", got, own)
	}
	if _, err := f.hosts.Get(t.Context(), &bursarv1.HostServiceGetRequest{Id: "h1"}); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("the host is registered (%v)", err)
	}
	if list := strings.Join(f.status().GetWarnings(), "\n"); !strings.Contains(list, "callers that belong to another cluster") {
		t.Errorf("warnings %s: want one of the refused caller", list)
	}
	for _, from := range []clusterid.Identity{{}, clusterid.New("bursar", own), clusterid.New("bursar", "")} {
		if _, err := register(from); err != nil {
			t.Errorf("%s: %v", from, err)
		}
	}
	sync := &bursarv1.SyncRequest{
		HostId: "h1", Incarnation: 1, Sequence: 1, Epoch: f.status().GetEpoch(), Full: true,
		OtherClusters: []*bursarv1.ClusterIdentity{{Cluster: other.Cluster, StoreId: other.Store}},
	}
	if _, err := f.hosts.Sync(t.Context(), sync); err != nil {
		t.Fatal(err)
	}
	if list := strings.Join(f.status().GetWarnings(), "\n"); !strings.Contains(list, "hosts that find coordinators of another cluster") || !strings.Contains(list, "h1") {
		t.Errorf("warnings %s: want one of the host that sees another cluster", list)
	}
}
