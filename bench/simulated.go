package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/discovery"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/resource"
)

// fleetChild is a process with the agents of many hosts that do not exist. Each has the product's
// tracker, and makes real calls at the coordinator's interval. Its measurements are invented.
type fleetChild struct {
	agents []*simulated
}

// simulated is an agent of a host that does not exist.
type simulated struct {
	client  *client.Client
	tracker *tracker.Tracker
	engine  resource.Vector // entitlement of each of its engines
	memory  int64           // of the host, in bytes
	random  *rand.Rand
	// due is the time of the next report, from the start of the next beat.
	due time.Duration

	lane  *sync.Mutex                 // held during a report; nil: the client is not shared
	every time.Duration               // between two reports; 0: the coordinator's interval
	quiet bool                        // its engines keep their usage
	used  []int64                     // by each engine, in bytes
	note  func(*bursarv1.SyncRequest) // called for each answered report; nil: none
	// failed counts failed reports, which are repeated at the next interval; nil: a failed report
	// ends the suite.
	failed *atomic.Int64
}

// setupWorkers is the number of agents that are set up at the same time.
const setupWorkers = 16

// do sets up the fleet at the first order, and then makes it report for the time of an order, or
// from the first order until this process ends.
func (c *fleetChild) do(ctx context.Context, o order) (answer, error) {
	if c.agents == nil {
		finder, err := find(ctx, o)
		if err == nil {
			err = c.setUp(ctx, o, finder)
		}
		engines := 0
		for _, a := range c.agents {
			engines += len(a.tracker.Engines())
			if o.Ride && err == nil {
				go a.ride(ctx, finder)
			}
		}
		return answer{Engines: engines}, err
	}
	return beatAll(ctx, c.agents, o.Beat)
}

// beatAll makes agents report for a time.
func beatAll(ctx context.Context, agents []*simulated, lasts time.Duration) (answer, error) {
	before, err := cpuTime()
	if err != nil {
		return answer{}, err
	}
	var reports stopwatch
	var group sync.WaitGroup
	start := time.Now()
	for _, a := range agents {
		group.Go(func() { a.beat(ctx, start, lasts, &reports) })
	}
	group.Wait()
	took, err := reports.sorted()
	if err != nil {
		return answer{}, err
	}
	after, err := cpuTime()
	return answer{CPU: after - before, Reports: len(took), P50: percentile(took, 0.5), P99: percentile(took, 0.99)}, err
}

// setUp registers every host and starts its engines.
func (c *fleetChild) setUp(ctx context.Context, o order, finder discovery.Finder) error {
	w, err := readWorkload(o.Workload)
	if err != nil {
		return err
	}
	if c.agents, err = newAgents(w, o, finder); err != nil {
		return err
	}
	return setUpAll(ctx, w, c.agents)
}

// newAgents makes the agents of an order, each with its own connection, or with shared connections
// if the order sets a number.
func newAgents(w *workload, o order, finder discovery.Finder) ([]*simulated, error) {
	clients := make([]*client.Client, cmp.Or(o.Connections, o.Hosts))
	for i := range clients {
		clients[i] = client.NewCluster(finder, client.WithoutRetries())
	}
	lanes, agents := make([]sync.Mutex, o.Connections), make([]*simulated, o.Hosts)
	for i := range agents {
		var err error
		if agents[i], err = newSimulated(w, i, clients[i%len(clients)]); err != nil {
			return nil, err
		}
		if len(lanes) > 0 {
			agents[i].lane = &lanes[i%len(lanes)]
		}
	}
	return agents, nil
}

// newSimulated makes the agent of a host of the workload.
func newSimulated(w *workload, number int, calls *client.Client) (*simulated, error) {
	capacity, err := w.Host.vector()
	if err != nil {
		return nil, err
	}
	engine, err := w.Request.vector()
	return &simulated{
		client: calls,
		tracker: tracker.New(time.Now(), tracker.Host{
			ID: hostName(number), Address: hostName(number) + ":7071", Capacity: convert.VectorToProto(capacity), BootID: "boot", Incarnation: 2,
		}, tracker.Snapshot{}),
		engine: engine, memory: capacity.Memory(), random: rand.New(rand.NewPCG(w.Seed, uint64(number))), //nolint:gosec // a number
	}, err
}

