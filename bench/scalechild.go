package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/discovery"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// scaleChild is a process with so many agents that they share connections.
type scaleChild struct {
	finder discovery.Finder
	agents []*simulated
	// connections is the number of shared connections.
	connections int
	own         []*client.Client // of the first agents
	aside       []*client.Client // to the echo, as many as to the coordinator; made on demand
	failed      atomic.Int64     // failed reports since the last order

	ride  *ride // nil: there is no ride
	group sync.WaitGroup
}

// second counts the answered reports of agents in a second.
type second struct {
	At            time.Time // its beginning
	Reports, Full int
}

// ride counts the reports of agents that report until it ends.
type ride struct {
	end func()

	mu      sync.Mutex
	began   time.Time
	seconds []second // guarded by mu
}

func (r *ride) note(request *bursarv1.SyncRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for at := int(time.Since(r.began) / time.Second); len(r.seconds) <= at; {
		r.seconds = append(r.seconds, second{At: r.began.Add(time.Duration(len(r.seconds)) * time.Second)})
	}
	last := &r.seconds[len(r.seconds)-1]
	if last.Reports++; request.GetFull() {
		last.Full++
	}
}

// do sets up the fleet at the first order. Later it makes agents report, for a time or until the
// next order.
func (c *scaleChild) do(ctx context.Context, o order) (answer, error) {
	switch {
	case c.agents == nil:
		return c.setUp(ctx, o)
	case o.Ride:
		c.begin(ctx)
		return answer{}, nil
	case c.ride != nil:
		return c.end(), nil
	}
	agents := c.agents
	if o.Aside {
		back, err := c.aim(o.Echo)
		if err != nil {
			return answer{}, err
		}
		defer back()
	}
	if o.OverOwn {
		agents = agents[:len(c.own)]
		defer c.overOwn(agents, o.Every)()
	}
	for _, a := range agents {
		a.quiet, a.failed = o.Quiet, &c.failed
	}
	beat, err := beatAll(ctx, agents, o.Beat)
	beat.Failed = int(c.failed.Swap(0))
	return beat, err
}

// setUp makes the agents, and makes them report until they know their engines.
func (c *scaleChild) setUp(ctx context.Context, o order) (answer, error) {
	debug.SetGCPercent(400) // 10,000 agents share one collector, whose work no real host has
	w, err := readWorkload(o.Workload)
	if err != nil {
		return answer{}, err
	}
	if c.finder, err = discovery.Static(o.Servers); err != nil {
		return answer{}, fmt.Errorf("scale: %w", err)
	}
	c.connections = o.Connections
	if c.agents, err = newAgents(w, o, c.finder); err != nil {
		return answer{}, err
	}
	for range o.Own {
		c.own = append(c.own, client.NewCluster(c.finder, client.WithoutRetries()))
	}
	err = setUpAll(ctx, w, c.agents)
	var a answer
	for _, agent := range c.agents {
		a.Engines += len(agent.tracker.Engines())
	}
	return a, err
}

// overOwn gives agents their own connections, until the returned function is called.
func (c *scaleChild) overOwn(agents []*simulated, every time.Duration) (back func()) {
	shared := make([]simulated, len(agents))
	for i, a := range agents {
		shared[i] = simulated{client: a.client, lane: a.lane}
		a.client, a.lane, a.every = c.own[i], nil, every
		a.due = time.Duration(a.random.Int64N(int64(every)))
	}
	return func() {
		for i, a := range agents {
			a.client, a.lane, a.every = shared[i].client, shared[i].lane, 0
			a.due = time.Duration(a.random.Int64N(int64(a.tracker.Interval())))
		}
	}
}

// aim makes the agents report to an echo, until the returned function is called.
func (c *scaleChild) aim(address string) (back func(), err error) {
	if c.aside == nil {
		echo, err := discovery.Static([]string{"http://" + address})
		if err != nil {
			return nil, fmt.Errorf("scale: %w", err)
		}
		for range c.connections {
			c.aside = append(c.aside, client.NewCluster(echo, client.WithoutRetries()))
		}
	}
	before := make([]*client.Client, len(c.agents))
	for i, a := range c.agents {
		before[i], a.client = a.client, c.aside[i%len(c.aside)]
	}
	return func() {
		for i, a := range c.agents {
			a.client = before[i]
		}
	}, nil
}

// begin makes all agents report until end.
func (c *scaleChild) begin(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	c.ride = &ride{end: cancel, began: time.Now()}
	for _, a := range c.agents {
		a.note = c.ride.note
		c.group.Go(func() { a.ride(ctx, c.finder) })
	}
}

func (c *scaleChild) end() answer {
	c.ride.end()
	c.group.Wait()
	seconds := c.ride.seconds
	c.ride = nil
	for _, a := range c.agents {
		a.note = nil
		a.due = time.Duration(a.random.Int64N(int64(a.tracker.Interval())))
	}
	return answer{Seconds: seconds}
}
