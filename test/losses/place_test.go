package losses

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

const (
	hostID = "losses"
	// tick is between two measurements, and between two heartbeats.
	tick = time.Second
	mib  = int64(1) << 20
)

// The states, in short.
const (
	reserved = bursarv1.AllocationState_ALLOCATION_STATE_RESERVED
	active   = bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE
	released = bursarv1.AllocationState_ALLOCATION_STATE_RELEASED
)

// place is one coordinator and one agent, each a process of its own.
type place struct {
	t               *testing.T
	dir             string
	address, socket string
	// remote and local are clients of the coordinator and of the agent's socket.
	remote, local *client.Client

	coordinator, agent *proc.Process
	// program is the agent's.
	program string
}

// settings are lines of YAML in addition to those that all tests want.
type settings struct {
	agent   string
	engines string // of the agent's section engines; by default it keeps them without cgroups
	state   string // its stateDir; default: one of its own
}

// newPlace writes the configurations and makes the clients; it starts nothing. No host becomes
// suspect because this machine is busy.
func newPlace(t *testing.T, s settings) *place {
	t.Helper()
	// Not t.TempDir, whose path may be too long for a socket.
	dir, err := os.MkdirTemp("", "loss") //nolint:usetesting // the path of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &place{t: t, dir: dir, address: proc.Address(t), socket: filepath.Join(dir, "agent.sock"), program: filepath.Join(programs, "bursar")}
	p.remote, p.local = p.client(p.address), p.client(p.socket)
	p.write("quotas.yaml", "quotas:\n  - selector: {user: \"*\"}\n    limit: {instances: 20, memory: 16GiB, cpu: 64}\n")
	p.write("coordinator.yaml", fmt.Sprintf("listen: %s\ndataDir: %s\nquotaFiles: [%[3]s/quotas.yaml]\ntimes:\n  interval: %s\n  suspectAfter: 30\n",
		p.address, p.data(), dir, tick))
	if s.engines == "" {
		s.engines = "  cgroups: none\n"
	}
	if s.state == "" {
		s.state = p.state()
	}
	p.write("agent.yaml", p.agentConfig(p.socket, s.state, "  logDir: "+filepath.Join(dir, "logs")+"\n"+s.engines+s.agent))
	return p
}

func (p *place) agentConfig(socket, state, more string) string {
	return fmt.Sprintf("hostId: %s\nsocket: %s\nstateDir: %s\ncoordinators: [http://%s]\ntick: %s\nengines:\n%s", hostID, socket, state, p.address, tick, more)
}

// startPlace starts both and waits until both serve.
func startPlace(t *testing.T, s settings) *place {
	t.Helper()
	p := newPlace(t, s)
	p.startCoordinator()
	p.startAgent()
	return p
}

func (p *place) data() string { return filepath.Join(p.dir, "data") }

func (p *place) state() string { return filepath.Join(p.dir, "state") }

func (p *place) stateFile() string { return filepath.Join(p.state(), "state.json") }

func (p *place) client(target string) *client.Client {
	p.t.Helper()
	made, err := client.New(target)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(made.Close)
	return made
}

func (p *place) write(name, content string) (path string) {
	p.t.Helper()
	path = filepath.Join(p.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path
}

func (p *place) startCoordinator() {
	p.t.Helper()
	p.coordinator = start(p.t, nil, p.program, "coordinator", "--config", filepath.Join(p.dir, "coordinator.yaml"), "--log-format", "text")
	p.awaitReady(p.coordinator, "tcp", p.address)
}

func (p *place) startAgent() {
	p.t.Helper()
	p.agent = p.newAgent()
	p.awaitReady(p.agent, "unix", p.socket)
}

// newAgent does not wait.
func (p *place) newAgent() *proc.Process {
	p.t.Helper()
	return start(p.t, nil, p.program, "agent", "--config", filepath.Join(p.dir, "agent.yaml"), "--log-format", "text")
}

// shut ends a server as a service manager does, and expects that it ends well.
func (p *place) shut(server *proc.Process) {
	p.t.Helper()
	server.Signal(syscall.SIGTERM)
	if code := server.Wait(patience); code != 0 {
		p.t.Errorf("%s ended with %d", server.Name, code)
	}
}

// get reads a page of a server, over a connection of its own.
func get(ctx context.Context, network, address, path string) (status int, body string, err error) {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://bursar"+path, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, string(content), err
}

// awaitReady waits until a process serves and says so.
func (p *place) awaitReady(server *proc.Process, network, address string) {
	p.t.Helper()
	eventually(p.t, server.Name+" is ready", func() error {
		if !server.Running() {
			p.t.Fatalf("%s has ended: %v", server.Name, server.Err())
		}
		status, _, err := get(p.t.Context(), network, address, "/readyz")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("readyz: %d", status)
		}
		return err
	})
}

// metric is a number of a server's; a series that is not there is 0.
func (p *place) metric(network, address, series string) float64 {
	p.t.Helper()
	_, body, err := get(p.t.Context(), network, address, "/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	_, after, _ := strings.Cut("\n"+body, "\n"+series+" ")
	line, _, _ := strings.Cut(after, "\n")
	value, _ := strconv.ParseFloat(line, 64) // 0 where there is none
	return value
}

// heartbeats are those of this agent that were answered.
func (p *place) heartbeats() int {
	p.t.Helper()
	return int(p.metric("unix", p.socket, `bursar_agent_sync_seconds_count{outcome="ok"}`))
}

// inTime waits until check finds no fault, and fails if there still is one after two more
// heartbeats have been answered.
func (p *place) inTime(what string, check func() error) {
	p.t.Helper()
	// The one that is under way may have been made before.
	last := p.heartbeats() + 3
	eventually(p.t, what, func() error {
		beats := p.heartbeats()
		err := check()
		if err != nil && beats >= last {
			p.t.Fatalf("%s: not within two heartbeats: %v", what, err)
		}
		return err
	})
}

// environment leads a command to this place.
func (p *place) environment() []string {
	return []string{"BURSAR_ADDR=" + p.address, "BURSAR_AGENT=" + p.socket}
}

// bursar runs a command against it.
func (p *place) bursar(args ...string) proc.Result {
	p.t.Helper()
	return command(p.t, p.environment(), args...)
}

var errNotYet = errors.New("not yet")
