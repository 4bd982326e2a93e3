package callers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/agent"
	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/coordinator"
	"github.com/bursar/bursar/coordinator/store/storetest"
	"github.com/bursar/bursar/internal/discovery"
	"github.com/bursar/bursar/internal/readlimit"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/underrace"
)

const (
	// parked is how many requests wait in TestARequestThatWaitsTakesLittleMemory.
	parked = 500
	// waiterBytes is what one may take, in the agent and in the coordinator together. Measured: 44
	// KB. 16 KB are stacks of two goroutines of the agent (the handler, and what reads the caller's
	// connection), 10 KB are the buffers of net/http for the caller's connection, some 5 KB are the
	// coordinator's. It was 82 KB when each had a call of its own to the coordinator.
	waiterBytes = 48 << 10
)

// inMemory has a coordinator and an agent in this process, connected as the shipped ones are.
type inMemory struct {
	t       *testing.T
	socket  string
	address string
	books   *client.Client
}

func newInMemory(t *testing.T) *inMemory {
	t.Helper()
	dir, err := os.MkdirTemp("", "memory") //nolint:usetesting // the path of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &inMemory{t: t, socket: filepath.Join(dir, "s"), address: listener.Addr().String()}
	books, err := coordinator.New(coordinator.Config{Listen: m.address}, coordinator.Dependencies{Store: storetest.NewMemory("s").Open()})
	if err != nil {
		t.Fatal(err)
	}
	m.background(func(ctx context.Context) error { return books.Serve(ctx, listener) })
	if m.books, err = client.New(m.address); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.books.Close)
	finder, err := discovery.Static([]string{"http://" + m.address})
	if err != nil {
		t.Fatal(err)
	}
	// As `bursar agent` makes it.
	options := []client.Option{client.WithoutRetries(), client.WithLargestAnswer(readlimit.Agent)}
	upstream, waiting := client.NewCluster(finder, options...), client.NewCluster(finder, append(options, client.WithH2C())...)
	t.Cleanup(upstream.Close)
	t.Cleanup(waiting.Close)
	host, err := agent.New(agent.Config{
		HostID: "vm-1", Socket: m.socket, StateDir: filepath.Join(dir, "state"), Capacity: map[string]string{"cpu": "1"},
		Engines: agent.EnginesConfig{Cgroups: "none"},
	}, agent.Deps{Allocations: upstream.Allocations(), Waiting: waiting.Allocations(), Hosts: upstream.Hosts()})
	if err != nil {
		t.Fatal(err)
	}
	m.background(host.Run)
	select {
	case <-host.Ready():
	case <-time.After(patience):
		t.Fatal("the agent is not ready")
	}
	return m
}

func (m *inMemory) background(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	m.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			m.t.Error(err)
		}
	})
}

// ask sends a request that waits, over a connection that takes no memory of this process's.
func (m *inMemory) ask(id string) (fd int) {
	m.t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: m.socket})
	}
	one := int64(1000)
	body, marshalErr := proto.Marshal(&bursarv1.AllocateRequest{
		RequestId: id, Labels: map[string]string{"user": "root"}, Resource: &bursarv1.Resource{CpuMillis: &one}, Wait: durationpb.New(time.Hour),
	})
	err = errors.Join(err, marshalErr)
	if err == nil {
		_, err = unix.Write(fd, fmt.Appendf(nil, "POST /bursar.v1.AllocationService/Allocate HTTP/1.1\r\nHost: a\r\nContent-Type: application/proto\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	}
	if err != nil {
		m.t.Fatal(err)
	}
	return fd
}

// taken is what the heap and the stacks of all goroutines take.
func taken() int {
	runtime.GC()
	runtime.GC() // what was in pools goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}

func TestARequestThatWaitsTakesLittleMemory(t *testing.T) {
	m := newInMemory(t)
	first, err := client.New(m.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	one := int64(1000)
	request := &bursarv1.AllocateRequest{Labels: map[string]string{"user": "root"}, Resource: &bursarv1.Resource{CpuMillis: &one}}
	if _, err := first.Allocations().Allocate(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	before, goroutines := 0, 0
	for round, number := range []int{20, parked} { // what is there once comes with the first
		for i := range number {
			fd := m.ask(strconv.Itoa(round) + "-" + strconv.Itoa(i))
			defer unix.Close(fd)
		}
		want := int64(number)
		if round > 0 {
			want += 20
		}
		h := &host{t: t, books: m.books}
		h.waiting(int(want))
		if round == 0 {
			before, goroutines = taken(), runtime.NumGoroutine()
		}
	}
	each := (taken() - before) / parked
	t.Logf("%d bytes and %.1f goroutines each", each, float64(runtime.NumGoroutine()-goroutines)/parked)
	if each > waiterBytes*underrace.Factor {
		t.Errorf("a request that waits takes %d bytes in the agent and the coordinator, want at most %d", each, waiterBytes*underrace.Factor)
	}
}
