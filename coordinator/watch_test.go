package coordinator

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/coordinator/ledger"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// follow watches allocations and returns a function that reads the next message that is no
// keep-alive.
func (f *fixture) follow(req *bursarv1.AllocationServiceWatchRequest) (first uint64, next func() *bursarv1.AllocationServiceWatchResponse) {
	f.tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := f.allocations.Watch(ctx, req)
	if err != nil {
		f.tb.Fatal(err)
	}
	f.tb.Cleanup(func() {
		cancel()
		_ = stream.Close()
	})
	if !stream.Receive() || stream.Msg().GetAllocation() != nil {
		f.tb.Fatalf("the first message: %v, %v", stream.Msg(), stream.Err())
	}
	first = stream.Msg().GetRevision()
	next = func() *bursarv1.AllocationServiceWatchResponse {
		f.tb.Helper()
		for stream.Receive() {
			if stream.Msg().GetAllocation() != nil {
				return stream.Msg()
			}
		}
		f.tb.Fatalf("the watch ended: %v", stream.Err())
		return nil
	}
	return first, next
}

func TestWatchFromNowOnAndAgainFromWhereItWas(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	f.allocate(request("before", mib))
	first, next := f.follow(&bursarv1.AllocationServiceWatchRequest{})
	if first != f.status().GetRevision() {
		t.Errorf("begins at %d, the ledger is at %d", first, f.status().GetRevision())
	}
	a := f.allocate(request("a", mib))
	seen := next()
	if seen.GetAllocation().GetId() != a.GetId() || seen.GetAllocation().GetState() != reserved || seen.GetRevision() != a.GetRevision() {
		t.Errorf("got %v", seen)
	}
	f.release(a.GetId())
	b := f.allocate(request("b", mib))

	_, again := f.follow(&bursarv1.AllocationServiceWatchRequest{AfterRevision: seen.GetRevision()})
	if m := again(); m.GetAllocation().GetId() != a.GetId() || m.GetAllocation().GetState() != released {
		t.Errorf("got %v", m)
	}
	if m := again(); m.GetAllocation().GetId() != b.GetId() {
		t.Errorf("got %v", m)
	}
	_, only := f.follow(&bursarv1.AllocationServiceWatchRequest{AfterRevision: first, Id: b.GetId()})
	if m := only(); m.GetAllocation().GetId() != b.GetId() {
		t.Errorf("got %v", m)
	}
	_, mine := f.follow(&bursarv1.AllocationServiceWatchRequest{AfterRevision: first, Labels: map[string]string{"user": "bob"}})
	req := request("c", mib)
	req.Labels["user"] = "bob"
	c := f.allocate(req)
	if m := mine(); m.GetAllocation().GetId() != c.GetId() {
		t.Errorf("got %v", m)
	}
}

func TestARevisionThatIsNoLongerHeldIsRefused(t *testing.T) {
	f := start(t, Config{Limits: Limits{WatchEvents: 4}}, nil)
	f.host("h1", gib)
	first := f.status().GetRevision()
	for range 10 {
		f.allocate(request("", mib))
	}
	stream, err := f.allocations.Watch(t.Context(), &bursarv1.AllocationServiceWatchRequest{AfterRevision: first})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if stream.Receive() || connect.CodeOf(stream.Err()) != connect.CodeOutOfRange {
		t.Errorf("got %v, %v", stream.Msg(), stream.Err())
	}
}

