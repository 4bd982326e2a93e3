//go:build linux

package ha

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/bursar/bursar/test/baseline"
)

// TestAgentsOneVersionBehind: coordinators are brought up to date before agents. Every coordinator
// has one agent that knows only the contract's baseline, and one that was built from the version
// before. Such an agent knows one coordinator.
func TestAgentsOneVersionBehind(t *testing.T) {
	c := newCluster(t, size{coordinators: 3, agents: 4}, nil)
	before := versionBefore(t)
	for _, m := range c.members {
		c.startAgent("before-"+m.Name, before.program, m.url)
	}
	stripped := new(atomic.Int64)
	for _, m := range c.members {
		c.startAgent("baseline-"+m.Name, "", c.speakBaseline(m.url, stripped))
	}
	c.awaitHosts()
	l := c.startLoad(uint64(time.Now().UnixNano()))
	l.startLaunchers()
	l.acknowledges(50)
	for _, f := range []fault{
		{"the leader is killed", func(l *load) {
			leader := l.leader()
			leader.Kill()
			l.leaderBut(leader)
			leader.Start()
		}},
		{"the leader stands still and goes on", (*load).leaderStopped},
		{"PostgreSQL restarts without warning", (*load).storeRestarts},
		{"the agents restart", (*load).agentsRestart},
	} {
		l.survives(f)
	}
	l.finish(span{})
	if n := stripped.Load(); n == 0 {
		t.Error("nothing went through the baseline")
	}
}

// startAgent starts one that knows one coordinator.
func (c *cluster) startAgent(id, program, coordinator string) {
	c.t.Helper()
	h := &host{id: id, socket: filepath.Join(c.dir, id+".sock")}
	file := c.write(id+".yaml", fmt.Sprintf("hostId: %s\nsocket: %s\nstateDir: %s\ntick: %s\ncoordinators: [%s]\ncapacity: {memory: %d, cpu: %dm}\n",
		id, h.socket, filepath.Join(c.dir, id), tick, coordinator, hostMemory, hostCPU))
	h.process = newProcess(c.t, id, c.lab.Node("hosts-1"), "agent", "--config", file, "--log-format", "text", "--log-level", "warn")
	h.program = program
	h.local = c.client(h.socket, patiently()...)
	h.Start()
	c.hosts = append(c.hosts, h)
}

// speakBaseline serves in front of a coordinator, and removes from every call and answer what the
// contract's baseline does not have. It returns its address.
func (c *cluster) speakBaseline(coordinator string, count *atomic.Int64) string {
	c.t.Helper()
	methods := readBaseline(c.t)
	target, err := url.Parse(coordinator)
	if err != nil {
		c.t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Accept-Encoding") // what is compressed cannot be looked at
			if method, unary := methods[r.In.URL.Path]; unary && isProto(r.Out.Header) {
				r.Out.Body, r.Out.ContentLength = c.strip(r.Out.Body, method.Input(), count)
			}
		},
		ModifyResponse: func(r *http.Response) error {
			if method, unary := methods[r.Request.URL.Path]; unary && r.StatusCode == http.StatusOK && isProto(r.Header) {
				r.Body, r.ContentLength = c.strip(r.Body, method.Output(), count)
				r.Header.Set("Content-Length", strconv.FormatInt(r.ContentLength, 10))
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(c.lab.Here.Address.String(), "0"))
	if err != nil {
		c.t.Fatal(err)
	}
	server := &http.Server{Handler: proxy}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener) // until it is closed
	}()
	c.t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return "http://" + listener.Addr().String()
}

func isProto(header http.Header) bool {
	return header.Get("Content-Type") == "application/proto" && header.Get("Content-Encoding") == ""
}

// strip reads a message as the baseline knows it, and writes it again.
func (c *cluster) strip(body io.ReadCloser, kind protoreflect.MessageDescriptor, count *atomic.Int64) (io.ReadCloser, int64) {
	defer body.Close()
	encoded, err := io.ReadAll(body)
	if err != nil {
		return io.NopCloser(bytes.NewReader(nil)), 0 // its caller went away
	}
	message := dynamicpb.NewMessage(kind)
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(encoded, message); err != nil {
		c.t.Errorf("baseline: %s: %v", kind.FullName(), err)
	}
	known, err := proto.Marshal(message)
	if err != nil {
		c.t.Errorf("baseline: %s: %v", kind.FullName(), err)
	}
	count.Add(1)
	return io.NopCloser(bytes.NewReader(known)), int64(len(known))
}

// readBaseline returns the unary methods of the contract's baseline by their paths.
func readBaseline(t *testing.T) map[string]protoreflect.MethodDescriptor {
	t.Helper()
	files, err := baseline.Files("../..")
	if err != nil {
		t.Fatal(err)
	}
	methods := make(map[string]protoreflect.MethodDescriptor)
	files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				if method := service.Methods().Get(j); !method.IsStreamingServer() && !method.IsStreamingClient() {
					methods[fmt.Sprintf("/%s/%s", service.FullName(), method.Name())] = method
				}
			}
		}
		return true
	})
	if len(methods) == 0 {
		t.Fatal("the baseline has no methods")
	}
	return methods
}
