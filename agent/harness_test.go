package agent_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bursar/bursar/agent"
	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/agent/keeper"
	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/hold"
	"github.com/bursar/bursar/internal/readlimit"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/providers/host"
	"github.com/bursar/bursar/test/proc"
)

// asCaller makes the test binary a caller of an agent, asEngine an engine; see callers_test.go and
// memory_test.go.
const (
	asCaller = "BURSAR_TEST_CALLER"
	asEngine = "BURSAR_TEST_ENGINE"
)

func TestMain(m *testing.M) {
	hold.Wait() // by then it goes by the name of an engine
	if os.Getenv(asCaller) != "" {
		os.Exit(beCaller())
	}
	if filepath.Base(os.Args[0]) == "bursar-keeper" { // see launch_test.go
		os.Exit(keeper.Main())
	}
	if how := os.Getenv(asEngine); how != "" {
		os.Exit(beEngine(how))
	}
	goleak.VerifyTestMain(m)
}

// meter measures this machine, but for the memory that is available, which a test sets.
type meter struct {
	*host.Meter

	available atomic.Int64 // bytes; negative: unknown
	// this machine's kernel does not count those that it kills: played ones do not count there
	uncounted bool
}

func (m *meter) Sample(ctx context.Context) host.Sample {
	s := m.Meter.Sample(ctx)
	s.MemoryAvailableBytes = nil
	if m.uncounted {
		s.OutOfMemoryKills = nil
	}
	if available := m.available.Load(); available >= 0 {
		s.MemoryAvailableBytes = &available
	}
	return s
}

func (m *meter) Available(context.Context) (int64, error) {
	if available := m.available.Load(); available >= 0 {
		return available, nil
	}
	return 0, errUnknown
}

var errUnknown = errors.New("not known")

// subject is an agent that is tested, with its coordinator.
type subject struct {
	bursarv1connect.AllocationServiceClient // over its socket, as this process

	t           *testing.T
	coordinator *coordinator
	servers     *fakeServers // nil: one coordinator alone
	meter       *meter
	usual       *host.Meter   // the one in meter, unless a test has put in its own
	cgroups     cgroup.Driver // nil: as configured
	config      agent.Config
	forgetEpoch bool
	// pin is the cluster that it belongs to; nil: it is not pinned.
	pin           *client.Pin
	forgetCluster bool
	given         net.Listener // by a service manager; nil: none
	log           *testLog
	agent         *agent.Agent
	http          *http.Client
	cancel        context.CancelFunc
	ended         chan error
}

// folder is a directory that every user of the machine can get into.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent") //nolint:usetesting // t.TempDir is for its owner alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// newSubject is an agent that does not run yet, with 1,000 MiB available beyond safety.
func newSubject(t *testing.T) *subject {
	t.Helper()
	own, err := host.NewMeter(host.Options{SafetyBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	dir := folder(t)
	s := &subject{t: t, coordinator: newCoordinator(t), meter: &meter{Meter: own}, usual: own, log: &testLog{t: t}}
	s.meter.available.Store(1000 * mib)
	s.config = agent.Config{
		HostID: "h1", Socket: filepath.Join(dir, "run", "agent.sock"), StateDir: filepath.Join(dir, "state"),
		Tick: 100 * time.Millisecond, Patience: 5 * time.Second,
		// Tests that want cgroups say where: all others would have theirs by the same names in the
		// same place as other tests that run.
		Engines: agent.EnginesConfig{Cgroups: "none"},
	}
	return s
}

// run starts an incarnation of the agent and waits until it is ready.
func run(t *testing.T) *subject {
	t.Helper()
	s := newSubject(t)
	s.start()
	return s
}

func (s *subject) begin() {
	s.t.Helper()
	if s.meter.Meter == s.usual { // an incarnation knows nothing of what the last one has seen
		var err error
		if s.usual, err = host.NewMeter(host.Options{SafetyBytes: -1}); err != nil {
			s.t.Fatal(err)
		}
		s.meter.Meter = s.usual
	}
	s.meter.uncounted = s.cgroups != nil
	deps := agent.Deps{
		Meter: s.meter, Logger: slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})), Version: "test",
		Cgroups: s.cgroups, ForgetEpoch: s.forgetEpoch, Pin: s.pin, ForgetCluster: s.forgetCluster, Socket: s.given,
	}
	if s.servers != nil {
		coordinators := client.NewCluster(s.servers, client.WithoutRetries(), client.WithLargestAnswer(readlimit.Agent))
		s.t.Cleanup(coordinators.Close)
		deps.Allocations, deps.Hosts = coordinators.Allocations(), coordinators.Hosts()
		deps.Finder, deps.Elsewhere = s.servers, coordinators.Elsewhere
	} else {
		upstream := &http.Client{Transport: &http.Transport{}}
		s.t.Cleanup(upstream.CloseIdleConnections)
		deps.Allocations = bursarv1connect.NewAllocationServiceClient(upstream, s.coordinator.server.URL)
		deps.Hosts = bursarv1connect.NewHostServiceClient(upstream, s.coordinator.server.URL)
	}
	var err error
	if s.agent, err = agent.New(s.config, deps); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel, s.ended = cancel, make(chan error, 1)
	go func() { s.ended <- s.agent.Run(ctx) }()
	s.http = socketClient(s.config.Socket)
	s.AllocationServiceClient = bursarv1connect.NewAllocationServiceClient(s.http, "http://agent")
	s.t.Cleanup(func() {
		cancel()
		s.http.CloseIdleConnections()
	})
}

