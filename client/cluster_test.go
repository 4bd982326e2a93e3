package client_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/credential"
	"github.com/bursar/bursar/internal/discovery"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/test/certs"
	"github.com/bursar/bursar/test/proc"
)

// member is one coordinator of several.
type member struct {
	*fakeAllocations

	server *httptest.Server
	frozen chan struct{} // closed: it answers again

	mu     sync.Mutex
	hangs  bool   // guarded by mu: what comes is read and not answered
	authed string // guarded by mu: the last Authorization header
}

func (m *member) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	hangs := m.hangs
	m.authed = r.Header.Get("Authorization")
	m.mu.Unlock()
	if hangs {
		select {
		case <-m.frozen:
		case <-r.Context().Done():
		}
		return
	}
	mux := http.NewServeMux()
	mux.Handle(bursarv1connect.NewAllocationServiceHandler(m.fakeAllocations))
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {})
	mux.ServeHTTP(w, r)
}

// freeze makes it hang, also with the calls under way.
func (m *member) freeze() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hangs = true
}

// directory is a finder that a test changes.
type directory struct {
	mu   sync.Mutex
	list []discovery.Coordinator // guarded by mu
}

func (d *directory) Coordinators() ([]discovery.Coordinator, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.list, nil
}

// lists replaces the known members; the first one leads.
func (d *directory) lists(members ...*member) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = nil
	for i, m := range members {
		d.list = append(d.list, discovery.Coordinator{URL: m.server.URL, Leads: i == 0})
	}
}

func newMember(t *testing.T, start func(http.Handler) *httptest.Server) *member {
	t.Helper()
	m := &member{fakeAllocations: &fakeAllocations{}, frozen: make(chan struct{})}
	m.server = start(m)
	t.Cleanup(func() {
		close(m.frozen)
		m.server.Close()
	})
	return m
}

// newCluster returns a client of several coordinators, of which the first one leads.
func newCluster(t *testing.T, n int, opts ...client.Option) (*client.Client, *directory, []*member) {
	t.Helper()
	known := &directory{}
	var members []*member
	for range n {
		members = append(members, newMember(t, httptest.NewServer))
	}
	known.lists(members...)
	c := client.NewCluster(known, opts...)
	t.Cleanup(c.Close)
	return c, known, members
}

func allocate(t *testing.T, c *client.Client) {
	t.Helper()
	_, err := c.Allocations().Allocate(t.Context(), &bursarv1.AllocateRequest{RequestId: "mine", Resource: memory(1)})
	if err != nil {
		t.Fatal(err)
	}
}

func refuses(err error) func(context.Context, *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
	return func(context.Context, *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) { return nil, err }
}

func (m *member) asked() int { return len(m.calls.all()) }

func TestCallThatNobodyAnswersGoesElsewhere(t *testing.T) {
	for name, fails := range map[string]func(m *member){
		"not leading": func(m *member) {
			m.allocate = refuses(connect.NewError(connect.CodeUnavailable, errors.New("I do not lead")))
		},
		"gone": func(m *member) { m.server.Close() },
		"cut off": func(m *member) {
			m.allocate = func(context.Context, *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
				panic(http.ErrAbortHandler)
			}
		},
		"proxy's page": func(m *member) {
			m.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusServiceUnavailable) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, members := newCluster(t, 3)
			allocate(t, c)
			if members[0].asked() != 1 {
				t.Fatal("the leader was not asked first")
			}
			fails(members[0])
			for range 10 {
				allocate(t, c)
			}
			if others := members[1].asked() + members[2].asked(); others != 10 || members[1].asked() != 0 && members[2].asked() != 0 {
				t.Errorf("asked the others %d and %d times, want all ten calls at one of them", members[1].asked(), members[2].asked())
			}
		})
	}
}

func TestAnswerThatIsAnErrorIsNotAskedForElsewhere(t *testing.T) {
	c, _, members := newCluster(t, 2)
	members[0].allocate = refuses(connect.NewError(connect.CodeFailedPrecondition, errors.New("no")))
	for range 3 {
		if _, err := c.Allocations().Allocate(t.Context(), &bursarv1.AllocateRequest{}); !client.Precondition(err) {
			t.Errorf("%v", err)
		}
	}
	if members[1].asked() != 0 {
		t.Error("asked somebody else")
	}
}

