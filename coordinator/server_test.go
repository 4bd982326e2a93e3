package coordinator

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"

	"github.com/bursar/bursar/coordinator/store"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/label"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// fetch does a plain HTTP request.
func (f *fixture) fetch(method, path, body string, headers ...string) (int, string) {
	f.tb.Helper()
	req, err := http.NewRequestWithContext(f.tb.Context(), method, f.url+path, strings.NewReader(body))
	if err != nil {
		f.tb.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	res, err := f.http.Do(req)
	if err != nil {
		f.tb.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		f.tb.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func (f *fixture) metrics() string {
	f.tb.Helper()
	code, text := f.fetch(http.MethodGet, "/metrics", "")
	if code != http.StatusOK {
		f.tb.Fatalf("%d %s", code, text)
	}
	return text
}

func TestPlainJSONOverHTTP(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", 8*gib)
	body := `{"labels":{"user":"alice","creator":"IDE","engineType":"spark-3.3"},"resource":{"memoryBytes":"4294967296","cpuMillis":"2000"}}`
	code, text := f.fetch(http.MethodPost, "/bursar.v1.AllocationService/Allocate", body, "Content-Type", "application/json")
	if code != http.StatusOK || !strings.Contains(text, `"ALLOCATION_STATE_RESERVED"`) {
		t.Errorf("%d %s", code, text)
	}
	code, text = f.fetch(http.MethodGet, "/bursar.v1.ClusterService/Status?encoding=json&message=%7B%7D", "")
	if code != http.StatusOK || !strings.Contains(text, `"isLeader":true`) {
		t.Errorf("%d %s", code, text)
	}
}

func TestProbesHealthAndReflection(t *testing.T) {
	f := start(t, Config{}, nil)
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, text := f.fetch(http.MethodGet, path, ""); code != http.StatusOK || text != "ok\n" {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	code, text := f.fetch(http.MethodPost, "/grpc.health.v1.Health/Check", `{"service":"bursar.v1.AllocationService"}`, "Content-Type", "application/json")
	if code != http.StatusOK || !strings.Contains(text, "SERVING") {
		t.Errorf("%d %s", code, text)
	}
	if code, text := f.fetch(http.MethodPost, "/grpc.health.v1.Health/Check", `{"service":"nonsense"}`, "Content-Type", "application/json"); code != http.StatusNotFound {
		t.Errorf("%d %s", code, text)
	}
	// Reflection is a stream in both directions: over HTTP/2 without TLS, as gRPC.
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	client := grpcreflect.NewClient(&http.Client{Transport: transport}, f.url, connect.WithGRPC())
	stream := client.NewStream(t.Context())
	names, err := stream.ListServices()
	if err != nil || len(names) < 6 {
		t.Errorf("%v, %v", names, err)
	}
	if _, err := stream.Close(); err != nil {
		t.Error(err)
	}
	overGRPC := bursarv1connect.NewClusterServiceClient(&http.Client{Transport: transport}, f.url, connect.WithGRPC())
	if res, err := overGRPC.Status(t.Context(), &bursarv1.StatusRequest{}); err != nil || res.GetVersion() != "test" || res.GetLeader() != f.server.Address() {
		t.Errorf("%v, %v", res, err)
	}
}

func TestMetrics(t *testing.T) {
	f := start(t, Config{Limits: Limits{MetricAccounts: 2}}, nil)
	f.host("h1", gib)
	f.put(userQuota("*", 1000))
	for _, user := range []string{"a", "b", "c"} {
		req := request("", 10*mib)
		req.Labels["user"] = user
		f.allocate(req)
	}
	if _, err := f.allocations.Allocate(t.Context(), request("", 2*gib)); err == nil {
		t.Error("more than there is was granted")
	}
	f.audited()
	text := f.metrics()
	for _, want := range []string{
		`bursar_allocations{state="reserved"} 3`, `bursar_hosts{state="healthy"} 1`, `bursar_epoch 1`, `bursar_leading 1`,
		`bursar_decision_seconds_count{outcome="granted"} 3`, `bursar_decision_seconds_count{outcome="insufficient"} 1`,
		`bursar_account{account="user=a",dimension="memory",kind="reserved"} 1.048576e+07`,
		`bursar_host{dimension="memory",host="h1",kind="reserved"} 3.145728e+07`, `bursar_audit_violations 0`,
		`bursar_commit_seconds_count`, `bursar_commit_calls_count`, `go_goroutines`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(text, `account="user=c"`) {
		t.Error("more accounts than the limit allows")
	}
}

func TestConfigurationThatCannotBeUsedIsRefused(t *testing.T) {
	for field, c := range map[string]Config{
		"listen":              {Listen: "0.0.0.0:7070"},
		"placement":           {Placement: "random"},
		"limits.queue":        {Limits: Limits{Queue: -1}},
		"history.retention":   {History: History{Retention: time.Hour}},
		"times.interval":      {Times: Times{Interval: -1}},
		"limits.watchEvents":  {Limits: Limits{WatchEvents: -5}},
		"limits.watchBytes":   {Limits: Limits{WatchBytes: -5}},
		"limits.messageBytes": {Limits: Limits{MessageBytes: -5}},
		// These would let nothing through.
		"limits.syncBytes":       {Limits: Limits{SyncBytes: 10}},
		"limits.callerLiveBytes": {Limits: Limits{CallerLiveBytes: 1000}},
		"history.callerBytes":    {History: History{CallerBytes: 1}},
		"limits.commitTimeout":   {Limits: Limits{CommitTimeout: 5}},
	} {
		_, err := New(c, Dependencies{Store: newMemoryStore()})
		wrong, ok := errors.AsType[*ConfigError](err)
		if !ok || wrong.Field != field || wrong.Want == "" {
			t.Errorf("%s: got %v", field, err)
		}
	}
	if _, err := New(Config{Listen: "nonsense"}, Dependencies{Store: newMemoryStore()}); err == nil {
		t.Error("an address that is none was taken")
	}
	_, err := New(Config{Labels: label.Rules{Required: []string{"*"}}}, Dependencies{Store: newMemoryStore()})
	if _, ok := errors.AsType[*label.FieldError](err); !ok {
		t.Errorf("label rules: got %v", err)
	}
	if _, err := New(Config{Listen: "0.0.0.0:0", Insecure: true}, Dependencies{Store: newMemoryStore()}); err != nil {
		t.Errorf("insecure, and said so: got %v", err)
	}
}

func TestACallBeforeTheStartIsUnavailable(t *testing.T) {
	s, err := New(Config{}, Dependencies{Store: newMemoryStore()})
	if err != nil {
		t.Fatal(err)
	}
	client := bursarv1connect.NewAllocationServiceClient(inProcess{handler: s.Handler()}, "http://in.process")
	if _, err := client.Allocate(t.Context(), request("", mib)); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("got %v", err)
	}
}

// inProcess calls a handler without any connection, as if from a peer.
type inProcess struct {
	handler http.Handler
	peer    string
}

func (p inProcess) Do(req *http.Request) (*http.Response, error) {
	req.RequestURI, req.RemoteAddr = req.URL.Path, p.peer
	w := &recorder{header: make(http.Header), code: http.StatusOK}
	p.handler.ServeHTTP(w, req)
	return &http.Response{
		StatusCode: w.code, Header: w.header, Body: io.NopCloser(strings.NewReader(w.body.String())),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
	}, nil
}

type recorder struct {
	header http.Header
	code   int
	body   strings.Builder
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(code int)        { r.code = code }
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }

func TestAStoreThatCannotBeLedRefusesTheStart(t *testing.T) {
	s := newMemoryStore()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	server, err := New(Config{Listen: "127.0.0.1:0"}, Dependencies{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Run(t.Context()); !errors.Is(err, store.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestPagesOfOtherSitesAreKeptOut(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	own := "http://" + f.server.Address()
	for name, c := range map[string]struct {
		headers []string
		want    int
	}{
		"no browser":                  {nil, http.StatusOK},
		"a page of its own":           {[]string{"Origin", own, "Sec-Fetch-Site", "same-origin"}, http.StatusOK},
		"another site":                {[]string{"Origin", "http://other.example", "Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		"another port":                {[]string{"Origin", "http://127.0.0.1:1"}, http.StatusForbidden},
		"another name for this place": {[]string{"Origin", "http://other.example:7070", "Sec-Fetch-Site", "same-origin", "Host", "other.example:7070"}, http.StatusForbidden},
	} {
		code, text := f.fetch(http.MethodPost, "/bursar.v1.ClusterService/Status", "{}", append(c.headers, "Content-Type", "application/json")...)
		if code != c.want {
			t.Errorf("%s: %d %s: want %d", name, code, text, c.want)
		}
	}
}

func TestWhoComesFromAnotherMachineIsNotBelieved(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	client := bursarv1connect.NewAllocationServiceClient(inProcess{f.server.Handler(), "10.1.2.3:4"}, "http://in.process")
	res, err := client.Allocate(t.Context(), request("r", mib))
	if err != nil || res.GetAllocation().GetCaller() != "remote" {
		t.Errorf("got %v, %v", res, err)
	}
	ctx, info := connect.NewClientContext(t.Context())
	info.RequestHeader().Set(identity.Header, identity.Local().Encode())
	if _, err := client.Allocate(ctx, request("r", mib)); fieldOf(err) != identity.Header {
		t.Errorf("it claimed to be somebody: %v", err)
	}
}

func TestShutdownTellsEverybody(t *testing.T) {
	f := start(t, Config{}, nil)
	f.host("h1", gib)
	f.allocate(request("holder", gib))
	waited, watched, ordered := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	go func() {
		req := request("waits", gib)
		req.Wait = seconds(60)
		_, err := f.allocations.Allocate(context.Background(), req)
		waited <- err
	}()
	go func() {
		stream, err := f.allocations.Watch(context.Background(), &bursarv1.AllocationServiceWatchRequest{})
		watched <- lastError(stream, err, nil)
	}()
	attached := make(chan struct{})
	go func() {
		stream, err := f.hosts.Attach(context.Background(), &bursarv1.AttachRequest{HostId: "h1", Incarnation: 1})
		ordered <- lastError(stream, err, attached)
	}()
	eventually(t, "one waits and one watches", func() bool {
		return f.status().GetWaiting() == 1 && strings.Contains(f.metrics(), "bursar_watches 1")
	})
	<-attached
	f.stop()
	for name, answer := range map[string]chan error{"a waiting caller": waited, "a watching caller": watched, "an attached agent": ordered} {
		if err := <-answer; connect.CodeOf(err) != connect.CodeUnavailable {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// lastError reads a stream to its end. begun, if it is not nil, is closed with the first message.
func lastError[M any](stream *connect.ServerStreamForClient[M], err error, begun chan struct{}) error {
	if err != nil {
		return err
	}
	for n := 0; stream.Receive(); n++ {
		if n == 0 && begun != nil {
			close(begun)
		}
	}
	return errors.Join(stream.Err(), stream.Close())
}

func newMemoryStore() store.Store { return storetest.NewMemory("test").Open() }
