package callers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
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

// asCoordinator is the variable that makes this test program serveCoordinator.
const asCoordinator = "BURSAR_TEST_COORDINATOR"

// serveCoordinator is a coordinator with a store in memory. It writes its address, and at each line
// that it reads, what its memory is. It ends with its input.
func serveCoordinator() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	books, err := coordinator.New(coordinator.Config{Listen: listener.Addr().String()}, coordinator.Dependencies{Store: storetest.NewMemory("s").Open()})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- books.Serve(ctx, listener) }()
	<-books.Ready()
	fmt.Println(books.Address())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(taken())
	}
	cancel()
	return <-ended
}

// inMemory has an agent in this process, and a coordinator in one of its own, connected as the
// shipped ones are.
type inMemory struct {
	t      *testing.T
	socket string
	books  *client.Client
	// Of the coordinator:
	input  io.Writer
	output *bufio.Scanner
}

func newInMemory(t *testing.T) *inMemory {
	t.Helper()
	dir, err := os.MkdirTemp("", "memory") //nolint:usetesting // the path of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m := &inMemory{t: t, socket: filepath.Join(dir, "s")}
	address := m.startCoordinator()
	if m.books, err = client.New(address); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.books.Close)
	finder, err := discovery.Static([]string{"http://" + address})
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

// startCoordinator starts the coordinator and returns its address.
func (m *inMemory) startCoordinator() (address string) {
	m.t.Helper()
	command := exec.Command(os.Args[0])
	command.Env, command.Stderr = append(os.Environ(), asCoordinator+"=1"), os.Stderr
	input, err := command.StdinPipe()
	output, outputErr := command.StdoutPipe()
	if err = errors.Join(err, outputErr); err == nil {
		err = command.Start()
	}
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		_ = input.Close()
		if err := command.Wait(); err != nil {
			m.t.Error(err)
		}
	})
	m.input, m.output = input, bufio.NewScanner(output)
	if !m.output.Scan() {
		m.t.Fatal("the coordinator does not start")
	}
	return m.output.Text()
}

// taken is what the agent and the coordinator take.
func (m *inMemory) taken() (agent, coordinator int) {
	m.t.Helper()
	if _, err := fmt.Fprintln(m.input); err != nil {
		m.t.Fatal(err)
	}
	if !m.output.Scan() {
		m.t.Fatal("the coordinator does not answer")
	}
	coordinator, err := strconv.Atoi(m.output.Text())
	if err != nil {
		m.t.Fatal(err)
	}
	return taken(), coordinator
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
	agent, coordinator, goroutines := 0, 0, 0
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
			agent, coordinator = m.taken()
			goroutines = runtime.NumGoroutine()
		}
	}
	agentAfter, coordinatorAfter := m.taken()
	agent, coordinator = (agentAfter-agent)/parked, (coordinatorAfter-coordinator)/parked
	each := agent + coordinator
	t.Logf("%d bytes each: %d in the agent, %d in the coordinator; %.1f goroutines", each, agent, coordinator, float64(runtime.NumGoroutine()-goroutines)/parked)
	if each > waiterBytes*underrace.Factor {
		t.Errorf("a request that waits takes %d bytes in the agent and the coordinator, want at most %d", each, waiterBytes*underrace.Factor)
	}
}