// setUpAll registers all hosts, a few at a time.
func setUpAll(ctx context.Context, w *workload, agents []*simulated) error {
	errs := make([]error, setupWorkers)
	var group sync.WaitGroup
	for n := range setupWorkers {
		group.Go(func() {
			for i := n; i < len(agents) && errs[n] == nil; i += setupWorkers {
				errs[n] = agents[i].setUp(ctx, w, i)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// setUp registers the host, and starts its engines.
func (a *simulated) setUp(ctx context.Context, w *workload, number int) error {
	if _, err := a.timed(ctx); err != nil {
		return err
	}
	for i := range w.Engines {
		res, err := a.client.Allocations().Allocate(ctx, &bursarv1.AllocateRequest{
			Labels: w.labels(number*w.Engines + i), Resource: convert.VectorToProto(a.engine), Host: &bursarv1.HostWishes{Id: a.tracker.Host().ID},
		})
		if err != nil {
			return fmt.Errorf("an engine: %w", err)
		}
		if _, err := a.client.Allocations().Confirm(ctx, &bursarv1.ConfirmRequest{
			Id: res.GetAllocation().GetId(), Process: &bursarv1.Process{Pid: int32(1000 + i), StartTime: 1, BootId: "boot"},
		}); err != nil {
			return fmt.Errorf("an engine: %w", err)
		}
	}
	if _, err := a.timed(ctx); err != nil { // this report returns the engines
		return err
	}
	if got := len(a.tracker.Engines()); w.Engines > 0 && got != w.Engines {
		return fmt.Errorf("%s has %d engines: want %d", a.tracker.Host().ID, got, w.Engines)
	}
	a.due = time.Duration(a.random.Int64N(int64(a.tracker.Interval())))
	return nil
}

// beat makes reports when they are due, until the beat is over.
func (a *simulated) beat(ctx context.Context, start time.Time, lasts time.Duration, reports *stopwatch) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ; a.due < lasts; a.due += a.interval() {
		timer.Reset(time.Until(start.Add(a.due)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		took, err := a.timed(ctx)
		if err != nil && a.failed != nil {
			a.failed.Add(1)
			continue
		}
		reports.add(took, err)
	}
	a.due -= lasts
}

// timed reports, and returns the duration.
func (a *simulated) timed(ctx context.Context) (time.Duration, error) {
	defer a.takeLane()()
	began := time.Now()
	err := a.report(ctx)
	return time.Since(began), err
}

// takeLane waits until no other agent reports over the agent's connection. The returned function
// frees the connection.
func (a *simulated) takeLane() (leave func()) {
	if a.lane == nil {
		return func() {}
	}
	a.lane.Lock()
	return a.lane.Unlock
}

// interval returns the time to the next report: set by a new leader, or the usual one, varied by a
// tenth like the agent's.
func (a *simulated) interval() time.Duration {
	if after := a.tracker.ResyncAfter(); after > 0 {
		return after
	}
	return time.Duration(float64(cmp.Or(a.every, a.tracker.Interval())) * (0.9 + 0.2*a.random.Float64()))
}

// report measures, and makes the calls of an agent after a measurement.
func (a *simulated) report(ctx context.Context) error {
	a.measure()
	if a.tracker.NeedsRegister() {
		registered, err := a.client.Hosts().Register(ctx, a.tracker.BuildRegister())
		if err == nil {
			err = a.tracker.Registered(registered)
		}
		if err != nil {
			return fmt.Errorf("register %s: %w", a.tracker.Host().ID, err)
		}
	}
	request := a.tracker.BuildSync(time.Now())
	response, err := a.client.Hosts().Sync(ctx, request)
	if err == nil {
		_, err = a.tracker.Answer(time.Now(), request, response)
	}
	if err != nil {
		return fmt.Errorf("sync %s: %w", a.tracker.Host().ID, err)
	}
	if a.note != nil {
		a.note(request)
	}
	return nil
}

// measure invents the usage of a host and its engines. Every engine uses between a half and all of
// its entitlement, and another share each time, so that each report includes all of them. The
// engines of a quiet host keep their shares.
func (a *simulated) measure() {
	free := a.memory
	var usages []tracker.Usage
	engines := a.tracker.Engines()
	if !a.quiet || len(a.used) != len(engines) {
		a.used = make([]int64, len(engines))
		for i := range a.used {
			a.used[i] = a.engine.Memory()/2 + a.random.Int64N(a.engine.Memory()/2)
		}
	}
	for i, engine := range engines {
		used := a.used[i]
		free -= used
		usages = append(usages, tracker.Usage{
			ID: engine.ID, PID: engine.Process.GetPid(), StartTime: engine.Process.GetStartTime(),
			MemoryBytes: used, UnreclaimableBytes: used, CPUMillis: 1 + used%1000,
		})
	}
	a.tracker.Measure(time.Now(), tracker.Measurement{Usages: usages, Sample: &bursarv1.HostSample{
		SampleTime: timestamppb.Now(), MemoryTotalBytes: new(a.memory), MemoryAvailableBytes: new(free),
		MemorySafetyBytes: proto.Int64(0), CpuTotalMillis: proto.Int64(32000), CpuUsedMillis: new(a.random.Int64N(32000)),
	}})
}