func TestAClusterWatchTellsEverything(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h0", gib)
	stream, err := f.cluster.Watch(t.Context(), &bursarv1.ClusterServiceWatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if !stream.Receive() {
		t.Fatal(stream.Err())
	}
	f.host("h1", gib)
	f.put(userQuota("alice", 100))
	f.allocate(request("", mib))
	if _, err := f.quotas.Delete(t.Context(), &bursarv1.DeleteRequest{Selector: map[string]string{"user": "alice"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.hosts.Deregister(t.Context(), &bursarv1.DeregisterRequest{HostId: "h0", Force: true}); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for len(kinds) < 5 && stream.Receive() {
		switch c := stream.Msg().GetChange().(type) {
		case *bursarv1.ClusterServiceWatchResponse_Host:
			kinds = append(kinds, "host "+c.Host.GetId())
		case *bursarv1.ClusterServiceWatchResponse_Quota:
			kinds = append(kinds, "quota "+c.Quota.GetSelector()["user"])
		case *bursarv1.ClusterServiceWatchResponse_Allocation:
			kinds = append(kinds, "allocation "+c.Allocation.GetState().String())
		case *bursarv1.ClusterServiceWatchResponse_QuotaDeleted:
			kinds = append(kinds, "no quota "+c.QuotaDeleted)
		case *bursarv1.ClusterServiceWatchResponse_HostDeleted:
			kinds = append(kinds, "no host "+c.HostDeleted)
		}
	}
	kinds = slices.Compact(kinds) // a host may change more than once
	want := []string{"host h1", "quota alice", "allocation ALLOCATION_STATE_RESERVED", "no quota user=alice"}
	if len(kinds) < len(want) || !cmp.Equal(want, kinds[:len(want)]) {
		t.Errorf("got %q, %v", kinds, stream.Err())
	}
}

func TestAWatchOutlastsEveryPatienceWithTheRequest(t *testing.T) {
	f := start(t, Config{}, nil, func(s *Server) { s.timeouts.Body, s.timeouts.Write = 100*time.Millisecond, 100*time.Millisecond })
	f.host("h1", gib)
	h2 := &http.Transport{Protocols: new(http.Protocols)}
	h2.Protocols.SetUnencryptedHTTP2(true)
	defer h2.CloseIdleConnections()
	for name, client := range map[string]bursarv1connect.AllocationServiceClient{
		"Connect over HTTP/1.1": f.allocations,
		"Connect over HTTP/2":   bursarv1connect.NewAllocationServiceClient(&http.Client{Transport: h2}, f.url),
		"gRPC":                  bursarv1connect.NewAllocationServiceClient(&http.Client{Transport: h2}, f.url, connect.WithGRPC()),
		"gRPC-Web":              bursarv1connect.NewAllocationServiceClient(f.http, f.url, connect.WithGRPCWeb()),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stream, err := client.Watch(ctx, &bursarv1.AllocationServiceWatchRequest{})
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			if !stream.Receive() {
				t.Fatal(stream.Err())
			}
			// the deadlines that would end it are of real connections
			pause := time.NewTimer(400 * time.Millisecond)
			<-pause.C
			a := f.allocate(request("", mib))
			if !stream.Receive() || stream.Msg().GetAllocation().GetId() != a.GetId() {
				t.Errorf("got %v, %v", stream.Msg(), stream.Err())
			}
			cancel()
			eventually(t, "the server notices", func() bool { return strings.Contains(f.metrics(), "bursar_watches 0") })
		})
	}
}

func TestAReaderWhoTakesNothingIsCutOff(t *testing.T) {
	f := start(t, Config{}, nil, func(s *Server) { s.timeouts.Write = 50 * time.Millisecond })
	f.host("h1", gib)
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", f.server.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if tcp, ok := conn.(*net.TCPConn); !ok || tcp.SetReadBuffer(4096) != nil {
		t.Fatal("the buffer stays as it is")
	}
	body := "\x00\x00\x00\x00\x02{}"
	_, err = io.WriteString(conn, "POST /bursar.v1.AllocationService/Watch HTTP/1.1\r\nHost: x\r\nContent-Type: application/connect+json\r\n"+
		fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "it watches", func() bool { return strings.Contains(f.metrics(), "bursar_watches 1") })
	// More than the buffers of both ends of a connection hold.
	large := ledger.Allocation{Reason: strings.Repeat("x", 1<<20)}
	revision := f.status().GetRevision()
	for range 64 {
		revision++
		large.Revision = revision
		f.server.feed.Publish(&ledger.Changes{Revision: revision, Transitions: []ledger.Allocation{large}})
	}
	eventually(t, "it is cut off", func() bool { return strings.Contains(f.metrics(), "bursar_watches 0") })
}
