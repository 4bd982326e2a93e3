//go:build linux

package ha

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/access"
	"github.com/bursar/bursar/internal/credential"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/certs"
	"github.com/bursar/bursar/test/consul"
	"github.com/bursar/bursar/test/netlab"
)

// trust is how an installation is secured. A nil trust means that it is not secured at all.
type trust struct {
	authority  *certs.Authority
	dir, ca    string
	identities string
	tokens     map[string]string // by name: a file with the token
	consul     string            // the token of Consul
}

// newTrust makes a certificate authority, and tokens for an admin, a gateway, and every other
// agent.
func newTrust(t *testing.T, agents int) *trust {
	t.Helper()
	s := &trust{
		authority: certs.New(t, "Bursar"), dir: t.TempDir(), tokens: make(map[string]string), consul: "6f2b7c0e-51d4-4b7e-8f15-2f0c3f1d9a10",
	}
	s.ca = s.authority.File(t, s.dir, "ca.pem")
	text := "identities:\n"
	issue := func(name, role, more string) {
		token := access.NewToken()
		text += fmt.Sprintf("- {name: %s, role: %s, tokenHash: '%s'%s}\n", name, role, access.Hash(token), more)
		s.tokens[name] = filepath.Join(s.dir, name+".token")
		if err := os.WriteFile(s.tokens[name], []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	issue("ops", "admin", "")
	issue("gateway", "submitter", ", users: ['*'], mayLaunch: ["+remoteAccount+"]")
	for i := 0; i < agents; i += 2 {
		issue(hostName(i), "agent", ", host: "+hostName(i))
	}
	s.identities = filepath.Join(s.dir, "identities.yaml")
	if err := os.WriteFile(s.identities, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// show is the part of a configuration that names a client's certificate, and the CA of the servers
// that it calls.
func (s *trust) show(t *testing.T, request certs.Request) string {
	t.Helper()
	cert, key := s.authority.Issue(t, request).Files(t, s.dir, request.Name)
	return fmt.Sprintf("ca: %s, cert: %s, key: %s", s.ca, cert, key)
}

// coordinator is that part of a coordinator's configuration: one certificate for those who call it
// and for those it calls.
func (s *trust) coordinator(c *cluster, node *netlab.Node) string {
	if s == nil {
		return "insecure: true\n"
	}
	cert, key := s.authority.Issue(c.t, certs.Request{
		Name: node.Name, Organization: []string{"bursar:coordinator"}, Hosts: []string{node.Address.String()}, Both: true,
	}).Files(c.t, s.dir, node.Name)
	return fmt.Sprintf("tls: {cert: %s, key: %s, clientCA: %s}\nidentities: %s\npeers: {tls: {ca: %s, cert: %s, key: %s}}\nauditLog: %s\n",
		cert, key, s.ca, s.identities, s.ca, cert, key, filepath.Join(c.dir, node.Name+"-audit.log"))
}

// agent is that part of an agent's: every other one has a token, the others a certificate.
func (s *trust) agent(c *cluster, id string) string {
	if s == nil {
		return ""
	}
	if file, found := s.tokens[id]; found {
		return fmt.Sprintf("tls: {ca: %s}\ntokenFile: %s\n", s.ca, file)
	}
	return "tls: {" + s.show(c.t, certs.Request{Name: id, Organization: []string{"bursar:agent"}}) + "}\n"
}

// client is what a client needs to be somebody.
func (s *trust) client(c *cluster, name string) []client.Option {
	c.t.Helper()
	if s == nil {
		return nil
	}
	own, err := credential.ClientTLS{CA: s.ca}.Open(credential.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	token, err := credential.Token{File: s.tokens[name]}.Open(credential.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	return []client.Option{client.WithCredentials(own), client.WithToken(func() (string, error) { return token.Token(), nil })}
}

// consulServer is a Consul in a node, which lets in those with a token and a certificate.
func (s *trust) consulServer(t *testing.T, node *netlab.Node) consul.Options {
	t.Helper()
	options := consul.Options{Bind: node.Address.String(), Prefix: node.Prefix()}
	if s != nil {
		options.Token, options.CA, options.VerifyClients = s.consul, s.ca, true
		options.Cert, options.Key = s.authority.Issue(t, certs.Request{Name: node.Name, Hosts: []string{node.Address.String()}, Both: true}).Files(t, s.dir, node.Name)
	}
	return options
}

// consulSection says where Consul is, and how to speak to it.
func (s *trust) consulSection(c *cluster, server *consul.Server, name string) string {
	if s == nil {
		return "consul: {address: '" + server.Address + "'}\n"
	}
	return fmt.Sprintf("consul: {address: '%s', token: %s, tls: {%s}}\n", server.Address, s.consul, s.show(c.t, certs.Request{Name: name + "-consul"}))
}

// TestTrustIsAskedForEverywhere: with certificates and tokens between all processes, a leader can
// be lost as without them.
func TestTrustIsAskedForEverywhere(t *testing.T) {
	const agents = 8
	c := newCluster(t, size{coordinators: 3, agents: agents}, newTrust(t, agents))
	l := c.startLoad(uint64(time.Now().UnixNano()))
	l.startLaunchers()
	l.startGateways()
	l.startRace()
	l.acknowledges(50)
	l.survives(fault{"the leader is killed", (*load).leaderKilled})
	l.survives(fault{"the coordinators restart one by one", (*load).coordinatorsRestart})
	c.strangersAreRefused()
	l.finish(span{})
}

// strangersAreRefused: a caller that shows nothing, or speaks for another host, is refused,
// whichever coordinator it asks.
func (c *cluster) strangersAreRefused() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	own, err := credential.ClientTLS{CA: c.trust.ca}.Open(credential.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, m := range c.members {
		stranger := c.newClient(m.url, client.WithoutRetries(), client.WithCredentials(own))
		if _, err := stranger.Cluster().Status(ctx, &bursarv1.StatusRequest{}); connect.CodeOf(err) != connect.CodeUnauthenticated {
			c.t.Errorf("%s answers a stranger: %v", m.Name, err)
		}
		another := c.newClient(m.url, append(c.trust.client(c, hostName(0)), client.WithoutRetries())...)
		_, err := another.Hosts().Sync(ctx, &bursarv1.SyncRequest{HostId: hostName(1), Incarnation: 1 << 62, Sequence: 1})
		if connect.CodeOf(err) != connect.CodePermissionDenied {
			c.t.Errorf("%s takes a report of another host: %v", m.Name, err)
		}
	}
}
