package soak

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

const (
	// engines are there at a time, each for up to life.
	engines = 200
	life    = 20 * time.Second
	tick    = time.Second
	mib     = int64(1) << 20

	// asEngine makes the test's program an engine.
	asEngine = "BURSAR_TEST_ENGINE"
)

// beEngine holds some memory until it is killed, or ends by itself.
func beEngine() {
	held := make([]byte, 2*mib)
	for i := range held {
		held[i] = 1
	}
	d, _ := time.ParseDuration(os.Getenv(asEngine)) // the test has written it
	<-time.After(d)
	held[0] = 2
}

// TestMinutes has 200 engines come and go: a third ends by itself, a third is released by its
// launcher, a third stopped. What an agent and a coordinator take must be the same in the last
// fifth of the time as in the second.
func TestMinutes(t *testing.T) {
	s := startServers(t)
	ctx, cancel := context.WithTimeout(t.Context(), *minutes)
	defer cancel()
	var launchers sync.WaitGroup
	var made atomic.Int64
	for i := range engines {
		launchers.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			for ctx.Err() == nil && !t.Failed() {
				s.oneEngine(ctx, random)
				made.Add(1)
			}
		})
	}
	var series []usage
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for ctx.Err() == nil {
		<-ticker.C
		series = append(series, s.look())
	}
	launchers.Wait()
	t.Logf("%d engines in %s", made.Load(), *minutes)
	s.settled()

	compare(t, series)
	most := longestLog(s.carry)
	t.Logf("the store's log had up to %d bytes, carried over after %d pages: at most %d", s.log, s.carry, most)
	if s.log > most {
		t.Error("the store's log is too long")
	}
}

// servers are a coordinator and an agent, of the shipped program.
type servers struct {
	t                  *testing.T
	coordinator, agent *exec.Cmd
	client             *client.Client // of the agent
	operator           *client.Client
	dir                string
	carry              int64 // pages after which the store's log is carried over
	log                int64 // the longest that it was seen, in bytes
}

func startServers(t *testing.T) *servers {
	t.Helper()
	dir, err := os.MkdirTemp("", "soak") //nolint:usetesting // its path must be short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	bursar := filepath.Join(dir, "bursar")
	s := &servers{t: t, dir: dir, carry: carryOf(*minutes)}
	buildShortLog(t, bursar, s.carry)
	address := proc.Address(t)
	s.coordinator = s.start(bursar, "coordinator", fmt.Sprintf("listen: %s\ndataDir: %s/data\ntimes: {interval: 1s, requestRetention: %s}\nhistory: {retention: %[3]s, pruneEvery: 1s}\n",
		address, dir, *minutes/10)) // so that as much is forgotten as comes in
	socket := filepath.Join(dir, "agent.sock")
	s.agent = s.start(bursar, "agent", fmt.Sprintf("hostId: soak\nsocket: %s\nstateDir: %s/agent\ntick: %s\ncoordinators: [\"http://%s\"]\n", socket, dir, tick, address))
	if s.client, err = client.New(socket); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
	if s.operator, err = client.New(address); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.operator.Close)
	proc.Eventually(t, time.Minute, 50*time.Millisecond, "the agent's host is healthy", func() error {
		status, err := s.operator.Cluster().Status(t.Context(), &bursarv1.StatusRequest{})
		if err == nil && status.GetHostsHealthy() != 1 {
			err = fmt.Errorf("%d hosts are healthy", status.GetHostsHealthy())
		}
		return err
	})
	return s
}

// start starts a server that ends with the test.
func (s *servers) start(bursar, kind, config string) *exec.Cmd {
	s.t.Helper()
	file := filepath.Join(s.dir, kind+".yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(bursar, kind, "--config", file)
	log, err := os.Create(filepath.Join(s.dir, kind+".log"))
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "GOGC=100") // as shipped, whatever the tests have
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // unless it has ended
		if err := cmd.Wait(); err != nil {
			s.t.Errorf("bursar %s: %v", kind, err)
		}
		_ = log.Close()
		if text, err := os.ReadFile(log.Name()); err == nil && s.t.Failed() {
			s.t.Logf("bursar %s said at last:\n%s", kind, text[max(0, len(text)-4096):])
		}
	})
	return cmd
}

