package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/bursar/bursar/coordinator/auth"
	"github.com/bursar/bursar/coordinator/commit"
	"github.com/bursar/bursar/coordinator/ledger"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/proto/convert"
)

// appendingCodec is a codec that connect lets append.
type appendingCodec interface {
	connect.Codec
	MarshalAppend(dst []byte, message any) ([]byte, error)
}

// countingCodec counts the events that it encodes.
type countingCodec struct {
	appendingCodec

	events *atomic.Int64
}

func (c countingCodec) MarshalAppend(dst []byte, message any) ([]byte, error) {
	e, ok := message.(convert.Encoded)
	if !ok {
		return c.appendingCodec.MarshalAppend(dst, message)
	}
	return e.AppendEncoded(dst, c.Name(), func(m proto.Message) ([]byte, error) {
		c.events.Add(1)
		return c.Marshal(m)
	})
}

// flushCounter counts flushes.
type flushCounter struct {
	http.ResponseWriter

	flushes *atomic.Int64
}

func (w flushCounter) Flush() {
	w.flushes.Add(1)
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

func (w flushCounter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// watchServer serves the watches of a coordinator, and counts what that takes.
type watchServer struct {
	url             string
	events, flushes atomic.Int64
}

func (f *fixture) watchServer() *watchServer {
	s := new(watchServer)
	options := []connect.HandlerOption{
		connect.WithInterceptors(errorMapper{}, auth.NewAuditor(auth.AuditorOptions{Audit: f.server.audit, Timeouts: &f.server.timeouts, Code: rpcError, Advise: withAdvice})),
		connect.WithCodec(countingCodec{convert.Binary{}, &s.events}), connect.WithCodec(countingCodec{convert.StrictJSON{}, &s.events}),
	}
	mux := http.NewServeMux()
	mux.Handle(bursarv1connect.NewAllocationServiceHandler(&allocationService{loop: f.server.loop, store: f.server.store}, options...))
	mux.Handle(bursarv1connect.NewClusterServiceHandler(&clusterService{loop: f.server.loop}, options...))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		withBatches(mux).ServeHTTP(flushCounter{w, &s.flushes}, r)
	}))
	f.tb.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// watchFrom reads so many messages after the first.
func watchFrom(tb testing.TB, client bursarv1connect.AllocationServiceClient, after uint64, messages int) (read []*bursarv1.AllocationServiceWatchResponse) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := client.Watch(ctx, &bursarv1.AllocationServiceWatchRequest{AfterRevision: after})
	if err != nil {
		tb.Error(err)
		return nil
	}
	defer stream.Close()
	for n := 0; n <= messages && stream.Receive(); n++ {
		if n > 0 {
			read = append(read, stream.Msg())
		}
	}
	if len(read) != messages {
		tb.Errorf("%d of %d messages: %v", len(read), messages, stream.Err())
	}
	return read
}

func TestAnEventIsEncodedOnceForAllWatchers(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	from := f.status().GetRevision()
	const events, watchers = 40, 20
	for range events {
		f.allocate(request("", mib))
	}
	s := f.watchServer()
	binary := bursarv1connect.NewAllocationServiceClient(f.http, s.url)
	var group sync.WaitGroup
	for range watchers {
		group.Go(func() { watchFrom(t, binary, from, events) })
	}
	group.Wait()
	if n := s.events.Load(); n != events {
		t.Errorf("%d watchers of %d events had %d encoded; want each once", watchers, events, n)
	}
	for range watchers {
		group.Go(func() {
			watchFrom(t, bursarv1connect.NewAllocationServiceClient(f.http, s.url, connect.WithProtoJSON()), from, events)
		})
	}
	group.Wait()
	if n := s.events.Load(); n != 2*events {
		t.Errorf("watchers as JSON had %d more encoded; want %d", n-events, events)
	}
}

func TestABatchOfEventsIsFlushedOnce(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	from := f.status().GetRevision()
	const events = 40
	for range events {
		f.allocate(request("", mib))
	}
	s := f.watchServer()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := bursarv1connect.NewAllocationServiceClient(f.http, s.url).Watch(ctx, &bursarv1.AllocationServiceWatchRequest{AfterRevision: from})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	for range 1 + events {
		if !stream.Receive() {
			t.Fatal(stream.Err())
		}
	}
	// The first is for the message that a watch begins with.
	eventually(t, "it is flushed", func() bool { return s.flushes.Load() >= 2 })
	if n := s.flushes.Load(); n != 2 {
		t.Errorf("%d events at once are flushed %d times", events, n-1)
	}
}

// The events of a filtered watcher that it does not want are encoded for nobody.
func TestWhatNoWatcherWantsIsNotEncoded(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	from := f.status().GetRevision()
	for range 20 {
		f.allocate(request("", mib))
	}
	wanted := f.allocate(request("", mib))
	s := f.watchServer()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := bursarv1connect.NewAllocationServiceClient(f.http, s.url).Watch(ctx, &bursarv1.AllocationServiceWatchRequest{AfterRevision: from, Id: wanted.GetId()})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	begun := stream.Receive()
	if !begun || !stream.Receive() || stream.Msg().GetAllocation().GetId() != wanted.GetId() {
		t.Fatalf("got %v, %v", stream.Msg(), stream.Err())
	}
	if n := s.events.Load(); n != 1 {
		t.Errorf("%d events were encoded for a watcher of one", n)
	}
}

