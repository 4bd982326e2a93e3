//go:build linux

package ha

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/bursar/bursar/test/certs"
	"github.com/bursar/bursar/test/proc"
)

// TestSomebodyElseWritesIntoConsul: an attacker who may write there names other servers as the
// leader and as coordinators, and writes nonsense. The cluster goes on, and nobody shows a
// credential to those servers.
func TestSomebodyElseWritesIntoConsul(t *testing.T) {
	const agents = 8
	c := newCluster(t, size{coordinators: 3, agents: agents}, newTrust(t, agents+1))
	c.startAgentInConsul(agents)
	l := c.startLoad(uint64(time.Now().UnixNano()))
	l.startLaunchers()
	l.startGateways()
	l.acknowledges(20)
	r := newRogue(l)
	before := l.epoch()
	for _, written := range []struct{ name, value string }{
		{"the leader is in clear text, elsewhere", announce("http://"+r.clear.address, before)},
		{"the leader has a host's certificate", announce("https://"+r.secure.address, before)},
		{"the leader's key holds no JSON", "\x00{]"},
		{"the leader's key is empty", ""},
		{"the leader's epoch is the last there is", announce(l.leader().url, 1<<48-1)},
	} {
		l.survives(fault{written.name, func(l *load) {
			r.write(written.value, r.isNoticed)
		}})
	}
	if after := l.epoch(); after != before {
		t.Errorf("epoch %d, and it was %d: what somebody else writes into the leader's key ended its leadership", after, before)
	}
	r.secure.wasCalledBy(t, "10.77.", "a standby, which calls the leader that the key names")

	l.survives(fault{"services that are no coordinators", func(*load) {
		r.secure.forget()
		r.register()
		r.callsGoThrough()
		r.deregister()
	}})
	r.secure.wasCalledBy(t, l.lab.Node("hosts-2").Address.String()+":", "agents, which look for coordinators in Consul")
	r.secure.wasCalledBy(t, l.lab.Here.Address.String()+":", "bursar status, which looks for them there")

	l.survives(fault{"the leader is killed while the last epoch is announced", func(*load) {
		r.write(announce(l.leader().url, 1<<48-1), l.leaderKilled)
	}})
	if after := l.epoch(); after <= before || after > before+20 {
		t.Errorf("epoch %d after %d", after, before)
	}
	r.clear.heardNothing(t)
	r.secure.heardNothing(t)
	l.finish(span{})
}

// startAgentInConsul starts one more agent, which has a token and asks Consul.
func (c *cluster) startAgentInConsul(number int) {
	c.t.Helper()
	h := &host{id: hostName(number)}
	h.socket = filepath.Join(c.dir, h.id+".sock")
	file := c.write(h.id+".yaml", fmt.Sprintf("hostId: %s\nsocket: %s\nstateDir: %s\ntick: %s\n%scapacity: {memory: %d, cpu: %dm}\n%s",
		h.id, h.socket, filepath.Join(c.dir, h.id), tick, c.trust.consulSection(c, c.consuls[0], h.id), hostMemory, hostCPU, c.trust.agent(c, h.id)))
	h.process = newProcess(c.t, h.id, c.lab.Node("hosts-2"), "agent", "--config", file, "--log-format", "text", "--log-level", "warn")
	h.local = c.client(h.socket, patiently()...)
	h.Start()
	c.hosts = append(c.hosts, h)
	c.awaitHosts()
}

// rogue writes into Consul, and has servers that it wants others to call.
type rogue struct {
	*load

	consul        *api.Client
	clear, secure *callRecorder
	environment   []string // of a command that finds coordinators in Consul
}

const leaderKey = "bursar/bursar/leader"

func newRogue(l *load) *rogue {
	l.t.Helper()
	node := l.lab.Here
	asked, err := l.consuls[0].Client()
	l.must(err)
	if pair, _, err := asked.KV().Get(leaderKey, nil); err != nil || pair == nil || pair.Session == "" {
		l.t.Fatalf("%s is not held by a leader: %+v, %v", leaderKey, pair, err)
	}
	issued := l.trust.authority.Issue(l.t, certs.Request{
		Name: "rogue", Organization: []string{"bursar:agent"}, Hosts: []string{node.Address.String()}, Both: true,
	})
	own, err := tls.X509KeyPair(issued.CertPEM, issued.KeyPEM)
	l.must(err)
	cert, key := l.trust.authority.Issue(l.t, certs.Request{Name: "status-consul"}).Files(l.t, l.trust.dir, "status-consul")
	return &rogue{
		load: l, consul: asked, clear: listen(l.t, node.Address.String(), nil),
		secure: listen(l.t, node.Address.String(), &tls.Config{
			Certificates: []tls.Certificate{own}, ClientAuth: tls.RequestClientCert, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12,
		}),
		environment: proc.Environment("BURSAR_ADDR=consul", "BURSAR_TLS_CA="+l.trust.ca, "BURSAR_TOKEN_FILE="+l.trust.tokens["ops"],
			"CONSUL_HTTP_ADDR="+l.consuls[1].Address, "CONSUL_HTTP_TOKEN="+l.trust.consul, "CONSUL_CACERT="+l.trust.ca,
			"CONSUL_CLIENT_CERT="+cert, "CONSUL_CLIENT_KEY="+key),
	}
}

