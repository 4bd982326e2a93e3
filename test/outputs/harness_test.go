package outputs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/agent"
	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/coordinator"
	"github.com/bursar/bursar/coordinator/election"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/internal/access"
	"github.com/bursar/bursar/internal/discovery"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/test/proc"
)

const (
	host    = "h1"
	account = "nobody" // every machine has it
	soon    = 60 * time.Second
)

// keeper is the program that starts engines and reads output. TestMain builds it.
var keeper string

func TestMain(m *testing.M) {
	if what := os.Getenv(asReader); what != "" {
		os.Exit(beReader(what))
	}
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "outputs: want root: engines run as "+account)
		os.Exit(1)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "outputs")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		keeper = filepath.Join(dir, "bursar-keeper")
		err = proc.Build{Into: keeper, Packages: []string{"./cmd/bursar-keeper"}, Flags: []string{"-ldflags", "-s -w"}}.Run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "outputs:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	return m.Run()
}

// place is coordinators and the agent of a host.
type place struct {
	t       testing.TB
	dir     string
	lock    *lock
	tokens  map[string]string
	members []*member
	agent   *running
	// urls are where the agent finds coordinators; nil: those of the members.
	urls []string
	log  *logged
}

// member is a coordinator.
type member struct {
	*running

	url    string
	server *coordinator.Server
}

// running is something that runs until it is stopped.
type running struct {
	cancel context.CancelFunc
	ended  chan error
}

func begin(run func(context.Context) error) *running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{cancel, make(chan error, 1)}
	go func() { r.ended <- run(ctx) }()
	return r
}

func (r *running) stop(t testing.TB) {
	t.Helper()
	r.cancel()
	select {
	case err := <-r.ended:
		if err != nil {
			t.Error(err)
		}
		r.ended <- nil
	case <-time.After(soon):
		t.Fatal("it does not end")
	}
}

