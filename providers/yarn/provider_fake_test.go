package yarn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bursar/bursar/providers"
)

func TestMain(m *testing.M) {
	// The Kerberos library's server side, which only the fake ResourceManager uses, has one
	// goroutine for its replay cache. It has one of two names, depending on the compiler.
	const cache = "github.com/jcmturner/gokrb5/v8/service."
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(cache+"GetReplayCache.func1.1"), goleak.IgnoreAnyFunction(cache+"VerifyAPREQ.GetReplayCache.func1.1"))
}

// fakeRM is a ResourceManager on loopback, or in a synctest bubble. Its state can be changed at any
// time.
type fakeRM struct {
	*httptest.Server
	mu sync.Mutex // guards the fields below
	// state is its haState, id its start time.
	state string
	id    int64
	// memory is the size of the cluster in MiB; it has a core per GiB.
	memory int
	// instead replaces the answers of paths; the key is a path below /ws/v1/cluster, "*" stands for
	// all others.
	instead map[string]http.HandlerFunc
	asked   map[string]int
	last    map[string]*http.Request
}

func newRM(t *testing.T) *fakeRM {
	rm := unstartedRM()
	rm.Start()
	t.Cleanup(rm.Close)
	return rm
}

func unstartedRM() *fakeRM {
	rm := &fakeRM{
		state: "ACTIVE", id: 1700000000000, memory: 64 << 10,
		instead: map[string]http.HandlerFunc{}, asked: map[string]int{}, last: map[string]*http.Request{},
	}
	rm.Server = httptest.NewUnstartedServer(rm)
	rm.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	return rm
}

func (rm *fakeRM) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, _ := strings.CutPrefix(r.URL.Path, "/ws/v1/cluster")
	rm.mu.Lock()
	rm.asked[path]++
	rm.last[path] = r
	instead := rm.instead[path]
	if instead == nil {
		instead = rm.instead["*"]
	}
	state, id, memory := rm.state, rm.id, rm.memory
	rm.mu.Unlock()
	switch {
	case instead != nil:
		instead(w, r)
	case path == "/info":
		answerJSON(fmt.Sprintf(`{"clusterInfo":{"id":%d,"startedOn":%d,"state":"STARTED","haState":%q,"resourceManagerVersion":"3.4.1","hadoopVersion":"3.4.1"}}`, id, id, state))(w, r)
	case state != "ACTIVE":
		standby("http://active.invalid:8088"+path)(w, r)
	case path == "/scheduler":
		answerJSON(fairAnswer(memory))(w, r)
	default:
		http.NotFound(w, r)
	}
}

// change changes its fields under the lock.
func (rm *fakeRM) change(f func()) {
	rm.mu.Lock()
	defer rm.mu.Unlock()
	f()
}

// does replaces the answer of a path; nil restores it.
func (rm *fakeRM) does(path string, f http.HandlerFunc) {
	rm.change(func() { rm.instead[path] = f })
}

// takeAsked returns the number of requests per path since the last call.
func (rm *fakeRM) takeAsked() map[string]int {
	rm.mu.Lock()
	defer rm.mu.Unlock()
	asked := rm.asked
	rm.asked = map[string]int{}
	return asked
}

func (rm *fakeRM) request(path string) *http.Request {
	rm.mu.Lock()
	defer rm.mu.Unlock()
	return rm.last[path]
}

// fairAnswer returns the minimal answer of a FairScheduler.
func fairAnswer(memory int) string {
	size := fmt.Sprintf(`{"memory":%d,"vCores":%d}`, memory, memory>>10)
	return fmt.Sprintf(`{"scheduler":{"schedulerInfo":{"type":"fairScheduler","rootQueue":{"queueName":"root","maxResources":%s,"usedResources":{"memory":1024,"vCores":1},
"clusterResources":%s,"childQueues":{"queue":[{"type":"fairSchedulerLeafQueueInfo","queueName":"root.a","maxResources":%s,"usedResources":{"memory":1024,"vCores":1},
"clusterResources":%s,"numPendingApps":0,"numActiveApps":1}]}}}}}`, size, size, size, size)
}

func answerJSON(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json;charset=utf-8")
		_, _ = w.Write([]byte(body))
	}
}

