package chaos

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

// upTime is how long a bursar may take to serve: long, for a machine that is busy with other
// things and a race detector.
const upTime = 30 * time.Second

// hostID is the name of the one host.
const hostID = "chaos"

// cluster is one coordinator and one agent, each a process of its own, or both in one (dev).
type cluster struct {
	t               *testing.T
	dir             string
	address, socket string
	// remote and local are clients of the coordinator and of the agent's socket.
	remote, local *client.Client

	coordinator, agent *proc.Process
}

// settings are lines of YAML, to be added to the configuration of each.
type settings struct {
	agent  string
	quotas string // a quota file; empty: none
}

// place finds a directory and addresses, and makes the clients. Nothing is started.
func place(t *testing.T) *cluster {
	t.Helper()
	// Not t.TempDir, whose path may be too long for a socket.
	dir, err := os.MkdirTemp("", "bursar") //nolint:usetesting // the path of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := &cluster{t: t, dir: dir, address: proc.Address(t), socket: filepath.Join(dir, "agent.sock")}
	c.remote, c.local = c.client(c.address), c.client(c.socket)
	return c
}

// client returns another client of the cluster, closed with the test.
func (c *cluster) client(target string, options ...client.Option) *client.Client {
	c.t.Helper()
	made := must[*client.Client](c.t)(client.New(target, options...))
	c.t.Cleanup(made.Close)
	return made
}

// newCluster writes the configurations of two processes. Their ticks and intervals are one second,
// and a host is not suspect because this machine is busy.
func newCluster(t *testing.T, s settings) *cluster {
	t.Helper()
	c := place(t)
	files := ""
	if s.quotas != "" {
		files = "quotaFiles: [" + c.write("quotas.yaml", s.quotas) + "]\n"
	}
	c.configure(files)
	c.write("agent.yaml", fmt.Sprintf("hostId: %s\nsocket: %s\nstateDir: %s\ncoordinators: [http://%s]\ntick: %s\n%s",
		hostID, c.socket, filepath.Join(c.dir, "agent"), c.address, tick, s.agent))
	return c
}

// configure writes the coordinator's configuration, which ends with these lines.
func (c *cluster) configure(lines string) {
	c.t.Helper()
	c.write("coordinator.yaml", fmt.Sprintf("listen: %s\ndataDir: %s\ntimes:\n  interval: 1s\n  suspectAfter: 10\n%s",
		c.address, filepath.Join(c.dir, "coordinator"), lines))
}

// tick is the agent's, and the interval at which it reports.
const tick = time.Second

// startCluster starts both and waits until both serve.
func startCluster(t *testing.T, s settings) *cluster {
	t.Helper()
	c := newCluster(t, s)
	c.startCoordinator()
	c.startAgent()
	return c
}

func (c *cluster) write(name, content string) (path string) {
	c.t.Helper()
	path = filepath.Join(c.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

func (c *cluster) startCoordinator() {
	c.t.Helper()
	c.coordinator = start(c.t, "coordinator", "--config", filepath.Join(c.dir, "coordinator.yaml"), "--log-format", "text")
	c.awaitReady(c.coordinator, "tcp", c.address)
}

func (c *cluster) startAgent() {
	c.t.Helper()
	c.agent = start(c.t, "agent", "--config", filepath.Join(c.dir, "agent.yaml"), "--log-format", "text")
	c.awaitReady(c.agent, "unix", c.socket)
}

// awaitReady waits until a process serves and says so.
func (c *cluster) awaitReady(p *proc.Process, network, address string) {
	c.t.Helper()
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}
	defer transport.CloseIdleConnections()
	probe := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	eventually(c.t, upTime, p.Name+" is ready", func() error {
		if !p.Running() {
			c.t.Fatalf("%s has ended: %v", p.Name, p.Err())
		}
		response, err := probe.Get("http://bursar/readyz")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("readyz: %s", response.Status)
		}
		return nil
	})
}

// environment leads a command to this cluster.
func (c *cluster) environment() []string {
	return []string{"BURSAR_ADDR=" + c.address, "BURSAR_AGENT=" + c.socket}
}

// bursar runs a command against the cluster.
func (c *cluster) bursar(args ...string) proc.Result {
	c.t.Helper()
	return command(c.t, c.environment(), args...)
}

// audited fails the test unless the ledger is right.
func (c *cluster) audited() {
	c.t.Helper()
	c.bursar("audit").Expect(c.t, 0, " 0 violations")
}

// host reads the host, with its account.
func (c *cluster) host() *bursarv1.Host {
	c.t.Helper()
	res := must[*bursarv1.HostServiceListResponse](c.t)(c.remote.Hosts().List(c.t.Context(), &bursarv1.HostServiceListRequest{}))
	if len(res.GetHosts()) != 1 {
		c.t.Fatalf("%d hosts, want one", len(res.GetHosts()))
	}
	return res.GetHosts()[0]
}