// logged keeps a log.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// setUp starts coordinators, one of which leads, and an agent.
func setUp(t testing.TB, coordinators int) *place {
	t.Helper()
	dir, err := os.MkdirTemp("", "outputs") //nolint:usetesting // t.TempDir is for its owner alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	p := &place{t: t, dir: dir, lock: newLock(), tokens: make(map[string]string), log: &logged{}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(p.log.String())
		}
	})
	var identities bytes.Buffer
	identities.WriteString("identities:\n")
	for name, rest := range map[string]string{
		"alice": "role: submitter, users: [alice], mayLaunch: [" + account + "]", "bob": "role: submitter, users: [bob]", "carol": "role: reader",
		"olga": "role: operator", "agent": "role: agent, host: " + host, "other": "role: agent, host: h2", "peer": "role: coordinator", "root": "role: admin",
	} {
		p.tokens[name] = access.NewToken()
		fmt.Fprintf(&identities, "- {name: %s, %s, tokenHash: '%s'}\n", name, rest, access.Hash(p.tokens[name]))
	}
	if err := os.Link(keeper, filepath.Join(dir, "bursar-keeper")); err != nil { // helpers show whose they are
		t.Fatal(err)
	}
	memory := storetest.NewMemory("shared")
	for i := range coordinators {
		config := coordinator.Config{
			Listen: "127.0.0.1:0", DataDir: dir, Identities: p.write("identities.yaml", identities.Bytes()),
			Peers:  coordinator.Peers{TokenFile: p.write("peer", []byte(p.tokens["peer"]))},
			Times:  coordinator.Times{Interval: 200 * time.Millisecond, SuspectAfter: 50},
			Output: coordinator.Output{CallerRate: 1 << 30, Rate: 1 << 30},
		}
		server, err := coordinator.New(config, coordinator.Dependencies{
			Store: memory.Open(), Version: "test", Logger: slog.New(slog.NewTextHandler(p.log, nil)).With("coordinator", i),
			Elect: func(self coordinator.Self) (election.Election, error) { return candidate{p.lock, self.URL}, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		m := &member{begin(server.Run), "", server}
		t.Cleanup(func() { m.stop(t) })
		select {
		case <-server.Ready():
		case err := <-m.ended:
			m.ended <- nil
			t.Fatal(err)
		}
		m.url = server.URL()
		p.members = append(p.members, m)
	}
	p.startAgent()
	t.Cleanup(func() { p.agent.stop(t) })
	return p
}

func (p *place) write(name string, text []byte) string {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path
}

func (p *place) token(name string) client.Option {
	return client.WithToken(func() (string, error) { return p.tokens[name], nil })
}

// startAgent starts an incarnation of the agent.
func (p *place) startAgent() {
	p.t.Helper()
	urls := p.urls
	if urls == nil {
		for _, m := range p.members {
			urls = append(urls, m.url)
		}
	}
	finder, err := discovery.Static(urls)
	if err != nil {
		p.t.Fatal(err)
	}
	upstream := client.NewCluster(finder, p.token("agent"), client.WithoutRetries())
	a, err := agent.New(agent.Config{
		HostID: host, Socket: p.socket(), StateDir: filepath.Join(p.dir, "state"), Tick: 200 * time.Millisecond, Patience: 5 * time.Second,
		Engines: agent.EnginesConfig{
			Cgroups: "none", Keeper: filepath.Join(p.dir, "bursar-keeper"), LogDir: filepath.Join(p.dir, "logs"), Remote: agent.RemoteConfig{Accounts: []string{account}, DeniedGroups: []string{}},
		},
		Safety: "0",
	}, agent.Deps{
		Allocations: upstream.Allocations(), Hosts: upstream.Hosts(), Finder: finder, Elsewhere: upstream.Elsewhere, Version: "test",
		Logger: slog.New(slog.NewTextHandler(p.log, nil)).With("agent", host),
		DialOutput: func(url string) (bursarv1connect.HostServiceClient, func(), error) {
			c, err := client.New(url, p.token("agent"), client.WithoutRetries(), client.WithH2C())
			if err != nil {
				return nil, nil, err
			}
			return c.Hosts(), c.Close, nil
		},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.agent = begin(func(ctx context.Context) error {
		defer upstream.Close()
		return a.Run(ctx)
	})
	select {
	case <-a.Ready():
	case err := <-p.agent.ended:
		p.agent.ended <- nil
		p.t.Fatal(err)
	case <-time.After(soon):
		p.t.Fatal("the agent does not become ready")
	}
}

func (p *place) socket() string { return filepath.Join(p.dir, "agent.sock") }

// leader is the coordinator that leads, and standby another one; nil: there is none.
func (p *place) leader() (leader, standby *member) {
	p.t.Helper()
	proc.Until(p.t, soon, 10*time.Millisecond, "somebody leads", func() bool {
		leader, standby = nil, nil
		url := p.lock.leads()
		for _, m := range p.members {
			if m.url == url {
				leader = m
			} else {
				standby = m
			}
		}
		return leader != nil
	})
	return leader, standby
}

// visit is a client of one coordinator, for somebody.
func (p *place) visit(m *member, name string) *client.Client {
	p.t.Helper()
	c, err := client.New(m.url, p.token(name), client.WithH2C())
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(c.Close)
	return c
}

// engine starts an engine of alice's with a shell, which is stopped at the end of the test. It
// returns its allocation.
func (p *place) engine(name, script string, changes ...func(*bursarv1.LaunchSpec)) string {
	p.t.Helper()
	leader, _ := p.leader()
	launch := &bursarv1.LaunchSpec{Account: account, Command: []string{"/bin/sh", "-c", script}, WorkingDirectory: "/"}
	for _, change := range changes {
		change(launch)
	}
	answer, err := p.visit(leader, "alice").Engines().Start(p.t.Context(), &bursarv1.StartRequest{
		Request: &bursarv1.AllocateRequest{
			RequestId: name, Labels: map[string]string{"user": "alice"}, Wait: durationpb.New(30 * time.Second),
			Resource: &bursarv1.Resource{MemoryBytes: new(int64(1 << 20)), CpuMillis: new(int64(1))},
		},
		Launch: launch,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	if pid := answer.GetAllocation().GetProcess().GetPid(); pid > 1 {
		proc.KillGroupAtEnd(p.t, int(pid))
	}
	return answer.GetAllocation().GetId()
}

// got is what a reader has read.
type got struct {
	data []byte
	// gaps are the bytes that were gone: from and to, in turns.
	gaps  []int64
	begin int64 // of the first piece; -1: there was none
	next  int64
	ended bool
}

// read reads output until its end, or until enough says that it is enough.
func read(ctx context.Context, c bursarv1connect.EngineServiceClient, request *bursarv1.LogsRequest, enough func(*got) bool) (*got, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*soon)
	defer cancel()
	stream, err := c.Logs(ctx, request)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	g := &got{begin: -1}
	for stream.Receive() {
		m := stream.Msg()
		switch piece := m.GetPiece().(type) {
		case nil:
			continue
		case *bursarv1.LogsResponse_Data:
			if g.begin < 0 {
				g.begin = m.GetNextOffset() - int64(len(piece.Data))
			} else if m.GetNextOffset() != g.next+int64(len(piece.Data)) {
				return g, fmt.Errorf("byte %d came in place of %d", m.GetNextOffset()-int64(len(piece.Data)), g.next)
			}
			g.data = append(g.data, piece.Data...)
		case *bursarv1.LogsResponse_Gap:
			if g.begin < 0 {
				g.begin = m.GetNextOffset() - piece.Gap
			}
			g.gaps = append(g.gaps, m.GetNextOffset()-piece.Gap, m.GetNextOffset())
		case *bursarv1.LogsResponse_End:
			g.ended = true
		}
		g.next = m.GetNextOffset()
		if enough != nil && enough(g) {
			return g, nil
		}
	}
	if err := stream.Err(); err != nil && !errors.Is(err, io.EOF) {
		return g, err
	}
	if !g.ended {
		return g, errors.New("the stream ended without an end of the output")
	}
	return g, nil
}

func stdout(id string) *bursarv1.LogsRequest {
	return &bursarv1.LogsRequest{Id: id, Stream: bursarv1.OutputStream_OUTPUT_STREAM_STDOUT}
}

func follow(id string) *bursarv1.LogsRequest {
	request := stdout(id)
	request.Follow = true
	return request
}

// local is the agent's socket, for root.
func (p *place) local() bursarv1connect.EngineServiceClient {
	p.t.Helper()
	c, err := client.New("unix:" + p.socket())
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(c.Close)
	return c.Engines()
}

// noTest is the context of a process that is no test.
func noTest() context.Context { return context.Background() }

// helpers are how many processes read output whose program is in a folder.
func helpers(t *testing.T, dir string) (n int) {
	t.Helper()
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range commands {
		text, err := os.ReadFile(path)
		arguments := bytes.Split(text, []byte{0})
		if err == nil && len(arguments) > 2 && string(arguments[0]) == filepath.Join(dir, "bursar-keeper") && bytes.HasPrefix(arguments[2], []byte("output-")) {
			n++
		}
	}
	return n
}

func code(err error) connect.Code {
	if err == nil {
		return 0
	}
	return connect.CodeOf(err)
}