// oneEngine takes an engine through its life.
func (s *servers) oneEngine(ctx context.Context, random *rand.Rand) {
	background := s.t.Context()
	res, err := s.client.Allocations().Allocate(background, &bursarv1.AllocateRequest{
		RequestId: client.NewRequestID(), Labels: map[string]string{"user": fmt.Sprint("user", random.IntN(10)), "engineType": "soak"},
		Resource: &bursarv1.Resource{MemoryBytes: new(8 * mib)},
		// On a busy machine heartbeats may be late, and the host takes no engines for a moment.
		Wait: durationpb.New(30 * time.Second),
	})
	if err != nil {
		s.t.Errorf("allocate: %v", err)
		return
	}
	id := res.GetAllocation().GetId()
	long := time.Duration(random.Int64N(int64(life)))
	byItself := random.IntN(3)
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{asEngine + "=" + time.Hour.String()}
	if byItself == 0 {
		cmd.Env = []string{asEngine + "=" + long.String()}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
	if err := cmd.Start(); err != nil {
		s.t.Errorf("engine: %v", err)
		return
	}
	_, err = s.client.Allocations().Confirm(background, &bursarv1.ConfirmRequest{Id: id, Process: &bursarv1.Process{Pid: int32(cmd.Process.Pid)}})
	switch {
	// The engine was quicker, as some are.
	case err != nil && byItself == 0 && client.Precondition(err):
		byItself, long = 1, 0
	case err != nil:
		s.t.Errorf("confirm: %v", err)
	}
	if byItself != 0 {
		select {
		case <-time.After(long):
		case <-ctx.Done():
		}
	}
	switch byItself {
	case 0:
		if ctx.Err() != nil {
			_ = cmd.Process.Kill()
		}
	case 1:
		_ = cmd.Process.Kill()
		if _, err := s.client.Allocations().Release(background, &bursarv1.ReleaseRequest{Id: id}); err != nil {
			s.t.Errorf("release: %v", err)
		}
	case 2:
		if _, err := s.client.Allocations().Stop(background, &bursarv1.StopRequest{Id: id, Reason: "soak"}); err != nil {
			s.t.Errorf("stop: %v", err)
		}
	}
	_ = cmd.Wait() // however it ended
}

// settled waits until the ledger is empty, and checks whether it is right.
func (s *servers) settled() {
	s.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		list, err := s.operator.Allocations().List(s.t.Context(), &bursarv1.AllocationServiceListRequest{})
		if err != nil {
			s.t.Fatal(err)
		}
		if len(list.GetAllocations()) == 0 {
			break
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%d allocations are left, such as %v", len(list.GetAllocations()), list.GetAllocations()[0])
		}
		<-time.After(100 * time.Millisecond)
	}
	audit, err := s.operator.Cluster().Audit(s.t.Context(), &bursarv1.AuditRequest{})
	if err != nil || len(audit.GetViolations()) > 0 {
		s.t.Errorf("the ledger: %v, %v", audit, err)
	}
}

// look measures what they use now. Memory is their private memory (RssAnon): pages of the program
// are shared and come back.
func (s *servers) look() usage {
	s.t.Helper()
	u := usage{}
	for name, cmd := range map[string]*exec.Cmd{"agent": s.agent, "coordinator": s.coordinator} {
		proc := fmt.Sprintf("/proc/%d/", cmd.Process.Pid)
		status, err := os.ReadFile(proc + "status")
		if err != nil {
			s.t.Fatal(err)
		}
		files, err := os.ReadDir(proc + "fd")
		if err != nil {
			s.t.Fatal(err)
		}
		u[name+" descriptors"] = int64(len(files))
		u[name+" memory"] = field(string(status), "RssAnon:") << 10
		u[name+" threads"] = field(string(status), "Threads:")
	}
	for _, folder := range []string{"agent", "data"} {
		files, err := os.ReadDir(filepath.Join(s.dir, folder))
		if err != nil {
			s.t.Fatal(err)
		}
		u[folder+" files"] = int64(len(files))
		for _, file := range files {
			info, err := file.Info()
			switch {
			case err != nil: // it has been replaced
			case strings.HasSuffix(file.Name(), "-wal"):
				s.log = max(s.log, info.Size())
			default:
				u[folder+" bytes on disk"] += info.Size()
			}
		}
	}
	u["agent goroutines"], u["coordinator goroutines"] = s.goroutines("unix", s.client.Target()), s.goroutines("tcp", s.operator.Target())
	return u
}

// goroutines asks a server's metrics, over a connection of its own.
func (s *servers) goroutines(network, address string) int64 {
	s.t.Helper()
	address = strings.TrimPrefix(strings.TrimPrefix(address, "unix:"), "http://")
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://server/metrics", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	n := field(string(text), "\ngo_goroutines ")
	if n == 0 {
		s.t.Fatalf("no go_goroutines in the metrics of %s", address)
	}
	return n
}

// field is a number behind a word.
func field(text, word string) (n int64) {
	_, after, _ := strings.Cut(text, word)
	_, _ = fmt.Sscan(after, &n) // 0 where there is none
	return n
}
