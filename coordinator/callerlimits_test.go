package coordinator

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/internal/access"
	"github.com/bursar/bursar/internal/admission"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/test/underrace"
)

func gzipped(tb testing.TB, text []byte) []byte {
	tb.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(text); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// framed puts the head of a compressed message before it.
func framed(message []byte) []byte {
	out := []byte{1, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(out[1:], uint32(len(message)))
	return append(out, message...)
}

// bomb is a request that becomes 64 MiB.
type bomb struct {
	method, path string
	header       map[string]string
	body         []byte
}

// bombs are such requests in every way that the server takes messages, to the service of hosts, to
// that of allocations, and to those that need no identity.
func bombs(tb testing.TB) map[string]bomb {
	tb.Helper()
	text := bytes.Repeat([]byte{'a'}, 64<<20)
	binaryText := append(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.BytesType), uint64(len(text))), text...)
	jsonText := append(append([]byte(`{"id":"`), text...), `"}`...)
	asBinary, asJSON := gzipped(tb, binaryText), gzipped(tb, jsonText)
	get := bursarv1connect.HostServiceGetProcedure
	short := gzipped(tb, binaryText[:8<<20]) // what fits into a header
	list := map[string]bomb{
		"Connect, JSON":   {"POST", get, map[string]string{"Content-Type": "application/json", "Content-Encoding": "gzip"}, asJSON},
		"Connect, binary": {"POST", get, map[string]string{"Content-Type": "application/proto", "Content-Encoding": "gzip"}, asBinary},
		"Connect, GET": {"GET", get + "?connect=v1&encoding=proto&base64=1&compression=gzip&message=" +
			url.QueryEscape(base64.RawURLEncoding.EncodeToString(short)), nil, nil},
		"gRPC":     {"POST", get, map[string]string{"Content-Type": "application/grpc", "Grpc-Encoding": "gzip", "TE": "trailers"}, framed(asBinary)},
		"gRPC-Web": {"POST", get, map[string]string{"Content-Type": "application/grpc-web+proto", "Grpc-Encoding": "gzip"}, framed(asBinary)},
		"Connect, a stream": {
			"POST", bursarv1connect.AllocationServiceWatchProcedure,
			map[string]string{"Content-Type": "application/connect+proto", "Connect-Content-Encoding": "gzip"},
			framed(asBinary),
		},
		"rules": {
			"POST", bursarv1connect.QuotaServiceApplyProcedure,
			map[string]string{"Content-Type": "application/proto", "Content-Encoding": "gzip"},
			asBinary,
		},
		"the health service": {
			"POST", "/grpc.health.v1.Health/Check", map[string]string{"Content-Type": "application/proto", "Content-Encoding": "gzip"}, asBinary,
		},
		"reflection": {
			"POST", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
			map[string]string{"Content-Type": "application/grpc", "Grpc-Encoding": "gzip", "TE": "trailers"},
			framed(asBinary),
		},
	}
	return list
}

func (b bomb) send(client *http.Client, base string) (status int, answer string, err error) {
	req, err := http.NewRequest(b.method, base+b.path, bytes.NewReader(b.body))
	if err != nil {
		return 0, "", err
	}
	for key, value := range b.header {
		req.Header.Set(key, value)
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return res.StatusCode, string(text) + res.Trailer.Get("Grpc-Message") + res.Header.Get("Grpc-Message"), err
}

// A request costs what it may become at most, not what it says: many at a time neither.
func TestCompressedRequestsAreBoundedByWhatTheyBecome(t *testing.T) {
	f := start(t, Config{}, nil)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for name, b := range bombs(t) {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var all sync.WaitGroup
			for range 32 {
				all.Go(func() {
					_, answer, err := b.send(client, f.url)
					if err != nil || !strings.Contains(answer, "at most") && !strings.Contains(answer, "larger than") && !strings.Contains(answer, "bytes of requests") {
						t.Errorf("%q, %v: want an error about its size", answer, err)
					}
				})
			}
			all.Wait()
			runtime.ReadMemStats(&after)
			each := uint64(2 << 20) // of which 128 KiB are read; buffers grow
			if name == "rules" {
				each = 6 << 20 // of which 1 MiB is read
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > 32*each*underrace.Factor {
				t.Errorf("%d MiB were allocated for 32 requests, want at most %d", got>>20, 32*each*underrace.Factor>>20)
			}
		})
	}
}