func (s *subject) start() {
	s.t.Helper()
	s.begin()
	s.t.Cleanup(s.stop)
	select {
	case <-s.agent.Ready():
	case err := <-s.ended:
		s.ended <- err
		s.t.Fatalf("the agent has ended: %v", err)
	case <-time.After(20 * time.Second):
		s.t.Fatal("the agent does not become ready")
	}
}

// startOnLoopback starts an agent that serves on TCP, too: at its LoopbackListen.
func (s *subject) startOnLoopback() {
	s.t.Helper()
	address := proc.Address(s.t)
	s.config.LoopbackListen, s.config.LoopbackTrusted = address, true
	s.start()
}

// stop ends the incarnation. Stopping twice is fine.
func (s *subject) stop() {
	s.t.Helper()
	s.cancel()
	s.http.CloseIdleConnections()
	select {
	case err := <-s.ended:
		if err != nil {
			s.t.Errorf("the agent ended with %v", err)
		}
		s.ended <- nil
	case <-time.After(20 * time.Second):
		s.t.Fatal("the agent does not end")
	}
}

func socketClient(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, "unix", path)
		},
	}}
}

// testLog writes the agent's log to the test's, and keeps it.
type testLog struct {
	proc.Output

	t *testing.T
}

func (l *testLog) Write(p []byte) (int, error) {
	_, _ = l.Output.Write(p)
	if l.t.Context().Err() == nil { // else it is over
		l.t.Log(string(p))
	}
	return len(p), nil
}

// process is a child of the test that an engine is made of. It is killed, with its session, at the
// end.
func process(t *testing.T, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	proc.StartGroup(t, cmd)
	return cmd
}

func request(memory int64) *bursarv1.AllocateRequest {
	return &bursarv1.AllocateRequest{Labels: map[string]string{"user": "alice"}, Resource: &bursarv1.Resource{MemoryBytes: new(memory * mib)}}
}

// allocate gets a reservation.
func (s *subject) allocate(memory int64) *bursarv1.Allocation {
	s.t.Helper()
	r, err := s.Allocate(s.t.Context(), request(memory))
	if err != nil {
		s.t.Fatal(err)
	}
	return r.GetAllocation()
}

// engine gets a reservation, starts a process and confirms it.
func (s *subject) engine(memory int64, script string) (*bursarv1.Allocation, *exec.Cmd) {
	s.t.Helper()
	a := s.allocate(memory)
	cmd := process(s.t, script)
	r, err := s.confirm(a.GetId(), cmd.Process.Pid)
	if err != nil {
		s.t.Fatal(err)
	}
	return r.GetAllocation(), cmd
}

func (s *subject) confirm(id string, pid int) (*bursarv1.ConfirmResponse, error) {
	return s.Confirm(s.t.Context(), &bursarv1.ConfirmRequest{Id: id, Process: &bursarv1.Process{Pid: int32(pid)}})
}

// reported are the ids that the agent reported in its last full Sync.
func (c *coordinator) reported() map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := map[string]bool{}
	for _, q := range c.syncs {
		if !q.GetFull() {
			continue
		}
		clear(ids)
		for _, report := range q.GetEngines() {
			ids[report.GetAllocationId()] = true
		}
	}
	return ids
}
