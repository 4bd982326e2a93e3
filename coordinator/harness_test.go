package coordinator

import (
	"context"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/sqlite"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/test/proc"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

func quantity(n int64) *int64 { return new(n) }

func memory(bytes int64) *bursarv1.Resource { return &bursarv1.Resource{MemoryBytes: &bytes} }

func seconds(n int64) *durationpb.Duration { return &durationpb.Duration{Seconds: n} }

func openSQLite(tb testing.TB, path string) store.Store {
	tb.Helper()
	s, err := sqlite.Open(tb.Context(), path, sqlite.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// fixture is a running coordinator with clients.
type fixture struct {
	tb          testing.TB
	server      *Server
	url         string
	http        *http.Client
	allocations bursarv1connect.AllocationServiceClient
	hosts       bursarv1connect.HostServiceClient
	quotas      bursarv1connect.QuotaServiceClient
	queues      bursarv1connect.QueueServiceClient
	cluster     bursarv1connect.ClusterServiceClient

	cancel context.CancelFunc
	ended  chan error
}

// start runs a coordinator on loopback until the test ends or stop is called. The store is SQLite
// in a directory of the test's, unless one is given.
func start(tb testing.TB, config Config, s store.Store, changes ...func(*Server)) *fixture {
	tb.Helper()
	if s == nil {
		s = openSQLite(tb, filepath.Join(tb.TempDir(), "ledger.db"))
	}
	if config.Listen == "" {
		config.Listen = "127.0.0.1:0"
	}
	if config.Times.Interval == 0 {
		config.Times.Interval = time.Hour // the hosts of these tests send one heartbeat
	}
	if config.Limits.CommitTimeout == 0 {
		config.Limits.CommitTimeout = time.Minute // some commit megabytes, maybe on a busy machine
	}
	server, err := New(config, Dependencies{Store: s, Version: "test"})
	if err != nil {
		tb.Fatal(err)
	}
	for _, change := range changes {
		change(server)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &fixture{tb: tb, server: server, cancel: cancel, ended: make(chan error, 1)}
	go func() { f.ended <- server.Run(ctx) }()
	select {
	case <-server.Ready():
	case err := <-f.ended:
		cancel()
		tb.Fatal(err)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	f.url, f.http = "http://"+server.Address(), &http.Client{Transport: transport}
	f.allocations = bursarv1connect.NewAllocationServiceClient(f.http, f.url)
	f.hosts = bursarv1connect.NewHostServiceClient(f.http, f.url)
	f.quotas = bursarv1connect.NewQuotaServiceClient(f.http, f.url)
	f.queues = bursarv1connect.NewQueueServiceClient(f.http, f.url)
	f.cluster = bursarv1connect.NewClusterServiceClient(f.http, f.url)
	tb.Cleanup(func() {
		f.stop()
		transport.CloseIdleConnections()
	})
	return f
}

// stop shuts the coordinator down; the second call does nothing.
func (f *fixture) stop() {
	f.tb.Helper()
	f.cancel()
	select {
	case err, open := <-f.ended:
		if open && err != nil {
			f.tb.Errorf("the coordinator ended with %v", err)
		}
		if open {
			close(f.ended)
		}
	case <-time.After(20 * time.Second):
		f.tb.Fatal("the coordinator does not end")
	}
}

// host registers a host and lets it report that all of its memory is there.
func (f *fixture) host(id string, bytes int64, labels ...string) {
	f.tb.Helper()
	req := &bursarv1.RegisterRequest{
		HostId: id, Address: id + ":7071", Incarnation: 1, BootId: "boot", Version: "test", Labels: map[string]string{},
		Capacity: &bursarv1.Resource{MemoryBytes: &bytes, CpuMillis: quantity(1 << 40), Instances: quantity(1 << 40)},
	}
	for i := 0; i < len(labels); i += 2 {
		req.Labels[labels[i]] = labels[i+1]
	}
	res, err := f.hosts.Register(f.tb.Context(), req)
	if err != nil {
		f.tb.Fatal(err)
	}
	f.sync(id, res.GetEpoch(), 1, bytes)
}

// silentHost registers a host that does not report: what it has room for waits.
func (f *fixture) silentHost(bytes int64) {
	f.tb.Helper()
	capacity := &bursarv1.Resource{MemoryBytes: &bytes}
	if _, err := f.hosts.Register(f.tb.Context(), &bursarv1.RegisterRequest{HostId: "silent", Incarnation: 1, Capacity: capacity}); err != nil {
		f.tb.Fatal(err)
	}
}

// sync sends a full heartbeat without engines.
func (f *fixture) sync(id string, epoch, sequence uint64, bytes int64) *bursarv1.SyncResponse {
	f.tb.Helper()
	res, err := f.hosts.Sync(f.tb.Context(), &bursarv1.SyncRequest{
		HostId: id, Incarnation: 1, Sequence: sequence, Epoch: epoch, BootId: "boot", Full: true,
		Sample: &bursarv1.HostSample{MemoryTotalBytes: &bytes, MemoryAvailableBytes: &bytes, MemorySafetyBytes: quantity(0)},
	})
	if err != nil {
		f.tb.Fatal(err)
	}
	return res
}

func request(id string, bytes int64) *bursarv1.AllocateRequest {
	return &bursarv1.AllocateRequest{
		RequestId: id, Resource: memory(bytes),
		Labels: map[string]string{"user": "alice", "creator": "IDE", "engineType": "spark-3.3"},
	}
}

func (f *fixture) allocate(req *bursarv1.AllocateRequest) *bursarv1.Allocation {
	f.tb.Helper()
	res, err := f.allocations.Allocate(f.tb.Context(), req)
	if err != nil {
		f.tb.Fatal(err)
	}
	return res.GetAllocation()
}

func (f *fixture) release(id string) {
	f.tb.Helper()
	if _, err := f.allocations.Release(f.tb.Context(), &bursarv1.ReleaseRequest{Id: id, Force: true}); err != nil {
		f.tb.Fatal(err)
	}
}

func (f *fixture) get(id string) *bursarv1.Allocation {
	f.tb.Helper()
	res, err := f.allocations.Get(f.tb.Context(), &bursarv1.AllocationServiceGetRequest{Id: id})
	if err != nil {
		f.tb.Fatal(err)
	}
	return res.GetAllocation()
}

func (f *fixture) status() *bursarv1.StatusResponse {
	f.tb.Helper()
	res, err := f.cluster.Status(f.tb.Context(), &bursarv1.StatusRequest{})
	if err != nil {
		f.tb.Fatal(err)
	}
	return res
}

// audited fails the test if the ledger is wrong.
func (f *fixture) audited() {
	f.tb.Helper()
	res, err := f.cluster.Audit(f.tb.Context(), &bursarv1.AuditRequest{})
	if err != nil {
		f.tb.Fatal(err)
	}
	for _, v := range res.GetViolations() {
		f.tb.Errorf("invariant %d: %s", v.GetInvariant(), v.GetMessage())
	}
}

// eventually waits until a condition holds that another goroutine brings about.
func eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	proc.Until(tb, 20*time.Second, 2*time.Millisecond, what, holds)
}

// detail returns the first detail of a type that an error carries.
func detail[M proto.Message](err error) (M, bool) {
	var none M
	failure := new(connect.Error)
	if !asConnect(err, &failure) {
		return none, false
	}
	for _, d := range failure.Details() {
		if m, err := d.Value(); err == nil {
			if typed, ok := m.(M); ok {
				return typed, true
			}
		}
	}
	return none, false
}
