package agent

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/socket"
	"github.com/bursar/bursar/agent/statefile"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// suspicious is a coordinator that notes in whose name it is called. Everything that it is asked
// for is there, and another user's.
type suspicious struct {
	mu   sync.Mutex
	told []string // guarded by mu
}

// RoundTrip answers a call.
func (s *suspicious) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.told = append(s.told, r.Header.Get(identity.Header))
	s.mu.Unlock()
	_, _ = io.Copy(io.Discard, r.Body)
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	switch path.Base(r.URL.Path) {
	case "Get":
		_, _ = w.WriteString(`{"allocation":{"id":"a","hostId":"h1","state":"ALLOCATION_STATE_RESERVED","labels":{"user":"alice"}}}`)
	case "List":
		_, _ = w.WriteString(`{}`)
	default:
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.WriteString(`{"code":"permission_denied","message":"it is alice's"}`)
	}
	return w.Result(), nil
}

// names are those that it was called in since the last time.
func (s *suspicious) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	told := s.told
	s.told = nil
	return told
}

// inputs are the requests of the local API, each with something in it.
func inputs() map[string]proto.Message {
	host := &bursarv1.HostWishes{Id: "h1"}
	return map[string]proto.Message{
		"AllocationService/Allocate": &bursarv1.AllocateRequest{Labels: map[string]string{"user": "alice"}, Resource: &bursarv1.Resource{MemoryBytes: new(int64(1))}, Host: host},
		"AllocationService/Confirm":  &bursarv1.ConfirmRequest{Id: "a", Process: &bursarv1.Process{Pid: 1, StartTime: 1, Cgroup: "/x"}},
		"AllocationService/Release":  &bursarv1.ReleaseRequest{Id: "a", Reason: "r"},
		"AllocationService/Cancel":   &bursarv1.CancelRequest{Id: "a", Reason: "r"},
		"AllocationService/Renew":    &bursarv1.RenewRequest{Id: "a"},
		"AllocationService/Resize":   &bursarv1.ResizeRequest{Id: "a", Entitled: &bursarv1.Resource{CpuMillis: new(int64(1))}},
		"AllocationService/Stop":     &bursarv1.StopRequest{Id: "a"},
		"AllocationService/Get":      &bursarv1.AllocationServiceGetRequest{Id: "a"},
		"AllocationService/List":     &bursarv1.AllocationServiceListRequest{PageToken: "agent:a", Labels: map[string]string{"user": "*"}},
		"AllocationService/Watch":    &bursarv1.AllocationServiceWatchRequest{Id: "a", AfterRevision: 3},
		"AllocationService/Explain":  &bursarv1.ExplainRequest{Request: &bursarv1.AllocateRequest{Host: host}},
		"EngineService/Launch":       &bursarv1.LaunchRequest{Id: "a", Command: []string{"/bin/true"}, User: "root", WorkingDirectory: "/"},
	}
}

// FuzzLocalAPI sends anything to each call of the local API, as JSON and as protobuf, in the name
// of a user of no rights: nothing of it makes the agent fail, and whatever of it reaches a
// coordinator goes in that user's name.
func FuzzLocalAPI(f *testing.F) {
	procedures := make([]string, 0, len(inputs()))
	for procedure := range inputs() {
		procedures = append(procedures, procedure)
	}
	slices.Sort(procedures)
	for i, procedure := range procedures {
		binary, err := proto.Marshal(inputs()[procedure])
		if err != nil {
			f.Fatal(err)
		}
		text, err := protojson.Marshal(inputs()[procedure])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), false, binary)
		f.Add(uint8(i), true, text)
		f.Add(uint8(i), true, []byte(`{"id":"../../etc","command":["x"],"user":"0"}`))
	}
	upstream := &suspicious{}
	log := &strings.Builder{}
	handler, user := localAPI(f, upstream, log)
	f.Fuzz(func(t *testing.T, which uint8, text bool, body []byte) {
		procedure, media := procedures[int(which)%len(procedures)], "application/proto"
		if text {
			media = "application/json"
		}
		if procedure == "AllocationService/Watch" {
			media = strings.Replace(media, "/", "/connect+", 1)
		}
		r := httptest.NewRequest(http.MethodPost, "/bursar.v1."+procedure, bytes.NewReader(body))
		r.Header.Set("Content-Type", media)
		r.Header.Set("Connect-Timeout-Ms", "100")
		// which the agent does not believe
		r.Header.Set(identity.Header, `{"name":"root@h1","anyone":true}`)
		upstream.names()
		log.Reset()
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r.WithContext(socket.WithCaller(r.Context(), user)))
		if strings.Contains(log.String(), "should not be") {
			t.Errorf("%s: %s", procedure, log)
		}
		for _, name := range upstream.names() {
			if name != user.Header {
				t.Errorf("%s was passed on in the name of %q", procedure, name)
			}
		}
		if w.Code == http.StatusOK && media == "application/json" && procedure == "EngineService/Launch" {
			t.Errorf("something was launched: %s", w.Body)
		}
	})
}

// localAPI is the agent's handler, with a caller of no rights.
func localAPI(f *testing.F, upstream *suspicious, log *strings.Builder) (http.Handler, *socket.Caller) {
	f.Helper()
	a, err := New(Config{HostID: "h1", StateDir: f.TempDir(), Patience: 100 * time.Millisecond}, Deps{
		Allocations: bursarv1connect.NewAllocationServiceClient(&http.Client{Transport: upstream}, "http://coordinator", connect.WithProtoJSON()), Hosts: &heartbeatServer{interval: time.Minute}, Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		f.Fatal(err)
	}
	dir, err := statefile.Open(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = dir.Close() })
	a.state.Open(dir, "boot-1", 1)
	a.state.Begin(tracker.New(time.Now(), tracker.Host{ID: "h1", BootID: "boot-1", Incarnation: 1}, tracker.Snapshot{}))
	becomeReady(a)
	user := socket.NewCaller(identity.Actor{Name: "mallory@h1", Users: []string{"mallory"}, Role: identity.Submitter, Host: "h1"}, 4711, "mallory")
	return (&routes{agent: a, stopping: f.Context()}).handler(true), user
}