func announce(url string, epoch uint64) string {
	text, _ := json.Marshal(map[string]any{"id": "rogue", "url": url, "epoch": epoch})
	return string(text)
}

// write keeps a value in the leader's key while f runs, however often the leader corrects it.
func (r *rogue) write(value string, f func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	var writing sync.WaitGroup
	writes := 0
	writing.Go(func() {
		for again := time.NewTicker(20 * time.Millisecond); ; {
			_, err := r.consul.KV().Put(&api.KVPair{Key: leaderKey, Value: []byte(value)}, new(api.WriteOptions).WithContext(ctx))
			if err == nil {
				writes++
			}
			select {
			case <-again.C:
			case <-ctx.Done():
				again.Stop()
				return
			}
		}
	})
	defer writing.Wait()
	defer cancel()
	f()
	cancel()
	writing.Wait()
	if writes < 10 {
		r.t.Errorf("the key was written %d times", writes)
	}
}

// isNoticed makes calls until the leader has logged again that the key is not as it wrote it.
func (r *rogue) isNoticed() {
	r.t.Helper()
	leader := r.leader()
	noticed := func() int {
		return strings.Count(leader.Output.String(), "somebody else has written into Consul's key of the leader")
	}
	before := noticed()
	r.callsGoThrough()
	eventually(r.t, "the leader corrects its key, and again", func() error {
		if n := noticed() - before; n < 2 {
			return fmt.Errorf("%d times", n)
		}
		return nil
	})
}

// register adds services next to the true ones. They are healthy, lead, and have a later epoch.
func (r *rogue) register() {
	r.t.Helper()
	for scheme, address := range r.addresses() {
		host, port, err := net.SplitHostPort(address)
		r.must(err)
		number, err := strconv.Atoi(port)
		r.must(err)
		r.must(r.consul.Agent().ServiceRegister(&api.AgentServiceRegistration{
			ID: "rogue-" + scheme, Name: "bursar-coordinator", Address: host, Port: number, Tags: []string{"leader"},
			Meta: map[string]string{"scheme": scheme, "epoch": "281474976710655"},
		}))
	}
}

func (r *rogue) deregister() {
	r.t.Helper()
	for scheme := range r.addresses() {
		r.must(r.consul.Agent().ServiceDeregister("rogue-" + scheme))
	}
}

func (r *rogue) addresses() map[string]string {
	return map[string]string{"http": r.clear.address, "https": r.secure.address}
}

// callsGoThrough: through coordinators by their addresses, through every agent, and for clients
// that look for coordinators in Consul.
func (r *rogue) callsGoThrough() {
	r.t.Helper()
	r.acknowledges(30)
	r.probe()
	eventually(r.t, "bursar status", func() error {
		ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, executable, "status")
		cmd.Env = r.environment
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		return nil
	})
}

// callRecorder is a server that answers nothing and keeps what it hears.
type callRecorder struct {
	address string

	mu      sync.Mutex
	callers []string // guarded by mu: the addresses of those who connected
	heard   []string // guarded by mu: what they said, beyond a handshake that they broke off
}

// listen starts a callRecorder. With TLS, what counts is what comes after its server has shown its
// certificate.
func listen(t *testing.T, host string, secured *tls.Config) *callRecorder {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	e := &callRecorder{address: listener.Addr().String()}
	var serving sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { e.record(conn, secured) })
		}
	})
	return e
}

// record reads for two seconds what a caller says.
func (e *callRecorder) record(conn net.Conn, secured *tls.Config) {
	defer conn.Close()
	e.mu.Lock()
	e.callers = append(e.callers, conn.RemoteAddr().String())
	e.mu.Unlock()
	var said []byte
	deadline := conn.SetDeadline(time.Now().Add(2 * time.Second))
	if secured != nil {
		wrapped := tls.Server(conn, secured)
		err := wrapped.HandshakeContext(context.Background())
		for _, shown := range wrapped.ConnectionState().PeerCertificates {
			said = fmt.Appendf(said, "a certificate of %s; ", shown.Subject)
		}
		if err == nil {
			said = append(said, "a handshake; "...)
		}
		conn = wrapped
	}
	for piece := make([]byte, 4<<10); deadline == nil && len(said) < 64<<10; {
		n, err := conn.Read(piece)
		said = append(said, piece[:n]...)
		if err != nil {
			break
		}
	}
	if len(said) > 0 {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.heard = append(e.heard, fmt.Sprintf("%s: %q", conn.RemoteAddr(), said))
	}
}

// forget forgets who has called, but not what was recorded.
func (e *callRecorder) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.callers = nil
}

// wasCalledBy: that nothing was recorded proves something only if somebody called.
func (e *callRecorder) wasCalledBy(t *testing.T, prefix, who string) {
	t.Helper()
	eventually(t, "a call of "+who, func() error {
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, caller := range e.callers {
			if strings.HasPrefix(caller, prefix) {
				return nil
			}
		}
		return errors.New("nobody")
	})
}

func (e *callRecorder) heardNothing(t *testing.T) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.heard) > 0 {
		t.Errorf("%s was told %d times, first: %.2000s", e.address, len(e.heard), e.heard[0])
	}
	t.Logf("%s: %d connections", e.address, len(e.callers))
}
