//go:build linux

package ha

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/discovery"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/consul"
	"github.com/bursar/bursar/test/netlab"
	"github.com/bursar/bursar/test/postgres"
)

// cluster is the whole installation.
type cluster struct {
	t        *testing.T
	dir      string
	lab      *netlab.Lab
	consuls  []*consul.Server // number i stands in node consul-i, and serves coordinator i
	database *postgres.Server
	dsn      string
	members  []*member
	hosts    []*host
	trust    *trust // nil: everybody may do everything, in clear text

	// admin and gateway are clients that find any coordinator that answers: an admin's, and one
	// that asks for users.
	admin, gateway *client.Client
}

// member is a coordinator, with the nodes of its machine: its own, and that of its Consul server.
type member struct {
	*process
	url          string
	node, consul *netlab.Node
	// direct is a client of this coordinator alone, which asks once.
	direct *client.Client
}

// host is an agent.
type host struct {
	*process
	id, socket string
	local      *client.Client
}

// size is how large an installation is.
type size struct {
	coordinators, agents int
	program              string // that the coordinators run; empty: the one under test
	suspectAfter         int    // intervals of silence; 0: more than any fault takes
	losesConsul          bool   // servers of Consul are to be counted as dead soon
	remote               bool   // hosts launch engines for callers elsewhere
}

// How agents and hosts are named and measured. A host's capacity is far less than its share of the
// machine, so that refusals come from the ledger and never from a lack of real memory.
const (
	tick           = 2 * time.Second
	hostMemory     = 64 << 20
	hostCPU        = 1000
	userInstances  = 8
	userMemory     = 48 << 20
	racerInstances = 3
	requestMemory  = 4 << 20 // at most
)

// settings are those of every coordinator. A leader whose commits do not end stops leading after
// two seconds, so that a store that hangs costs little of the time of this suite.
const settings = `quotaFiles: [%s]
times:
  interval: 2s
  suspectAfter: %d
  reservationTTL: 30m
limits:
  commitTimeout: 2s
`

var quotas = fmt.Sprintf(`quotas:
  - selector: {user: "*"}
    limit: {instances: %d, memory: %d}
  - selector: {user: "*", creator: racer}
    limit: {instances: %d}
`, userInstances, userMemory, racerInstances)

// newCluster builds the network and starts everything, and waits until every agent is a host and
// every coordinator answers.
func newCluster(t *testing.T, want size, trusted *trust) *cluster {
	t.Helper()
	// Not t.TempDir: its path may be too long for a socket, and the user of PostgreSQL may not be
	// able to enter it.
	dir, err := os.MkdirTemp("", "ha") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	names := []string{"postgres", "hosts-1", "hosts-2"}
	for i := range want.coordinators {
		names = append(names, fmt.Sprintf("rm-%d", i+1), fmt.Sprintf("consul-%d", i+1))
	}
	c := &cluster{t: t, dir: dir, lab: netlab.New(t, names...), trust: trusted}
	began := time.Now()
	c.startDatabase()
	c.startConsuls(want)
	c.startCoordinators(want)
	servers := time.Since(began)
	c.startAgents(want)
	t.Logf("%s; servers up after %v, %d hosts after %v", c.lab, servers.Round(time.Millisecond), want.agents, time.Since(began).Round(time.Millisecond))
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

// startDatabase starts PostgreSQL in its node, where it accepts everybody who reaches it.
func (c *cluster) startDatabase() {
	c.t.Helper()
	node := c.lab.Node("postgres")
	rules := filepath.Join(c.dir, "pg_hba.conf")
	if err := os.WriteFile(rules, []byte("local all all trust\nhost all all 0.0.0.0/0 trust\n"), 0o644); err != nil { //nolint:dupword // its columns
		c.t.Fatal(err)
	}
	dir := filepath.Join(c.dir, "postgres")
	if err := os.Mkdir(dir, 0o755); err != nil {
		c.t.Fatal(err)
	}
	c.inDatabase(func() (err error) {
		c.database, err = postgres.Launch(c.t.Context(), dir, postgres.Options{Settings: map[string]string{
			"listen_addresses": "127.0.0.1," + node.Address.String(), "hba_file": rules,
		}})
		return err
	})
	c.t.Cleanup(func() {
		if err := c.database.Close(); err != nil {
			c.t.Error(err)
		}
	})
	dsn, err := c.database.CreateDatabase(c.t.Context(), "bursar")
	if err != nil {
		c.t.Fatal(err)
	}
	c.dsn = strings.Replace(dsn, "127.0.0.1", node.Address.String(), 1)
}

// inDatabase does something to PostgreSQL from inside its node, so that new processes run there.
func (c *cluster) inDatabase(f func() error) {
	c.t.Helper()
	if err := netlab.Do(c.lab.Node("postgres"), f); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) startConsuls(want size) {
	c.t.Helper()
	var each []consul.Options
	for i := range want.coordinators {
		options := c.trust.consulServer(c.t, c.lab.Node(fmt.Sprintf("consul-%d", i+1)))
		options.Patient = !want.losesConsul
		each = append(each, options)
	}
	var err error
	if c.consuls, err = consul.LaunchEach(c.t.Context(), filepath.Join(c.dir, "consul"), each); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		for _, s := range c.consuls {
			s.Kill()
			if c.t.Failed() {
				c.t.Logf("%s said at last:\n%s", s.Node, s.Tail())
			}
		}
	})
}

