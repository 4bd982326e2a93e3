package agent_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// nobody is the uid of a user that may do nothing in particular.
const nobody = 65534

// binary is a copy of this program that every user can run.
func (s *subject) binary() string {
	s.t.Helper()
	binary := filepath.Join(filepath.Dir(s.config.StateDir), "caller")
	if _, err := os.Stat(binary); err != nil {
		self, err := os.ReadFile("/proc/self/exe")
		if err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(binary, self, 0o755); err != nil {
			s.t.Fatal(err)
		}
	}
	return binary
}

// as calls the agent from a process of another user, and returns what that prints. Only root can
// start one.
func (s *subject) as(uid uint32, call ...string) string {
	s.t.Helper()
	cmd := exec.Command(s.binary())
	cmd.Env = []string{
		asCaller + "=" + s.config.Socket, "CALL=" + strings.Join(call, " "),
		// with the race detector it would wait for a second before it exits
		"GORACE=atexit_sleep_ms=0",
	}
	cmd.Dir = "/"
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Logf("caller: %v", err)
	}
	return string(bytes.TrimSpace(out))
}

// lastActor is who made the last call that reached the coordinator.
func (c *coordinator) lastActor() identity.Actor {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.actors[len(c.actors)-1]
}

// other is a user that is not this process's, with its name; or if this is not root, this one.
func other() (uid uint32, trusted bool) {
	if os.Geteuid() == 0 {
		return nobody, false
	}
	return uint32(os.Geteuid()), true
}

func TestCallersAreWhoTheKernelSaysTheyAre(t *testing.T) {
	s := run(t)
	uid, trusted := other()
	if out := s.as(uid, "allocate"); !strings.HasPrefix(out, "alloc") {
		t.Fatal(out)
	}
	actor := s.coordinator.lastActor()
	user := strings.TrimSuffix(actor.Name, "@h1")
	if len(actor.Users) != 1 || actor.Users[0] != user || user == "" || actor.Anyone != trusted || actor.Priority != trusted {
		t.Errorf("actor: %+v", actor)
	}
	s.allocate(10)
	if actor := s.coordinator.lastActor(); !actor.Anyone || !actor.Priority || actor.Admin || actor.Role != identity.Submitter || actor.Host != "h1" {
		t.Errorf("the agent's own account: %+v", actor)
	}
}

func TestTrustedCallersAreConfigured(t *testing.T) {
	s := newSubject(t)
	uid, _ := other()
	s.config.TrustedUsers = []string{strconv.Itoa(int(uid))}
	s.start()
	if out := s.as(uid, "allocate"); !strings.HasPrefix(out, "alloc") {
		t.Fatal(out)
	}
	if actor := s.coordinator.lastActor(); !actor.Anyone || !actor.Priority || actor.Admin {
		t.Errorf("actor: %+v", actor)
	}
}

func TestNobodyConfirmsTheProcessOfAnother(t *testing.T) {
	s := run(t)
	uid, trusted := other()
	a := s.allocate(10)
	pid := strconv.Itoa(process(t, "exec sleep 1000").Process.Pid)
	out := s.as(uid, "confirm", a.GetId(), pid)
	if refused := strings.HasPrefix(out, "permission_denied"); refused == trusted {
		t.Errorf("%s", out)
	}
	if out := s.as(uid, "confirm", s.allocate(10).GetId(), "self"); !strings.HasPrefix(out, "confirmed") {
		t.Errorf("its own process: %s", out)
	}
}

func TestSocketThatWasLeftBehindIsReplaced(t *testing.T) {
	s := newSubject(t)
	if err := os.MkdirAll(filepath.Dir(s.config.Socket), 0o755); err != nil {
		t.Fatal(err)
	}
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.config.Socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	s.config.SocketMode, s.config.SocketGroup = "0660", strconv.Itoa(os.Getegid())
	s.start()
	s.allocate(10)
	if info, err := os.Stat(s.config.Socket); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	s.stop()
	if _, err := os.Stat(s.config.Socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the agent has ended: %v", err)
	}
}