// What is small is read whether it is compressed or not, in every protocol.
func TestCompressedRequestsAreAnswered(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	for name, option := range map[string]connect.ClientOption{
		"Connect": connect.WithProtoJSON(), "gRPC": connect.WithGRPC(), "gRPC-Web": connect.WithGRPCWeb(), "GET": connect.WithHTTPGet(),
	} {
		client := f.http
		if name == "gRPC" {
			protocols := new(http.Protocols)
			protocols.SetUnencryptedHTTP2(true)
			transport := &http.Transport{Protocols: protocols}
			defer transport.CloseIdleConnections()
			client = &http.Client{Transport: transport}
		}
		hosts := bursarv1connect.NewHostServiceClient(client, f.url, option, connect.WithSendGzip())
		if res, err := hosts.Get(t.Context(), &bursarv1.HostServiceGetRequest{Id: "h1"}); err != nil || res.GetHost().GetId() != "h1" {
			t.Errorf("%s: %v, %v", name, res, err)
		}
		cluster := bursarv1connect.NewClusterServiceClient(client, f.url, option, connect.WithSendGzip())
		stream, err := cluster.Watch(t.Context(), &bursarv1.ClusterServiceWatchRequest{})
		if err != nil || !stream.Receive() {
			t.Errorf("%s: watch: %v, %v", name, err, stream.Err())
		}
		_ = stream.Close()
	}
}