func (c *cluster) startCoordinators(want size) {
	c.t.Helper()
	quotaFile := c.write("quotas.yaml", quotas)
	var urls []string
	for i := range want.coordinators {
		name := fmt.Sprintf("rm-%d", i+1)
		node := c.lab.Node(name)
		// The node is nobody else's, and so are its ports.
		address := net.JoinHostPort(node.Address.String(), "7070")
		m := &member{node: node, consul: c.lab.Node(fmt.Sprintf("consul-%d", i+1)), url: c.scheme() + address}
		file := c.write(name+".yaml", fmt.Sprintf("listen: %s\nstore: %s\n", address, c.dsn)+
			c.trust.consulSection(c, c.consuls[i], name)+fmt.Sprintf(settings, quotaFile, cmp.Or(want.suspectAfter, 15))+c.trust.coordinator(c, node))
		m.process = newProcess(c.t, name, node, "coordinator", "--config", file, "--log-format", "text")
		m.program = want.program
		m.direct = c.client(m.url, client.WithoutRetries())
		m.Start()
		c.members = append(c.members, m)
		urls = append(urls, m.url)
	}
	finder, err := discovery.Static(urls)
	if err != nil {
		c.t.Fatal(err)
	}
	c.admin = client.NewCluster(finder, append(c.trust.client(c, "ops"), patiently()...)...)
	c.gateway = client.NewCluster(finder, append(c.trust.client(c, "gateway"), patiently()...)...)
	c.t.Cleanup(c.admin.Close)
	c.t.Cleanup(c.gateway.Close)
	c.awaitMembers()
}

func (c *cluster) scheme() string {
	if c.trust != nil {
		return "https://"
	}
	return "http://"
}

// patiently makes a client go on until its server is back, for as long as that may take here.
func patiently() []client.Option {
	return []client.Option{client.WithTimeout(patience), client.WithRetries(client.RetryPolicy{Longest: time.Second, Patience: patience})}
}

// client returns a client of one server. The client is an admin, and lives as long as the test.
func (c *cluster) client(target string, options ...client.Option) *client.Client {
	c.t.Helper()
	if strings.HasPrefix(target, "https://") {
		options = append(c.trust.client(c, "ops"), options...)
	}
	return c.newClient(target, options...)
}

