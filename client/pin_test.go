package client_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/clusterid"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// ofCluster is a coordinator that names its cluster. It counts calls that reach a handler, and
// refuses callers of other clusters like a coordinator.
func ofCluster(t *testing.T, guard *clusterid.Guard, served *atomic.Int64) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(bursarv1connect.NewAllocationServiceHandler(&fakeAllocations{
		list: func(*bursarv1.AllocationServiceListRequest) (*bursarv1.AllocationServiceListResponse, error) {
			return &bursarv1.AllocationServiceListResponse{}, nil
		},
	}))
	server := httptest.NewServer(guard.Announce(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := guard.Admit(r.Header, r.RemoteAddr); err != nil {
			_ = connect.NewErrorWriter().Write(w, r, connect.NewError(connect.CodeFailedPrecondition, err))
			return
		}
		served.Add(1)
		mux.ServeHTTP(w, r)
	})))
	t.Cleanup(server.Close)
	return server
}

// fixed is a finder that never learns anything.
type fixed []client.Coordinator

func (f fixed) Coordinators() ([]client.Coordinator, <-chan struct{}) { return f, nil }

func guardOf(i clusterid.Identity, replaces ...string) *clusterid.Guard {
	g := clusterid.NewGuard(i.Cluster, replaces)
	g.SetStore(i.Store)
	return g
}

// A list of coordinators that mixes two clusters: calls go to the caller's own.
func TestAPinnedClientCallsItsOwnClusterAlone(t *testing.T) {
	a, b := clusterid.New("a", "aaaabbbbccccddddeeeeffff22"), clusterid.New("b", "gggghhhhiiiijjjjkkkkllll33")
	var atA, atB atomic.Int64
	serverA, serverB := ofCluster(t, guardOf(a), &atA), ofCluster(t, guardOf(b), &atB)
	finder := fixed{{URL: serverB.URL, Leads: true}, {URL: serverA.URL}}
	pin := client.NewPin("")
	pin.Hold(a)
	c := client.NewCluster(finder, client.WithPin(pin))
	t.Cleanup(c.Close)
	for range 3 {
		if _, err := c.Allocations().List(t.Context(), &bursarv1.AllocationServiceListRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	if atA.Load() == 0 || atB.Load() > 0 {
		t.Errorf("%d calls at its own cluster, %d at the other", atA.Load(), atB.Load())
	}
	if seen := pin.Seen(); len(seen) != 1 || seen[0] != b {
		t.Errorf("seen %v: want %s", seen, b)
	}
	// Only the other cluster is left.
	serverA.Close()
	alone := c.With(client.WithoutRetries())
	var err error
	for range 3 {
		var refused *client.ClusterError
		if _, err = alone.Allocations().List(t.Context(), &bursarv1.AllocationServiceListRequest{}); errors.As(err, &refused) {
			break
		}
	}
	var refused *client.ClusterError
	if !errors.As(err, &refused) || refused.Got != b || atB.Load() > 0 {
		t.Errorf("error %v, %d calls at the other cluster: want that it belongs to another one", err, atB.Load())
	}
}

// A copied store has another id: a coordinator that reports the copy gets the callers of the
// original.
func TestAPinFollowsAStoreThatWasReplaced(t *testing.T) {
	before, after := clusterid.New("a", "aaaabbbbccccddddeeeeffff22"), clusterid.New("a", "gggghhhhiiiijjjjkkkkllll33")
	var served atomic.Int64
	server := ofCluster(t, guardOf(after, before.Store), &served)
	finder, err := client.Static([]string{server.URL})
	if err != nil {
		t.Fatal(err)
	}
	pin := client.NewPin("")
	pin.Hold(before)
	c := client.NewCluster(finder, client.WithPin(pin), client.WithoutRetries())
	t.Cleanup(c.Close)
	if _, err := c.Allocations().List(t.Context(), &bursarv1.AllocationServiceListRequest{}); err != nil {
		t.Fatal(err)
	}
	if pin.Held() != after || served.Load() == 0 {
		t.Errorf("it belongs to %s: want %s", pin.Held(), after)
	}
}