func TestRequestsThatWaitAreBoundedPerCaller(t *testing.T) {
	c := newAuthServer(t, func(c *Config) { c.Limits.CallerWaiting = 2 })
	admin, alice := c.visit(t, "root"), c.visit(t, "alice")
	if err := admin.register(t, "h1"); err != nil {
		t.Fatal(err)
	}
	waiting := func(id string) *bursarv1.AllocateRequest {
		req := request(id, gib)
		req.Wait = seconds(600)
		return req
	}
	if _, err := alice.allocations.Allocate(t.Context(), request("first", gib)); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, id := range []string{"a", "b"} {
		all.Go(func() { _, _ = alice.allocations.Allocate(ctx, waiting(id)) })
	}
	eventually(t, "two wait", func() bool {
		res, err := admin.allocations.List(t.Context(), &bursarv1.AllocationServiceListRequest{
			States: []bursarv1.AllocationState{bursarv1.AllocationState_ALLOCATION_STATE_WAITING},
		})
		return err == nil && len(res.GetAllocations()) == 2
	})
	_, err := alice.allocations.Allocate(t.Context(), waiting("c"))
	if connect.CodeOf(err) != connect.CodeResourceExhausted || !strings.Contains(err.Error(), "alice may have 2 requests that wait here (limits.callerWaiting): try again in 5s") {
		t.Errorf("%v", err)
	}
	if again := admission.TryAgain(err); again != 5*time.Second {
		t.Errorf("try again in %s", again)
	}
	if _, err := alice.allocations.Get(t.Context(), &bursarv1.AllocationServiceGetRequest{RequestId: "first"}); err != nil {
		t.Errorf("what does not wait: %v", err)
	}
	other := c.visit(t, "agent1", identity.Actor{Name: "alice@h1", Users: []string{"alice"}, Role: identity.Submitter, Host: "h1"})
	toOwnHost := waiting("of-another")
	toOwnHost.Host = &bursarv1.HostWishes{Id: "h1"}
	all.Go(func() {
		if _, err := other.allocations.Allocate(ctx, toOwnHost); ctx.Err() == nil {
			t.Errorf("another caller: %v", err)
		}
	})
	eventually(t, "another caller waits", func() bool {
		res, err := admin.allocations.List(t.Context(), &bursarv1.AllocationServiceListRequest{
			States: []bursarv1.AllocationState{bursarv1.AllocationState_ALLOCATION_STATE_WAITING},
		})
		return err == nil && len(res.GetAllocations()) == 3
	})
	res, err := admin.http.Get(c.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	if err != nil || !strings.Contains(string(page), `bursar_refused_callers_total{class="callers",reason="waiting"} 1`) {
		t.Errorf("not counted: %v", err)
	}
}

// A report of millions of parts that say nothing is refused before it is decoded, and costs what
// its bytes are.
func TestReportOfManyEmptyPartsIsNotDecoded(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	// engines; 14 MiB
	text := bytes.Repeat(protowire.AppendBytes(protowire.AppendTag(nil, 8, protowire.BytesType), nil), 7<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	report := bomb{"POST", bursarv1connect.HostServiceSyncProcedure, map[string]string{"Content-Type": "application/proto", "Content-Encoding": "gzip"}, gzipped(t, text)}
	status, answer, err := report.send(f.http, f.url)
	runtime.ReadMemStats(&after)
	if err != nil || status != http.StatusBadRequest || !strings.Contains(answer, "want fewer elements") {
		t.Errorf("%d %q, %v", status, answer, err)
	}
	used := after.TotalAlloc - before.TotalAlloc
	t.Logf("%d MiB that were %d KiB took %d MiB", len(text)>>20, len(report.body)>>10, used>>20)
	if used > 8*uint64(len(text)) {
		t.Errorf("%d MiB were allocated for %d MiB", used>>20, len(text)>>20)
	}
}

// After an outage a host that runs thousands of engines describes each of them in full, in one
// report.
func TestFullReportOfFourThousandEnginesIsTaken(t *testing.T) {
	f := start(t, Config{}, newMemoryStore())
	f.host("h1", gib)
	f.release(f.allocate(request("another", mib)).GetId())
	report := &bursarv1.SyncRequest{HostId: "h1", Incarnation: 1, Sequence: 2, Epoch: f.status().GetEpoch(), BootId: "boot", Full: true}
	labels := map[string]string{"user": "alice", "creator": "IDE", "engineType": "spark-3.3"}
	for i := range 12 {
		labels["note"+strconv.Itoa(i)] = strings.Repeat("n", 255)
	}
	for i := range 4000 {
		id := fmt.Sprintf("%013d", i+1)
		report.Engines = append(report.Engines, &bursarv1.EngineReport{AllocationId: id, Measured: memory(700), Grant: &bursarv1.Allocation{
			Id: id, RequestId: "request-" + id, State: bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE, Labels: labels, HostId: "h1", Caller: "alice@h1",
			Requested: memory(1), Entitled: memory(1), Process: &bursarv1.Process{Pid: int32(i + 10), StartTime: 5, BootId: "boot", Cgroup: strings.Repeat("c", 200)},
		}})
	}
	t.Logf("%d bytes", proto.Size(report))
	if _, err := f.hosts.Sync(t.Context(), report); err != nil {
		t.Fatal(err)
	}
	if n := f.status().GetActive(); n != 4000 {
		t.Errorf("%d engines were taken over, want 4000", n)
	}
	f.audited()
}

// What waits at the leader for callers of a standby is bounded at the standby, too, which holds as
// much of it.
func TestRequestsThatWaitThroughAStandbyAreBounded(t *testing.T) {
	m := startTeam(t, 2)
	leader, standbys := m.led()
	standby := standbys[0]
	standby.server.limits.Callers.SetLimits(admission.Limits{Waiting: 1, Streams: 1})
	leader.host("h", gib)
	leader.allocate(request("all", gib))
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	waiting := func(id string) *bursarv1.AllocateRequest {
		req := request(id, gib)
		req.Wait = seconds(600)
		return req
	}
	all.Go(func() { _, _ = standby.allocations.Allocate(ctx, waiting("a")) })
	eventually(t, "one waits", func() bool { return leader.status().GetWaiting() == 1 })
	if _, err := standby.allocations.Allocate(t.Context(), waiting("b")); connect.CodeOf(err) != connect.CodeResourceExhausted || admission.TryAgain(err) != 5*time.Second {
		t.Errorf("a second one: %v", err)
	}
	detached := waiting("c")
	detached.Async = true
	if _, err := standby.allocations.Allocate(t.Context(), detached); err != nil {
		t.Errorf("one that is not waited for: %v", err)
	}
	first, err := standby.cluster.Watch(ctx, &bursarv1.ClusterServiceWatchRequest{})
	if err != nil || !first.Receive() {
		t.Fatalf("watch: %v, %v", err, first.Err())
	}
	defer first.Close()
	second, err := standby.cluster.Watch(ctx, &bursarv1.ClusterServiceWatchRequest{})
	if err == nil {
		second.Receive()
		err = second.Err()
		_ = second.Close()
	}
	if connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("a second stream: %v", err)
	}
}

// Agents behind one gateway come from one address. Once they have shown who they are, their
// connections do not count on it.
func TestAgentsBehindOneAddressKeepTheirConnections(t *testing.T) {
	const agents = 48
	var list strings.Builder
	list.WriteString("identities:\n")
	var tokens [agents]string
	for i := range tokens {
		tokens[i] = access.NewToken()
		fmt.Fprintf(&list, "- {name: agent%d, role: agent, host: h%d, tokenHash: %s}\n", i, i, access.Hash(tokens[i]))
	}
	file := filepath.Join(t.TempDir(), "identities.yaml")
	if err := os.WriteFile(file, []byte(list.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	f := start(t, Config{Identities: file}, nil, func(s *Server) {
		s.limits.Connections = admission.NewConnections(admission.ConnectionLimits{Unknown: 8, Address: 4, Known: 64, Caller: 4, First: time.Minute, Nameless: time.Minute}, admission.ConnectionOptions{Refused: func() {}, Log: slog.New(slog.DiscardHandler)})
	})
	var dials atomic.Int64
	var visitors []*visitor
	for i := range agents {
		transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			dials.Add(1)
			return new(net.Dialer).DialContext(ctx, network, address)
		}}
		t.Cleanup(transport.CloseIdleConnections)
		v := &visitor{http: &http.Client{Transport: &bearer{transport, http.Header{"Authorization": {"Bearer " + tokens[i]}}}}}
		v.hosts = bursarv1connect.NewHostServiceClient(v.http, f.url)
		visitors = append(visitors, v)
		if err := v.register(t, fmt.Sprintf("h%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	for i, v := range visitors {
		if _, err := v.hosts.Get(t.Context(), &bursarv1.HostServiceGetRequest{Id: fmt.Sprintf("h%d", i)}); err != nil {
			t.Error(err)
		}
	}
	if n := dials.Load(); n != agents {
		t.Errorf("%d agents connected %d times", agents, n)
	}
	oldest, err := net.Dial("tcp", f.server.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer oldest.Close()
	for range 4 { // as many as an address may have that say nothing
		conn, err := net.Dial("tcp", f.server.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	_ = oldest.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := oldest.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("without an identity, beyond the bound of its address: %v, want it closed", err)
	}
}