// get reads an allocation, live or ended.
func (c *cluster) get(id string) *bursarv1.Allocation {
	c.t.Helper()
	request := &bursarv1.AllocationServiceGetRequest{Id: id}
	return must[*bursarv1.AllocationServiceGetResponse](c.t)(c.remote.Allocations().Get(c.t.Context(), request)).GetAllocation()
}

// live lists what lives, from any server.
func live(t *testing.T, from *client.Client) []*bursarv1.Allocation {
	t.Helper()
	var list []*bursarv1.Allocation
	for page, err := range from.ListAllocations(t.Context(), &bursarv1.AllocationServiceListRequest{PageSize: 1000}) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, page.GetAllocations()...)
	}
	return list
}

// is returns an error unless the allocation is in the state.
func (c *cluster) is(id string, want bursarv1.AllocationState) error {
	c.t.Helper()
	if a := c.get(id); a.GetState() != want {
		return fmt.Errorf("allocation %s is %s (%s), want %s", id, stateName(a.GetState()), a.GetReason(), stateName(want))
	}
	return nil
}

func stateName(s bursarv1.AllocationState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "ALLOCATION_STATE_"))
}

// The states, in short.
const (
	waiting  = bursarv1.AllocationState_ALLOCATION_STATE_WAITING
	reserved = bursarv1.AllocationState_ALLOCATION_STATE_RESERVED
	active   = bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE
	released = bursarv1.AllocationState_ALLOCATION_STATE_RELEASED
	expired  = bursarv1.AllocationState_ALLOCATION_STATE_EXPIRED
	canceled = bursarv1.AllocationState_ALLOCATION_STATE_CANCELED
)

// request asks for memory and cpu for a user; the request id is new.
func request(user string, memoryBytes, cpuMillis int64) *bursarv1.AllocateRequest {
	return &bursarv1.AllocateRequest{
		RequestId: client.NewRequestID(),
		Labels:    map[string]string{"user": user, "creator": "chaos", "engineType": "test"},
		Resource:  &bursarv1.Resource{MemoryBytes: &memoryBytes, CpuMillis: &cpuMillis},
	}
}

// allocate reserves through the agent.
func (c *cluster) allocate(r *bursarv1.AllocateRequest) *bursarv1.Allocation {
	c.t.Helper()
	return must[*bursarv1.AllocateResponse](c.t)(c.local.Allocations().Allocate(c.t.Context(), r)).GetAllocation()
}

// confirm makes the engine that of the allocation.
func (c *cluster) confirm(id string, e *engine) *bursarv1.Allocation {
	c.t.Helper()
	request := &bursarv1.ConfirmRequest{Id: id, Process: &bursarv1.Process{Pid: int32(e.pid())}}
	return must[*bursarv1.ConfirmResponse](c.t)(c.local.Allocations().Confirm(c.t.Context(), request)).GetAllocation()
}

// startConfirmed starts an engine with an allocation.
func (c *cluster) startConfirmed(r *bursarv1.AllocateRequest) (*engine, *bursarv1.Allocation) {
	c.t.Helper()
	a := c.allocate(r)
	e := startEngine(c.t)
	return e, c.confirm(a.GetId(), e)
}

func (c *cluster) release(id string) {
	c.t.Helper()
	if _, err := c.local.Allocations().Release(c.t.Context(), &bursarv1.ReleaseRequest{Id: id}); err != nil {
		c.t.Fatal(err)
	}
}

// expectEmpty waits until nothing lives and every account is at zero, and audits the ledger.
func (c *cluster) expectEmpty(within time.Duration) {
	c.t.Helper()
	eventually(c.t, within, "everything is given back", func() error {
		if list := live(c.t, c.remote); len(list) > 0 {
			return fmt.Errorf("%d allocations live, the first: %v", len(list), list[0])
		}
		for _, account := range append(c.quotaAccounts(), c.host().GetAccount()) {
			held := amountsOf(account.GetUsed()).plus(amountsOf(account.GetReserved()))
			if !held.isZero() || account.GetAllocations() != 0 || account.GetWaiting() != 0 {
				return fmt.Errorf("account %v holds %v, %d allocations, %d waiting", account.GetName(), held, account.GetAllocations(), account.GetWaiting())
			}
		}
		return nil
	})
	if list := live(c.t, c.local); len(list) > 0 {
		c.t.Errorf("the agent holds %d allocations, the first: %v", len(list), list[0])
	}
	c.audited()
}

func (c *cluster) quotaAccounts() []*bursarv1.Account {
	c.t.Helper()
	var accounts []*bursarv1.Account
	for page, err := range c.remote.ListQuotas(c.t.Context(), &bursarv1.QuotaServiceListRequest{PageSize: 1000}) {
		if err != nil {
			c.t.Fatal(err)
		}
		accounts = append(accounts, page.GetAccounts()...)
	}
	return accounts
}

// refused reports whether an error is the refusal of a request for lack of resources, which says
// what was short.
func refused(err error) (*bursarv1.InsufficientResources, bool) {
	if connect.CodeOf(err) != connect.CodeResourceExhausted {
		return nil, false
	}
	return client.Insufficient(err)
}

func seconds(n int64) *durationpb.Duration { return durationpb.New(time.Duration(n) * time.Second) }
