package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/agent"
	"github.com/bursar/bursar/agent/statefile"
	"github.com/bursar/bursar/coordinator"
	"github.com/bursar/bursar/coordinator/store/storetest"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

const (
	// tickOfDays is between two measurements, and between two heartbeats.
	tickOfDays = 10 * time.Second
	// crowd is the number of launchers of TestDays, and so the most engines at a time.
	crowd = 40
	// longest is how long an engine lives at most there, and how long a launcher rests.
	longest = time.Hour
)

// TestDays lets days pass on a host whose engines come and go. Every few hours something happens:
// the coordinator is away, for an hour at times, or starts again with what its store has; the
// agent does. In the end nothing may be left in the ledger, nothing in it may be wrong, and neither
// server may hold more than it did early.
func TestDays(t *testing.T) {
	dir, err := os.MkdirTemp("", "soak") //nolint:usetesting // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	began := time.Now()
	states, stop := stateOpener()
	defer stop()
	var lived *world
	synctest.Test(t, func(t *testing.T) {
		lived = newWorld(t, dir)
		lived.openState = states
		lived.live(time.Duration(*days) * 24 * time.Hour)
	})
	t.Logf("%d days with %d engines in %s", *days, lived.made, time.Since(began).Round(time.Second))
}

// stateOpener returns a function that opens state directories outside of the bubble: a goroutine
// of the lock on a directory's name waits for connections, which no bubble takes for rest.
func stateOpener() (open func(path string) (agent.State, error), stop func()) {
	type opened struct {
		dir agent.State
		err error
	}
	paths, answers := make(chan string), make(chan opened)
	go func() {
		for path := range paths {
			dir, err := statefile.Open(path)
			answers <- opened{dir, err}
		}
	}()
	return func(path string) (agent.State, error) {
		paths <- path
		answer := <-answers
		return answer.dir, answer.err
	}, func() { close(paths) }
}

// world is a host, its agent and a coordinator, in a bubble.
type world struct {
	t         *testing.T
	dir       string
	random    *rand.Rand
	machine   *machine
	rows      *storetest.Memory
	wire      *wire
	client    *http.Client
	api       bursarv1connect.AllocationServiceClient
	openState func(path string) (agent.State, error)
	audit     bursarv1connect.ClusterServiceClient

	coordinator, agent *server
	made               int
}

func newWorld(t *testing.T, dir string) *world {
	t.Helper()
	w := &world{t: t, dir: dir, random: rand.New(rand.NewPCG(1, 2)), machine: newMachine(), rows: storetest.NewMemory("soak"), wire: newWire()}
	w.client = &http.Client{Transport: &http.Transport{DialContext: w.wire.dial, MaxIdleConnsPerHost: crowd}}
	w.api = bursarv1connect.NewAllocationServiceClient(w.client, "http://coordinator")
	w.audit = bursarv1connect.NewClusterServiceClient(w.client, "http://coordinator")
	return w
}

// server is one of the two while it runs.
type server struct {
	cancel context.CancelFunc
	ended  chan error
}

func begin(run func(context.Context) error) *server {
	ctx, cancel := context.WithCancel(context.Background())
	s := &server{cancel: cancel, ended: make(chan error, 1)}
	go func() { s.ended <- run(ctx) }()
	return s
}

