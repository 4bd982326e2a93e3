package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
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
// tracker, a client and a connection of its own, and makes real calls at the interval that the
// coordinator answers. Its measurements are made up.
type fleetChild struct {
	agents []*simulated
}

// simulated is an agent of a host that does not exist.
type simulated struct {
	client  *client.Client
	tracker *tracker.Tracker
	engine  resource.Vector // what each of its engines is entitled to
	memory  int64           // of the host, in bytes
	random  *rand.Rand
	// due is the time of the next report, from the start of the next beat.
	due time.Duration
}

// setupWorkers is how many agents are set up at the same time.
const setupWorkers = 16

// do sets the fleet up at the first order, and then makes it report as long as an order says, or
// from the first on until this process ends.
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
	before, err := cpuTime()
	if err != nil {
		return answer{}, err
	}
	var reports stopwatch
	var group sync.WaitGroup
	start := time.Now()
	for _, a := range c.agents {
		group.Go(func() { a.beat(ctx, start, o.Beat, &reports) })
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
	capacity, err := w.Host.vector()
	if err != nil {
		return err
	}
	engine, err := w.Request.vector()
	if err != nil {
		return err
	}
	for i := range o.Hosts {
		c.agents = append(c.agents, &simulated{
			client: client.NewCluster(finder, client.WithoutRetries()),
			tracker: tracker.New(time.Now(), tracker.Host{
				ID: hostName(i), Address: hostName(i) + ":7071", Capacity: convert.VectorToProto(capacity), BootID: "boot", Incarnation: 2,
			}, tracker.Snapshot{}),
			engine: engine, memory: capacity.Memory(), random: rand.New(rand.NewPCG(w.Seed, uint64(i))),
		})
	}
	errs := make([]error, setupWorkers)
	var group sync.WaitGroup
	for n := range setupWorkers {
		group.Go(func() {
			for i := n; i < len(c.agents) && errs[n] == nil; i += setupWorkers {
				errs[n] = c.agents[i].setUp(ctx, w, i)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// setUp makes the host known, with its engines.
func (a *simulated) setUp(ctx context.Context, w *workload, number int) error {
	if err := a.report(ctx); err != nil {
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
	if err := a.report(ctx); err != nil { // it learns of them here
		return err
	}
	if got := len(a.tracker.Engines()); w.Engines > 0 && got != w.Engines {
		return fmt.Errorf("%s has %d engines: want %d", a.tracker.Host().ID, got, w.Engines)
	}
	a.due = time.Duration(a.random.Int64N(int64(a.tracker.Interval())))
	return nil
}

// beat reports whenever a report is due, until the beat is over.
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
		began := time.Now()
		err := a.report(ctx)
		reports.add(time.Since(began), err)
	}
	a.due -= lasts
}

// interval is the time to the next report, varied by a tenth, as the agent varies it.
func (a *simulated) interval() time.Duration {
	return time.Duration(float64(a.tracker.Interval()) * (0.9 + 0.2*a.random.Float64()))
}

// report measures, and makes the calls that an agent makes after a measurement.
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
	return nil
}

// measure makes up what a host and its engines use. Every engine uses between a half and all of
// its entitlement, and another share each time, so that each report has all of them.
func (a *simulated) measure() {
	free := a.memory
	var usages []tracker.Usage
	for _, engine := range a.tracker.Engines() {
		used := a.engine.Memory()/2 + a.random.Int64N(a.engine.Memory()/2)
		free -= used
		usages = append(usages, tracker.Usage{
			ID: engine.ID, PID: engine.Process.GetPid(), StartTime: engine.Process.GetStartTime(),
			MemoryBytes: used, UnreclaimableBytes: used, CPUMillis: a.random.Int64N(1000),
		})
	}
	a.tracker.Measure(time.Now(), tracker.Measurement{Usages: usages, Sample: &bursarv1.HostSample{
		SampleTime: timestamppb.Now(), MemoryTotalBytes: new(a.memory), MemoryAvailableBytes: new(free),
		MemorySafetyBytes: proto.Int64(0), CpuTotalMillis: proto.Int64(32000), CpuUsedMillis: new(a.random.Int64N(32000)),
	}})
}
