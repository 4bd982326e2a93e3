package coordinator

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/internal/access"
	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/test/certs"
)

// authServer is a coordinator with TLS, identities and an audit log.
type authServer struct {
	*fixture

	ca     *certs.Authority
	dir    string
	config Config
	tokens map[string]string
}

// who are the identities of an authServer; their tokens are their names with a prefix.
const who = `
- {name: reader, role: reader, tokenHash: %s}
- {name: alice, role: submitter, users: [alice], mayLaunch: [etl], tokenHash: %s}
- {name: agent1, role: agent, host: h1, tokenHash: %s}
- {name: agent2, role: agent, host: h2, tokenHash: %s}
- {name: ops, role: operator, tokenHash: %s}
- {name: root, role: admin, tokenHash: %s}
- {name: c1, role: coordinator, tokenHash: %s}
`

func members() []string {
	return []string{"reader", "alice", "agent1", "agent2", "ops", "root", "c1"}
}

func newAuthServer(t *testing.T, changes ...func(*Config)) *authServer {
	t.Helper()
	c := &authServer{ca: certs.New(t, "authserver"), dir: t.TempDir(), tokens: make(map[string]string)}
	c.config = Config{AuditLog: filepath.Join(c.dir, "audit.log"), Identities: filepath.Join(c.dir, "identities.yaml")}
	c.config.TLS.Cert, c.config.TLS.Key = c.ca.Issue(t, certs.Request{Name: "server", Organization: []string{"bursar:coordinator"}, Hosts: []string{"127.0.0.1"}, Both: true}).Files(t, c.dir, "server")
	c.config.TLS.ClientCA = c.ca.File(t, c.dir, "ca.pem")
	for _, member := range members() {
		c.tokens[member] = access.NewToken()
	}
	c.writeIdentities(t, "identities:"+who)
	for _, change := range changes {
		change(&c.config)
	}
	c.fixture = start(t, c.config, nil)
	c.url = "https" + strings.TrimPrefix(c.url, "http")
	return c
}

func (c *authServer) writeIdentities(t *testing.T, text string) {
	t.Helper()
	var hashes []any
	for _, member := range members() {
		hashes = append(hashes, access.Hash(c.tokens[member]))
	}
	if strings.Contains(text, "%s") {
		text = fmt.Sprintf(text, hashes...)
	}
	next := filepath.Join(c.dir, "next.yaml")
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(c.dir, "identities.yaml")); err != nil {
		t.Fatal(err)
	}
}

// visitor is a client of an authServer.
type visitor struct {
	http        *http.Client
	allocations bursarv1connect.AllocationServiceClient
	hosts       bursarv1connect.HostServiceClient
	quotas      bursarv1connect.QuotaServiceClient
	queues      bursarv1connect.QueueServiceClient
	cluster     bursarv1connect.ClusterServiceClient
	engines     bursarv1connect.EngineServiceClient
}

// bearer sends a header with every request.
type bearer struct {
	next   http.RoundTripper
	header http.Header
}

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	maps.Copy(r.Header, b.header)
	return b.next.RoundTrip(r)
}

// visit comes with a member's token, and in the name of an actor, if they are given.
func (c *authServer) visit(t *testing.T, member string, in ...identity.Actor) *visitor {
	t.Helper()
	header := http.Header{}
	if member != "" {
		header.Set("Authorization", "Bearer "+c.tokens[member])
	}
	for _, actor := range in {
		header.Set(identity.Header, actor.Encode())
	}
	return c.visitWith(t, credential.ClientTLS{CA: filepath.Join(c.dir, "ca.pem")}, header)
}

// certified comes with a certificate.
func (c *authServer) certified(t *testing.T, r certs.Request) *visitor {
	t.Helper()
	config := credential.ClientTLS{CA: filepath.Join(c.dir, "ca.pem")}
	config.Cert, config.Key = c.ca.Issue(t, r).Files(t, t.TempDir(), "client")
	return c.visitWith(t, config, nil)
}

func (c *authServer) visitWith(t *testing.T, config credential.ClientTLS, header http.Header) *visitor {
	t.Helper()
	opened, err := config.Open(credential.Options{})
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	opened.Use(transport)
	t.Cleanup(transport.CloseIdleConnections)
	v := &visitor{http: &http.Client{Transport: &bearer{transport, header}}}
	v.allocations = bursarv1connect.NewAllocationServiceClient(v.http, c.url)
	v.hosts = bursarv1connect.NewHostServiceClient(v.http, c.url)
	v.quotas = bursarv1connect.NewQuotaServiceClient(v.http, c.url)
	v.queues = bursarv1connect.NewQueueServiceClient(v.http, c.url)
	v.engines = bursarv1connect.NewEngineServiceClient(v.http, c.url)
	v.cluster = bursarv1connect.NewClusterServiceClient(v.http, c.url)
	return v
}

func (v *visitor) register(t *testing.T, id string) error {
	t.Helper()
	bytes := gib
	res, err := v.hosts.Register(t.Context(), &bursarv1.RegisterRequest{
		HostId: id, Address: id, Incarnation: 1, BootId: "boot",
		Capacity: &bursarv1.Resource{MemoryBytes: &bytes, CpuMillis: quantity(1 << 40), Instances: quantity(1 << 40)},
	})
	if err != nil {
		return err
	}
	_, err = v.hosts.Sync(t.Context(), &bursarv1.SyncRequest{
		HostId: id, Incarnation: 1, Sequence: 1, Epoch: res.GetEpoch(), BootId: "boot", Full: true,
		Sample: &bursarv1.HostSample{MemoryTotalBytes: &bytes, MemoryAvailableBytes: &bytes, MemorySafetyBytes: quantity(0)},
	})
	return err
}

func (v *visitor) allocate(t *testing.T, host, user string) (string, error) {
	t.Helper()
	res, err := v.allocations.Allocate(t.Context(), &bursarv1.AllocateRequest{
		Labels: map[string]string{"user": user}, Resource: memory(mib), Host: &bursarv1.HostWishes{Id: host},
	})
	return res.GetAllocation().GetId(), err
}

func (v *visitor) mustAllocate(t *testing.T, host, user string) string {
	t.Helper()
	id, err := v.allocate(t, host, user)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// addHosts brings both hosts up.
func (c *authServer) addHosts(t *testing.T) {
	t.Helper()
	for member, host := range map[string]string{"agent1": "h1", "agent2": "h2"} {
		if err := c.visit(t, member).register(t, host); err != nil {
			t.Fatal(err)
		}
	}
}

// expect checks that a call ended with a code and said something.
func expect(t *testing.T, what string, err error, code connect.Code, words string) {
	t.Helper()
	if err == nil || connect.CodeOf(err) != code || !strings.Contains(err.Error(), words) {
		t.Errorf("%s: %v; want %s and %q", what, err, code, words)
	}
}