// Whatever a watcher speaks, it reads the messages that the events make.
func TestWatchersOfEveryKindReadTheSame(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	from := f.status().GetRevision()
	for i := range 30 {
		req := request("", mib)
		if i%10 == 0 { // large enough to be compressed
			for n := range 25 {
				req.Labels[fmt.Sprint("k", n)] = strings.Repeat("v", 200)
			}
		}
		f.release(f.allocate(req).GetId())
	}
	const events = 60
	var want []*bursarv1.AllocationServiceWatchResponse
	enough := errors.New("enough")
	err := f.server.loop.Follow(t.Context(), from, func(uint64) error { return nil }, func(batch []*commit.Event) error {
		for _, e := range batch {
			m, ok := (&sharedEvent{Event: e, kind: allocationWatch}).message().(*bursarv1.AllocationServiceWatchResponse)
			if want = append(want, m); !ok || len(want) == events {
				return enough
			}
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	h2 := &http.Transport{Protocols: new(http.Protocols)}
	h2.Protocols.SetUnencryptedHTTP2(true)
	defer h2.CloseIdleConnections()
	identity := connect.WithAcceptCompression("gzip", nil, nil)
	for _, c := range []struct {
		name    string
		http    *http.Client
		options []connect.ClientOption
	}{
		{"Connect", f.http, nil},
		{"Connect, not compressed", f.http, []connect.ClientOption{identity}},
		{"JSON", f.http, []connect.ClientOption{connect.WithProtoJSON()}},
		{"JSON, not compressed", f.http, []connect.ClientOption{connect.WithProtoJSON(), identity}},
		{"Connect over HTTP/2", &http.Client{Transport: h2}, nil},
		{"gRPC", &http.Client{Transport: h2}, []connect.ClientOption{connect.WithGRPC()}},
		{"gRPC, not compressed", &http.Client{Transport: h2}, []connect.ClientOption{connect.WithGRPC(), identity}},
		{"gRPC-Web", f.http, []connect.ClientOption{connect.WithGRPCWeb()}},
	} {
		got := watchFrom(t, bursarv1connect.NewAllocationServiceClient(c.http, f.url, c.options...), from, events)
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// An event that does not pass the auditor is not sent.
func TestAnEventThatWasNotRedactedIsNotEncoded(t *testing.T) {
	for _, codec := range []appendingCodec{convert.Binary{}, convert.StrictJSON{}} {
		if text, err := codec.MarshalAppend(nil, &sharedEvent{Event: new(commit.Event)}); err == nil {
			t.Errorf("%s: it is %q", codec.Name(), text)
		}
	}
}

// One reader that takes nothing loses its own watch, and no other.
func TestASlowWatcherIsCutOffAlone(t *testing.T) {
	f := start(t, Config{}, nil, func(s *Server) { s.timeouts.Write = 50 * time.Millisecond })
	f.host("h1", gib)
	const others = 100
	watches := make([]func() *bursarv1.AllocationServiceWatchResponse, others)
	for i := range watches {
		_, watches[i] = f.follow(&bursarv1.AllocationServiceWatchRequest{HostId: "h1"})
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", f.server.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if tcp, ok := conn.(*net.TCPConn); !ok || tcp.SetReadBuffer(4096) != nil {
		t.Fatal("the buffer stays as it is")
	}
	const body = "\x00\x00\x00\x00\x02{}"
	if _, err = io.WriteString(conn, "POST /bursar.v1.AllocationService/Watch HTTP/1.1\r\nHost: x\r\nContent-Type: application/connect+json\r\n"+
		fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all watch", func() bool { return strings.Contains(f.metrics(), fmt.Sprintf("bursar_watches %d\n", others+1)) })
	before := f.allocate(request("before", mib))
	// More than the buffers of both ends of a connection hold, less than the feed does, of a host
	// that the others do not watch.
	large := ledger.Allocation{HostID: "h2", Reason: strings.Repeat("x", 1<<20)}
	revision := before.GetRevision()
	for range 24 {
		revision++
		large.Revision = revision
		f.server.feed.Publish(&ledger.Changes{Revision: revision, Transitions: []ledger.Allocation{large}})
	}
	eventually(t, "it is cut off", func() bool { return strings.Contains(f.metrics(), fmt.Sprintf("bursar_watches %d\n", others)) })
	f.server.feed.Publish(&ledger.Changes{Revision: revision + 1, Transitions: []ledger.Allocation{{ID: 7, Revision: revision + 1, HostID: "h1"}}})
	for i, next := range watches {
		if id := next().GetAllocation().GetId(); id != before.GetId() {
			t.Errorf("watch %d: %s; want %s", i, id, before.GetId())
		}
		if id := next().GetAllocation().GetId(); id != ledger.ID(7).String() {
			t.Errorf("watch %d goes on with %s", i, id)
		}
	}
}