func TestWaitingCallLeavesACoordinatorThatHangs(t *testing.T) {
	c, _, members := newCluster(t, 2)
	arrived := make(chan struct{})
	members[0].allocate = func(ctx context.Context, _ *bursarv1.AllocateRequest) (*bursarv1.AllocateResponse, error) {
		members[0].freeze()
		close(arrived)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	delays, began := proc.Delays(t), time.Now()
	res, err := c.Allocations().Allocate(t.Context(), &bursarv1.AllocateRequest{RequestId: "mine", Wait: durationpb.New(time.Hour)})
	<-arrived
	if err != nil || res.GetAllocation().GetRequestId() != "mine" || members[1].asked() != 1 {
		t.Errorf("%v, %v; the other was asked %d times", res, err, members[1].asked())
	}
	if took := time.Since(began); took > 10*time.Second+delays() { // 3.2 s on a machine that is not busy
		t.Errorf("took %v", took)
	}
}

func TestWatchLeavesACoordinatorThatHangs(t *testing.T) {
	c, _, members := newCluster(t, 2)
	for i, m := range members {
		m.watch = func(
			ctx context.Context, req *bursarv1.AllocationServiceWatchRequest, stream *connect.ServerStream[bursarv1.AllocationServiceWatchResponse],
		) error {
			if i == 0 {
				m.freeze()
			}
			if err := stream.Send(&bursarv1.AllocationServiceWatchResponse{Revision: req.GetAfterRevision() + 1}); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		}
	}
	var revisions []uint64
	for msg, err := range c.WatchAllocations(t.Context(), &bursarv1.AllocationServiceWatchRequest{AfterRevision: 6}) {
		if err != nil {
			t.Fatal(err)
		}
		if revisions = append(revisions, msg.GetRevision()); len(revisions) == 2 {
			break
		}
	}
	if revisions[0] != 7 || revisions[1] != 8 || members[1].asked() != 1 {
		t.Errorf("saw %v; the other was asked %d times", revisions, members[1].asked())
	}
}

func TestStreamThatItsServerEndsGoesOnElsewhere(t *testing.T) {
	for name, end := range map[string]error{"in order": nil, "as unavailable": connect.NewError(connect.CodeUnavailable, errors.New("leaving"))} {
		c, _, members := newCluster(t, 2)
		for i, m := range members {
			m.watch = func(
				context.Context, *bursarv1.AllocationServiceWatchRequest, *connect.ServerStream[bursarv1.AllocationServiceWatchResponse],
			) error {
				if i == 0 {
					return end
				}
				return connect.NewError(connect.CodeOutOfRange, errors.New("enough"))
			}
		}
		var last error
		for _, err := range c.WatchAllocations(t.Context(), nil) {
			last = err
		}
		if connect.CodeOf(last) != connect.CodeOutOfRange || members[0].asked() != 1 {
			t.Errorf("%s: ended with %v, the first one asked %d times", name, last, members[0].asked())
		}
	}
}

func TestCallsFollowTheLeader(t *testing.T) {
	c, known, members := newCluster(t, 3)
	allocate(t, c)
	known.lists(members[2], members[0], members[1])
	allocate(t, c)
	if members[0].asked() != 1 || members[2].asked() != 1 {
		t.Error("the call did not go to the new leader")
	}
	c.Elsewhere()
	allocate(t, c)
	if members[2].asked() != 1 {
		t.Error("the call went to the one that was left")
	}
}

func TestCallsWaitUntilACoordinatorIsKnown(t *testing.T) {
	c, known, members := newCluster(t, 1)
	known.lists()
	once := c.With(client.WithoutRetries())
	_, err := once.Allocations().Get(t.Context(), &bursarv1.AllocationServiceGetRequest{Id: "a"})
	if !client.Unavailable(err) || !strings.Contains(err.Error(), "no coordinator is known yet") {
		t.Errorf("nobody known: %v", err)
	}
	time.AfterFunc(50*time.Millisecond, func() { known.lists(members[0]) })
	allocate(t, c)
}

func TestTokenComesWithEveryAttempt(t *testing.T) {
	tokens := []string{"one", "two", "three"}
	n := 0
	c, _, members := newCluster(t, 2, client.WithToken(func() (string, error) {
		n++
		return tokens[n-1], nil
	}))
	members[0].allocate = refuses(connect.NewError(connect.CodeUnavailable, errors.New("leaving")))
	members[1].watch = func(
		context.Context, *bursarv1.AllocationServiceWatchRequest, *connect.ServerStream[bursarv1.AllocationServiceWatchResponse],
	) error {
		return connect.NewError(connect.CodeOutOfRange, errors.New("enough"))
	}
	allocate(t, c)
	if members[0].authed != "Bearer one" || members[1].authed != "Bearer two" {
		t.Errorf("sent %q, then %q", members[0].authed, members[1].authed)
	}
	for _, err := range c.WatchAllocations(t.Context(), nil) {
		if connect.CodeOf(err) != connect.CodeOutOfRange {
			t.Errorf("the stream: %v", err)
		}
	}
	if members[1].authed != "Bearer three" {
		t.Errorf("with the stream: %q", members[1].authed)
	}
}

func TestWithoutItsTokenNothingIsSent(t *testing.T) {
	c, _, members := newCluster(t, 1, client.WithToken(func() (string, error) { return "", errors.New("token file: empty") }))
	_, err := c.Allocations().Allocate(t.Context(), &bursarv1.AllocateRequest{})
	if !client.Denied(err) || !strings.Contains(err.Error(), "token file: empty") {
		t.Errorf("%v", err)
	}
	for _, err := range c.WatchAllocations(t.Context(), nil) {
		if !client.Denied(err) {
			t.Errorf("the stream: %v", err)
		}
	}
	if members[0].asked() != 0 {
		t.Error("something was sent")
	}
}

func TestCoordinatorsAreSpokenToOverTLS(t *testing.T) {
	m := newMember(t, func(h http.Handler) *httptest.Server {
		server := httptest.NewUnstartedServer(h)
		server.EnableHTTP2 = true
		server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		server.StartTLS()
		return server
	})
	trusted := x509.NewCertPool()
	trusted.AddCert(m.server.Certificate())
	known := &directory{}
	known.lists(m)
	c := client.NewCluster(known, client.WithTLS(&tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}))
	defer c.Close()
	allocate(t, c)

	one, err := client.New(m.server.Listener.Addr().String(), client.WithTLS(&tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}))
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	allocate(t, one)

	stranger := client.NewCluster(known, client.WithoutRetries())
	defer stranger.Close()
	_, err = stranger.Allocations().Allocate(t.Context(), &bursarv1.AllocateRequest{})
	var unknown x509.UnknownAuthorityError
	if !client.Unavailable(err) || !errors.As(err, &unknown) || !strings.Contains(err.Error(), "want tls.ca to name") {
		t.Errorf("who does not trust its authority: %v", err)
	}
}