func (s *server) end(t *testing.T) {
	t.Helper()
	s.cancel()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

func (w *world) startCoordinator() {
	w.t.Helper()
	c, err := coordinator.New(coordinator.Config{
		Times:   coordinator.Times{Interval: tickOfDays, RequestRetention: time.Hour},
		History: coordinator.History{Retention: time.Hour, PruneEvery: time.Minute},
	}, coordinator.Dependencies{Store: w.rows.Open()})
	if err != nil {
		w.t.Fatal(err)
	}
	listener := w.wire.listen()
	w.coordinator = begin(func(ctx context.Context) error { return c.Serve(ctx, listener) })
	<-c.Ready()
}

func (w *world) startAgent() {
	w.t.Helper()
	a, err := agent.New(agent.Config{HostID: "h1", Tick: tickOfDays, StateDir: filepath.Join(w.dir, "agent"), Engines: agent.EnginesConfig{Cgroups: "none"}}, agent.Deps{
		Allocations: w.api, Hosts: bursarv1connect.NewHostServiceClient(w.client, "http://coordinator"),
		// Nobody calls it.
		Meter: w.machine, Proc: w.dir, OpenState: w.openState, Socket: newWire().listen(),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.agent = begin(a.Run)
	<-a.Ready()
}

// live lets so much time pass.
func (w *world) live(long time.Duration) {
	w.startCoordinator()
	w.startAgent()
	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	launched := make(chan int, crowd)
	for i := range crowd {
		go func() { launched <- w.launch(ctx, rand.New(rand.NewPCG(3, uint64(i)))) }()
	}
	var series []usage
	for ctx.Err() == nil {
		pass(ctx, between(w.random, time.Hour, 4*time.Hour))
		if ctx.Err() == nil {
			series = append(series, w.look())
			w.disturb()
		}
	}
	for range crowd {
		w.made += <-launched
	}
	time.Sleep(2 * tickOfDays) // what has ended by itself is noticed
	w.settled()
	compare(w.t, series)
	w.agent.end(w.t)
	w.client.CloseIdleConnections()
	w.coordinator.end(w.t)
}

// disturb is what happens now and then.
func (w *world) disturb() {
	switch w.random.IntN(3) {
	case 0: // the coordinator is away
		w.coordinator.end(w.t)
		time.Sleep(between(w.random, time.Second, time.Hour))
		w.startCoordinator()
	case 1: // it crashes, for all that anybody sees
		w.wire.cut()
		w.coordinator.end(w.t)
		w.startCoordinator()
	case 2: // the agent starts again
		w.agent.end(w.t)
		time.Sleep(between(w.random, 0, time.Minute))
		w.startAgent()
	}
}

// launch starts one engine after the other until ctx ends, and returns how many.
func (w *world) launch(ctx context.Context, random *rand.Rand) (made int) {
	for ctx.Err() == nil {
		id := w.allocate(ctx, random)
		if id == "" {
			break
		}
		made++
		long := between(random, time.Second, longest)
		released := random.IntN(2) == 0
		pid := w.machine.start(long, random.Int64N(64*mib))
		w.insist(func(ctx context.Context) error {
			_, err := w.api.Confirm(ctx, &bursarv1.ConfirmRequest{Id: id, Process: &bursarv1.Process{Pid: pid}})
			return err //nolint:wrapcheck // tells enough
		})
		time.Sleep(long)
		if released {
			w.insist(func(ctx context.Context) error {
				_, err := w.api.Release(ctx, &bursarv1.ReleaseRequest{Id: id})
				return err //nolint:wrapcheck // tells enough
			})
		}
		pass(ctx, between(random, 0, longest))
	}
	return made
}

// allocate returns the id of a reservation, or nothing when ctx has ended first.
func (w *world) allocate(ctx context.Context, random *rand.Rand) string {
	for ctx.Err() == nil {
		request, cancel := context.WithTimeout(context.Background(), time.Minute)
		res, err := w.api.Allocate(request, &bursarv1.AllocateRequest{
			Labels:   map[string]string{"user": fmt.Sprint("user", random.IntN(10)), "engineType": "soak"},
			Resource: &bursarv1.Resource{MemoryBytes: new(64 * mib)},
		})
		cancel()
		if err == nil {
			return res.GetAllocation().GetId()
		}
		pass(ctx, time.Minute) // nobody leads, or the host has not been heard of yet
	}
	return ""
}

// insist repeats a call until it is answered, or the coordinator says that there is no such
// allocation: a reservation expires while nobody leads.
func (w *world) insist(call func(context.Context) error) {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		err := call(ctx)
		cancel()
		if err == nil || over(err) {
			return
		}
		time.Sleep(time.Minute)
	}
}

// settled checks the ledger when all engines have ended.
func (w *world) settled() {
	w.t.Helper()
	list, err := w.api.List(w.t.Context(), &bursarv1.AllocationServiceListRequest{})
	if err != nil || len(list.GetAllocations()) > 0 {
		w.t.Errorf("left in the ledger: %v, %v", list, err)
	}
	audit, err := w.audit.Audit(w.t.Context(), &bursarv1.AuditRequest{})
	if err != nil || len(audit.GetViolations()) > 0 {
		w.t.Errorf("the ledger: %v, %v", audit, err)
	}
}

// look measures what both servers and their launchers hold.
func (w *world) look() usage {
	w.client.CloseIdleConnections()
	synctest.Wait()
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first has let go of
	runtime.ReadMemStats(&stats)
	return usage{"memory": int64(stats.HeapAlloc), "goroutines": int64(runtime.NumGoroutine())}
}

// pass lets time pass, until ctx ends.
func pass(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

func between(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(most-least)))
}
