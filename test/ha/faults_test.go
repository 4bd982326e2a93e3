//go:build linux

package ha

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/consul"
	"github.com/bursar/bursar/test/proc"
)

// TestEveryFault does to an installation under load what happens to machines, one after the other.
func TestEveryFault(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := newCluster(t, size{coordinators: 3, agents: 50, losesConsul: true}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watching := c.observe(ctx)
	l := c.startLoad(seed)
	l.startLaunchers()
	l.startGateways()
	l.startRace()
	l.probe()
	for _, fault := range []fault{
		{"nothing at all", func(l *load) { wait(t.Context(), 5*time.Second) }},
		{"the leader is killed", (*load).leaderKilled},
		{"the leader stands still and goes on", (*load).leaderStopped},
		{"the leader is cut off from Consul", (*load).leaderWithoutConsul},
		{"the leader is cut off from PostgreSQL", (*load).leaderWithoutStore},
		{"the leader is cut off from the agents", (*load).leaderWithoutAgents},
		{"the leader is cut off from everything", (*load).leaderAlone},
		{"Consul restarts", (*load).consulRestarts},
		{"Consul loses its leader", (*load).consulLosesLeader},
		{"PostgreSQL restarts without warning", (*load).storeRestarts},
		{"PostgreSQL stands still for 5 s", (*load).storeStops},
		{"the coordinators restart one by one", (*load).coordinatorsRestart},
		{"the agents restart", (*load).agentsRestart},
	} {
		l.survives(fault)
		if err := watching.found(); err != nil {
			t.Fatalf("after: %s: %v", fault.name, err)
		}
	}
	l.finish(span{})
	cancel()
	watching.running.Wait()
	if err := watching.found(); err != nil {
		t.Error(err)
	}
	t.Logf("%d grants seen one by one, in %d parts; epochs %v", watching.grants, watching.begins, watching.epochs)
}

// fault is something that happens to the machines or to the wires between them.
type fault struct {
	name string
	do   func(*load)
}

// survives causes the fault, waits until all is as before, compares all ledgers, and logs for how
// long nobody was granted anything.
func (l *load) survives(f fault) {
	l.t.Helper()
	began := time.Now()
	f.do(l)
	l.recovered()
	pause := l.book.pause(began)
	l.check()
	if l.t.Failed() {
		l.t.Fatalf("after: %s", f.name)
	}
	l.t.Logf("%-40s longest pause %6.2f s, in all %5.1f s, epoch %d", f.name, pause.Seconds(), time.Since(began).Seconds(), l.epoch())
}

// probes is how many agents probe at a time: fewer than a user may have instances.
const probes = userInstances - 2

// probe has every agent allocate and release once.
func (l *load) probe() {
	l.t.Helper()
	var group errgroup.Group
	group.SetLimit(probes)
	for _, h := range l.hosts {
		group.Go(func() error {
			return proc.Await(patience, pollEvery, "an allocation through "+h.id, func() error { return h.probe(l.t.Context()) })
		})
	}
	l.must(group.Wait())
}

func (h *host) probe(ctx context.Context) error {
	one := int64(1)
	res, err := h.local.Allocations().Allocate(ctx, &bursarv1.AllocateRequest{
		RequestId: client.NewRequestID(), Labels: map[string]string{"user": "probe"}, Resource: &bursarv1.Resource{CpuMillis: &one},
		Wait: durationpb.New(time.Second),
	})
	if err != nil {
		return err
	}
	_, err = h.local.Allocations().Release(ctx, &bursarv1.ReleaseRequest{Id: res.GetAllocation().GetId()})
	return err
}

// recovered waits until everything is as it was: a leader, coordinators that answer, healthy
// hosts, and allocations through each.
func (l *load) recovered() {
	l.t.Helper()
	l.leader()
	l.awaitMembers()
	l.awaitHosts()
	l.probe()
}

func (l *load) leaderKilled() {
	leader := l.leader()
	leader.Kill()
	l.leaderBut(leader)
	l.probe()
	leader.Start()
}

// leaderStopped: the old leader must not answer from the past what it was asked while it was
// stopped, and must not grant it.
func (l *load) leaderStopped() {
	leader := l.leader()
	one := int64(1)
	res, err := l.admin.Allocations().Allocate(l.t.Context(), &bursarv1.AllocateRequest{
		RequestId: client.NewRequestID(), Labels: map[string]string{"user": "probe"}, Resource: &bursarv1.Resource{CpuMillis: &one},
	})
	if err != nil {
		l.t.Fatal(err)
	}
	id := res.GetAllocation().GetId()
	leader.Signal(syscall.SIGSTOP)
	l.leaderBut(leader)
	if _, err := l.admin.Allocations().Release(l.t.Context(), &bursarv1.ReleaseRequest{Id: id}); err != nil {
		l.t.Fatal(err)
	}
	// These wait in its sockets when it continues, before anybody can have told it.
	var asked atomic.Int64
	states := make(chan bursarv1.AllocationState, 8)
	for range cap(states) {
		go func() {
			ctx, cancel := context.WithTimeout(l.t.Context(), patience)
			defer cancel()
			asked.Add(1)
			res, err := leader.direct.Allocations().Get(ctx, &bursarv1.AllocationServiceGetRequest{Id: id})
			if err != nil {
				states <- 0
				return
			}
			states <- res.GetAllocation().GetState()
		}()
	}
	eventually(l.t, "everybody has asked", func() error {
		if n := asked.Load(); n < int64(cap(states)) {
			return fmt.Errorf("%d of %d", n, cap(states))
		}
		return nil
	})
	leader.Signal(syscall.SIGCONT)
	for range cap(states) {
		if state := <-states; state != 0 && state != released {
			l.t.Errorf("a leader that stood still says of a released allocation that it is %s", state)
		}
	}
}

func (l *load) leaderWithoutConsul() {
	leader := l.leader()
	for _, m := range l.members {
		l.must(l.lab.Cut(leader.node, m.consul))
	}
	l.leaderBut(leader)
	l.probe()
	l.must(l.lab.Heal())
}

func (l *load) leaderWithoutStore() {
	leader := l.leader()
	l.must(l.lab.Cut(leader.node, l.lab.Node("postgres")))
	l.leaderBut(leader)
	l.probe()
	l.must(l.lab.Heal())
}

// leaderWithoutAgents: it keeps leading, and the others pass on what agents ask.
func (l *load) leaderWithoutAgents() {
	leader := l.leader()
	l.must(l.lab.Cut(leader.node, l.lab.Node("hosts-1")))
	l.must(l.lab.Cut(leader.node, l.lab.Node("hosts-2")))
	l.probe()
	l.must(l.lab.Heal())
}

func (l *load) leaderAlone() {
	leader := l.leader()
	l.must(l.lab.CutAll(leader.node, leader.consul))
	l.must(l.lab.CutAll(leader.consul, leader.node))
	l.leaderBut(leader)
	l.probe()
	l.must(l.lab.Heal())
}

// consulRestarts: no coordinator can be sure that no other leads. So nobody leads until Consul is
// back.
func (l *load) consulRestarts() {
	for _, s := range l.consuls {
		s.Kill()
	}
	eventually(l.t, "nobody leads without Consul", func() error {
		for _, m := range l.members {
			ctx, cancel := context.WithTimeout(l.t.Context(), time.Second)
			status, err := m.direct.Cluster().Status(ctx, &bursarv1.StatusRequest{AllowStale: true})
			cancel()
			if err != nil || status.GetIsLeader() {
				return errors.Join(fmt.Errorf("%s: %v", m.Name, status), err)
			}
		}
		return nil
	})
	l.restart(l.consuls...)
}

// restart starts Consul servers that need each other.
func (l *load) restart(servers ...*consul.Server) {
	l.t.Helper()
	var group errgroup.Group
	for _, s := range servers {
		group.Go(func() error { return s.Restart(l.t.Context()) })
	}
	l.must(group.Wait())
}

func (l *load) consulLosesLeader() {
	var leader *consul.Server
	eventually(l.t, "Consul has a leader, and can lose it", func() error {
		asked, err := l.consuls[0].Client()
		if err != nil {
			return err
		}
		address, err := asked.Status().Leader()
		if err != nil {
			return err
		}
		// A server that was away votes again only after a while.
		health, err := asked.Operator().AutopilotServerHealth(nil)
		if err != nil {
			return err
		}
		if health.FailureTolerance < 1 {
			return fmt.Errorf("without it Consul has none: %+v", health.Servers)
		}
		for i, s := range l.consuls {
			if strings.HasPrefix(address, l.members[i].consul.Address.String()+":") {
				leader = s
				return nil
			}
		}
		return fmt.Errorf("%q", address)
	})
	leader.Kill()
	l.probe()
	l.restart(leader)
}

func (l *load) storeRestarts() {
	l.inDatabase(func() error {
		return errors.Join(l.database.Stop(syscall.SIGQUIT), l.database.Start(l.t.Context()))
	})
}

func (l *load) storeStops() {
	l.must(l.database.Pause())
	wait(l.t.Context(), 5*time.Second)
	l.must(l.database.Continue())
}

// coordinatorsRestart: each hands over what it has.
func (l *load) coordinatorsRestart() {
	for _, m := range l.members {
		m.Stop(patience)
		l.probe()
		m.Start()
		l.awaitMembers()
	}
}

// agentsRestart: ten at a time; the engines go on.
func (l *load) agentsRestart() {
	for some := range slices.Chunk(l.hosts, 10) {
		for _, h := range some {
			h.Signal(syscall.SIGTERM)
		}
		for _, h := range some {
			if code := h.Wait(patience); code != 0 {
				l.t.Errorf("%s ended with code %d", h.id, code)
			}
		}
		for _, h := range some {
			h.Start()
		}
		l.awaitHosts()
	}
}