// newClient returns a client that shows only what the options say.
func (c *cluster) newClient(target string, options ...client.Option) *client.Client {
	c.t.Helper()
	made, err := client.New(target, options...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(made.Close)
	return made
}

// awaitMembers waits until every coordinator answers from the ledger, by itself or by passing the
// call on.
func (c *cluster) awaitMembers() {
	c.t.Helper()
	for _, m := range c.members {
		eventually(c.t, m.Name+" answers", func() error {
			if !m.Running() {
				c.t.Fatalf("%s has ended:\n%s", m.Name, m.Output.Tail())
			}
			_, err := c.status(m)
			return err
		})
	}
}

// status asks one coordinator what the leader says. It has a second.
func (c *cluster) status(m *member) (*bursarv1.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
	defer cancel()
	return m.direct.Cluster().Status(ctx, &bursarv1.StatusRequest{})
}

// leader returns the leader. It must say itself that it leads.
func (c *cluster) leader() *member {
	c.t.Helper()
	return c.leaderBut(nil)
}

// leaderBut waits for a leader that is not this one.
func (c *cluster) leaderBut(not *member) (leader *member) {
	c.t.Helper()
	eventually(c.t, "a leader", func() error {
		var last error
		for _, m := range c.members {
			if m == not {
				continue
			}
			status, err := c.status(m)
			if err != nil {
				last = errors.Join(last, fmt.Errorf("%s: %w", m.Name, err))
				continue
			}
			for _, leads := range c.members {
				if leads != not && leads.url == status.GetLeaderUrl() && status.GetIsLeader() {
					leader = leads
					return nil
				}
			}
			last = errors.Join(last, fmt.Errorf("%s says that %q leads", m.Name, status.GetLeaderUrl()))
		}
		return last
	})
	return leader
}

func hostName(n int) string { return "host-" + strconv.Itoa(n) }

func (c *cluster) startAgents(want size) {
	c.t.Helper()
	more := ""
	if want.remote {
		more = c.remoteAgents()
	}
	var urls []string
	for _, m := range c.members {
		urls = append(urls, m.url)
	}
	for i := range want.agents {
		h := &host{id: hostName(i)}
		h.socket = filepath.Join(c.dir, h.id+".sock")
		// Half of them have a list, the others ask one of the Consuls.
		node, found := c.lab.Node("hosts-1"), "coordinators: ["+strings.Join(urls, ", ")+"]\n"
		if i%2 == 1 {
			node, found = c.lab.Node("hosts-2"), c.trust.consulSection(c, c.consuls[i%len(c.consuls)], h.id)
		}
		file := c.write(h.id+".yaml", fmt.Sprintf("hostId: %s\nsocket: %s\nstateDir: %s\ntick: %s\n%scapacity: {memory: %d, cpu: %dm}\n%s",
			h.id, h.socket, filepath.Join(c.dir, h.id), tick, found, hostMemory, hostCPU, c.trust.agent(c, h.id)+more))
		h.process = newProcess(c.t, h.id, node, "agent", "--config", file, "--log-format", "text", "--log-level", "warn")
		h.local = c.client(h.socket, patiently()...)
		h.Start()
		c.hosts = append(c.hosts, h)
	}
	c.awaitHosts()
}

// awaitHosts waits until every host takes engines.
func (c *cluster) awaitHosts() {
	c.t.Helper()
	eventually(c.t, "every host is healthy", func() error {
		for _, h := range c.hosts {
			if !h.Running() {
				c.t.Fatalf("%s has ended:\n%s", h.Name, h.Output.Tail())
			}
		}
		status, err := c.admin.Cluster().Status(c.t.Context(), &bursarv1.StatusRequest{})
		if err == nil && status.GetHostsHealthy() != int64(len(c.hosts)) {
			err = fmt.Errorf("%d healthy, %d returning, %d suspect, %d lost", status.GetHostsHealthy(), status.GetHostsReturning(),
				status.GetHostsSuspect(), status.GetHostsLost())
		}
		return err
	})
}