func TestServerThatSpeaksTLSIsRecognizedWithout(t *testing.T) {
	m := newMember(t, func(h http.Handler) *httptest.Server {
		server := httptest.NewUnstartedServer(h)
		server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		server.StartTLS()
		return server
	})
	address := "http://" + m.server.Listener.Addr().String()
	one, err := client.New(address, client.WithoutRetries())
	if err != nil {
		t.Fatal(err)
	}
	finder, err := discovery.Static([]string{address})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*client.Client{one, client.NewCluster(finder, client.WithoutRetries())} {
		defer c.Close()
		recognized := false
		// the server closes a connection with unread data, which may discard its answer
		for range 10 {
			_, err = c.Allocations().Allocate(t.Context(), &bursarv1.AllocateRequest{})
			if !client.Unavailable(err) {
				t.Fatal(err)
			}
			recognized = recognized || strings.Contains(err.Error(), "speaks TLS here: want https://")
		}
		if !recognized {
			t.Errorf("%v", err)
		}
	}
}

func TestClientAndServerShowTheirCertificates(t *testing.T) {
	dir := t.TempDir()
	ca := certs.New(t, "here")
	file := ca.File(t, dir, "ca.pem")
	cert, key := ca.Issue(t, certs.Request{Name: "vm-1"}).Files(t, dir, "agent")
	own, err := tls.X509KeyPair(func() ([]byte, []byte) {
		server := ca.Issue(t, certs.Request{Name: "rm-1", Hosts: []string{"127.0.0.1"}})
		return server.CertPEM, server.KeyPEM
	}())
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(ca.PEM())
	m := newMember(t, func(h http.Handler) *httptest.Server {
		server := httptest.NewUnstartedServer(h)
		server.EnableHTTP2 = true
		server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		server.TLS = &tls.Config{
			Certificates: []tls.Certificate{own}, ClientCAs: trusted, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12,
		}
		server.StartTLS()
		return server
	})
	known := &directory{}
	known.lists(m)
	shows, err := credential.ClientTLS{CA: file, Cert: cert, Key: key}.Open(credential.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := client.NewCluster(known, client.WithCredentials(shows))
	defer c.Close()
	allocate(t, c)

	nobody, err := credential.ClientTLS{CA: file}.Open(credential.Options{})
	if err != nil {
		t.Fatal(err)
	}
	stranger := client.NewCluster(known, client.WithCredentials(nobody), client.WithoutRetries())
	defer stranger.Close()
	_, err = stranger.Allocations().Allocate(t.Context(), &bursarv1.AllocateRequest{})
	if !client.Unavailable(err) || !strings.Contains(err.Error(), "want a client certificate: tls.cert and tls.key") {
		t.Errorf("who shows none: %v", err)
	}
}