// answerWith answers with a status, header fields in pairs, and a body.
func answerWith(status int, body string, heads ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(heads); i += 2 {
			w.Header().Add(heads[i], heads[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

func standby(location string) http.HandlerFunc {
	return answerWith(http.StatusTemporaryRedirect, "This is standby RM. The redirect url is: "+location, "Location", location, "Content-Type", "text/plain;charset=utf-8")
}

// hang never answers.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// manualClock moves only by advance.
type manualClock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *manualClock { return &manualClock{now: time.Unix(1_700_000_000, 0)} }

func (c *manualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *manualClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// openAt opens a provider with the addresses of servers, and more settings in pairs.
func openAt(t *testing.T, k kind, servers []*fakeRM, more ...string) *Provider {
	t.Helper()
	addresses := make([]string, len(servers))
	for i, rm := range servers {
		addresses[i] = rm.URL
	}
	settings := map[string]string{"addresses": strings.Join(addresses, ",")}
	for i := 0; i+1 < len(more); i += 2 {
		settings[more[i]] = more[i+1]
	}
	if k.now == nil {
		k.now = time.Now
	}
	opened, err := k.Open("prod", settings)
	if err != nil {
		t.Fatal(err)
	}
	p, ok := opened.(*Provider)
	if !ok {
		t.Fatalf("a %T", opened)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func snapshot(t *testing.T, p providers.Provider) providers.Snapshot {
	t.Helper()
	s, err := p.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Queues) == 0 {
		t.Fatal("no queues")
	}
	return s
}

// troubles returns the errors of the servers, by address.
func troubles(t *testing.T, err error) map[string]*ServerError {
	t.Helper()
	list := map[string]*ServerError{}
	if all, several := errors.AsType[serversError](err); several {
		for _, err := range all {
			maps.Copy(list, troubles(t, err))
		}
		return list
	}
	wrong, ok := errors.AsType[*ServerError](err)
	if !ok {
		t.Fatalf("%v: want *ServerErrors", err)
	}
	list[wrong.Address] = wrong
	return list
}

// wantUnavailable checks the error about a cluster that cannot be read.
func wantUnavailable(t *testing.T, err error, noneActive bool) {
	t.Helper()
	if unavailable, none := providers.Unavailable(err); !unavailable || none != noneActive {
		t.Errorf("%v: unavailable %v, none active %v; want true, %v", err, unavailable, none, noneActive)
	}
}

// network connects the clients and servers of one synctest bubble.
type network struct {
	mu     sync.Mutex
	places map[string]*doorway
	// lost lists addresses that neither accept nor refuse connections.
	lost map[string]bool
}

func newNetwork() *network { return &network{places: map[string]*doorway{}, lost: map[string]bool{}} }

func (n *network) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	at, lost := n.places[address], n.lost[address]
	n.mu.Unlock()
	if lost {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if at == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	}
	client, server := net.Pipe()
	select {
	case at.incoming <- server:
		return client, nil
	case <-at.closed:
	case <-ctx.Done():
	}
	_ = client.Close()
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
}

// lose makes an address unreachable without a refusal.
func (n *network) lose(address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lost[address] = true
}

// start starts a ResourceManager at an address.
func (n *network) start(t *testing.T, address string) *fakeRM {
	rm := unstartedRM()
	at := &doorway{address: address, incoming: make(chan net.Conn), closed: make(chan struct{})}
	n.mu.Lock()
	n.places[address] = at
	n.mu.Unlock()
	rm.Listener.Close()
	rm.Listener = at
	rm.Start()
	rm.URL = "http://" + address
	t.Cleanup(rm.Close)
	return rm
}

// doorway is a listener.
type doorway struct {
	address  string
	incoming chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func (p *doorway) Accept() (net.Conn, error) {
	select {
	case conn := <-p.incoming:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *doorway) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *doorway) Addr() net.Addr { return p }
func (*doorway) Network() string  { return "tcp" }
func (p *doorway) String() string { return p.address }

// paths formats the requested paths, sorted, with their numbers.
func paths(asked map[string]int) string {
	var list []string
	for _, path := range slices.Sorted(maps.Keys(asked)) {
		list = append(list, fmt.Sprintf("%s×%d", path, asked[path]))
	}
	return strings.Join(list, " ")
}