func TestEverybodyMayCallByDefault(t *testing.T) {
	s := run(t)
	if info, err := os.Stat(s.config.Socket); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestFileInPlaceOfTheSocketIsLeftAlone(t *testing.T) {
	s := newSubject(t)
	if err := os.MkdirAll(filepath.Dir(s.config.Socket), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.config.Socket, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.runError(); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Errorf("%v", err)
	}
	if content, err := os.ReadFile(s.config.Socket); err != nil || string(content) != "precious" {
		t.Errorf("%q, %v", content, err)
	}
}

func TestSocketGroupMustExist(t *testing.T) {
	s := newSubject(t)
	s.config.SocketGroup = "no such group"
	var wrong *agent.ConfigError
	if err := s.runError(); !errors.As(err, &wrong) || wrong.Field != "socketGroup" {
		t.Errorf("%v", err)
	}
}

// get reads a page of the agent's.
func (s *subject) get(client *http.Client, path string) (int, string) {
	s.t.Helper()
	r, err := client.Get("http://agent" + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

func TestPagesOfTheSocket(t *testing.T) {
	s := run(t)
	s.engine(100, "exec sleep 1000")
	s.ticks(2)
	for path, want := range map[string]string{
		"/healthz": "ok\n", "/readyz": "ok\n", "/debug/pprof/": "goroutine", "/debug/pprof/cmdline": "agent",
	} {
		if status, body := s.get(s.http, path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %q", path, status, body)
		}
	}
	_, body := s.get(s.http, "/metrics")
	for _, line := range []string{
		"bursar_agent_engines 1", "bursar_agent_booked_memory_bytes 1.048576e+08", "bursar_agent_host_memory_available_bytes 1.048576e+09",
		"bursar_agent_epoch 3", `bursar_agent_call_seconds_count{code="ok",procedure="Confirm"} 1`, `bursar_agent_sync_seconds_count{outcome="ok"}`,
		`bursar_agent_state_write_seconds_count{outcome="ok"}`, "bursar_agent_vetoes_total 0", "bursar_agent_measure_seconds_count", "bursar_agent_headroom_bytes",
	} {
		if !strings.Contains(body, line) {
			t.Errorf("metrics lack %s", line)
		}
	}
	if out := s.as(nobody, "get", "/debug/pprof/heap"); os.Geteuid() == 0 && !strings.HasPrefix(out, "403") {
		t.Errorf("the memory of the agent, for anybody: %s", out)
	}
	if out := s.as(nobody, "get", "/healthz"); !strings.HasPrefix(out, "200") {
		t.Errorf("health, for anybody: %s", out)
	}
	s.coordinator.goAway()
	if status, _ := s.get(s.http, "/healthz"); status != http.StatusOK {
		t.Error("an agent without a coordinator is healthy")
	}
}

func TestHealthServiceAnswers(t *testing.T) {
	s := run(t)
	check := func(service string) string {
		r, err := s.http.Post("http://agent/grpc.health.v1.Health/Check", "application/json", strings.NewReader(fmt.Sprintf(`{"service":%q}`, service)))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, _ := io.ReadAll(r.Body)
		return string(body)
	}
	for service, want := range map[string]string{
		"": "SERVING_STATUS_SERVING", bursarv1connect.AllocationServiceName: "SERVING_STATUS_SERVING", "other": "not_found",
	} {
		if got := check(service); !strings.Contains(got, want) {
			t.Errorf("%q: %s", service, got)
		}
	}
}

func TestLargeAndSenselessRequestsAreRefused(t *testing.T) {
	s := run(t)
	q := request(10)
	q.Labels["user"] = strings.Repeat("a", 10<<20)
	if _, err := s.Allocate(t.Context(), q); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("10 MiB: %.200v", err)
	}
	for _, body := range []string{`{`, `{"nonsense":1}`, `{"resource":{"memoryBytes":"x"}}`, "\xff"} {
		r, err := s.http.Post("http://agent/bursar.v1.AllocationService/Allocate", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		if r.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: status %d", body, r.StatusCode)
		}
	}
	s.allocate(10)
}

func TestLoopbackServesTheAPIAlone(t *testing.T) {
	s := newSubject(t)
	s.startOnLoopback()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	base := "http://" + s.config.LoopbackListen
	if _, err := bursarv1connect.NewAllocationServiceClient(client, base).Allocate(t.Context(), request(10)); err != nil {
		t.Fatal(err)
	}
	if actor := s.coordinator.lastActor(); actor.Name != "local@h1" || !actor.Anyone || actor.Admin {
		t.Errorf("actor: %+v", actor)
	}
	launch := &bursarv1.LaunchRequest{Id: s.allocate(10).GetId(), Command: []string{"true"}}
	if _, err := bursarv1connect.NewEngineServiceClient(client, base).Launch(t.Context(), launch); connect.CodeOf(err) != connect.CodeUnimplemented {
		t.Errorf("an engine is launched for somebody: %v", err)
	}
	for _, path := range []string{"/debug/pprof/", "/metrics", "/healthz"} {
		r, err := client.Get(base + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		if r.StatusCode != http.StatusNotFound {
			t.Errorf("%s: status %d", path, r.StatusCode)
		}
	}
	cross, err := http.NewRequest(http.MethodPost, base+"/bursar.v1.AllocationService/Allocate", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	cross.Header.Set("Sec-Fetch-Site", "cross-site")
	r, err := client.Do(cross)
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	if r.StatusCode != http.StatusForbidden {
		t.Errorf("from a page in a browser: status %d", r.StatusCode)
	}
}

func TestReadsGoOnWithoutTheCoordinator(t *testing.T) {
	s := run(t)
	e, _ := s.engine(100, "exec sleep 1000")
	var ids []string
	for range 2 {
		ids = append(ids, s.allocate(10).GetId())
	}
	ctx := t.Context()
	s.ticks(2)
	if r, err := s.List(ctx, &bursarv1.AllocationServiceListRequest{}); err != nil || len(r.GetAllocations()) != 3 || r.GetRevision() == 0 {
		t.Errorf("with the coordinator: %v, %v", r, err)
	}
	s.coordinator.goAway()
	page, err := s.List(ctx, &bursarv1.AllocationServiceListRequest{PageSize: 2})
	if err != nil || len(page.GetAllocations()) != 2 || page.GetAllocations()[0].GetId() != e.GetId() || page.GetAllocations()[0].GetMeasured() == nil {
		t.Fatalf("first page: %v, %v", page, err)
	}
	rest, err := s.List(ctx, &bursarv1.AllocationServiceListRequest{PageSize: 2, PageToken: page.GetNextPageToken()})
	if err != nil || len(rest.GetAllocations()) != 1 || rest.GetAllocations()[0].GetId() != ids[1] || rest.GetNextPageToken() != "" {
		t.Errorf("second page: %v, %v", rest, err)
	}
	for name, test := range map[string]struct {
		q    *bursarv1.AllocationServiceListRequest
		want int
	}{
		"by state":        {&bursarv1.AllocationServiceListRequest{States: []bursarv1.AllocationState{active}}, 1},
		"by label":        {&bursarv1.AllocationServiceListRequest{Labels: map[string]string{"user": "alice"}}, 3},
		"by any value":    {&bursarv1.AllocationServiceListRequest{Labels: map[string]string{"user": "*"}}, 3},
		"another label":   {&bursarv1.AllocationServiceListRequest{Labels: map[string]string{"user": "bob"}}, 0},
		"no such label":   {&bursarv1.AllocationServiceListRequest{Labels: map[string]string{"creator": "*"}}, 0},
		"by prefix":       {&bursarv1.AllocationServiceListRequest{IdPrefix: ids[0]}, 1},
		"by another host": {&bursarv1.AllocationServiceListRequest{HostId: "h1"}, 3},
	} {
		if r, err := s.List(ctx, test.q); err != nil || len(r.GetAllocations()) != test.want {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	if _, err := s.List(ctx, &bursarv1.AllocationServiceListRequest{Ended: true}); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("what has ended: %v", err)
	}
	if _, err := s.List(ctx, &bursarv1.AllocationServiceListRequest{HostId: "h2"}); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("another host: %v", err)
	}
	r, err := s.Get(ctx, &bursarv1.AllocationServiceGetRequest{Id: e.GetId()})
	if err != nil || r.GetAllocation().GetState() != active {
		t.Errorf("get: %v, %v", r, err)
	}
	r, err = s.Get(ctx, &bursarv1.AllocationServiceGetRequest{RequestId: e.GetRequestId()})
	if err != nil || r.GetAllocation().GetId() != e.GetId() {
		t.Errorf("get by request id: %v, %v", r, err)
	}
	if _, err := s.Get(ctx, &bursarv1.AllocationServiceGetRequest{Id: "unknown"}); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("get of what the agent does not hold: %v", err)
	}
}

func TestWatchIsOfThisHost(t *testing.T) {
	s := run(t)
	stream, err := s.Watch(t.Context(), &bursarv1.AllocationServiceWatchRequest{AfterRevision: 5})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	want := &bursarv1.AllocationServiceWatchResponse{Revision: 7, Allocation: &bursarv1.Allocation{Id: "w", HostId: "h1"}}
	if !stream.Receive() || !proto.Equal(stream.Msg(), want) {
		t.Fatalf("%v, %v", stream.Msg(), stream.Err())
	}
	s.coordinator.goAway()
	if stream.Receive() || connect.CodeOf(stream.Err()) != connect.CodeUnavailable {
		t.Errorf("without the coordinator: %v", stream.Err())
	}
	other, err := s.Watch(t.Context(), &bursarv1.AllocationServiceWatchRequest{HostId: "h2"})
	if err == nil {
		other.Receive()
		err = other.Err()
		_ = other.Close()
	}
	if connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("another host: %v", err)
	}
}
