package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/bursar/bursar/internal/pause"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// failover is a cluster whose leader is ended repeatedly.
type failover struct {
	*team

	workload  *workload
	launchers *launchers
	live      int
	hosts     int
	random    *rand.Rand
	log       func(format string, arguments ...any)
}

// loss is the result of one loss of a leader: times from the signal on, in seconds.
type loss struct {
	elected float64 // until another leader was seen
	granted float64 // until the next Allocate was granted
	fleet   float64 // until every host has reported again
	// longest is the longest call of the round, from its own beginning.
	longest float64
	failed  int // calls that the client gave up
}

// failoverSuite measures row 8 of the budgets.
func failoverSuite(ctx context.Context, r *run) (err error) {
	name := "failover"
	if r.full {
		name = "failover-full"
	}
	w, err := readWorkload(name)
	if err != nil {
		return err
	}
	live := r.size(w.Live)
	t, err := r.startTeam(ctx, w.Members, setup{}, func(store string) error { return writeStore(ctx, w, live, r.size(w.Remembered), store) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.stop()) }()
	fleet, err := r.startChild(ctx, "fleet", order{Workload: name, Hosts: w.Hosts, Connections: w.Many, Consul: t.consul.Address, Ride: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fleet.stop()) }()
	if fleet.first.Engines != live {
		return fmt.Errorf("the fleet has %d engines: want %d", fleet.first.Engines, live)
	}
	agent, err := r.startAgent(ctx, filepath.Join(r.dir, "failover"), fmt.Sprintf("consul: {address: %q}", t.consul.Address), t.client, w.Tick)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, agent.stop()) }()
	l, err := newLaunchers(agent.address, w)
	if err != nil {
		return err
	}
	defer l.client.Close()
	f := &failover{
		team: t, workload: w, launchers: l, live: live, hosts: w.Hosts + 1, random: rand.New(rand.NewPCG(w.Seed, 0)),
		log: func(format string, arguments ...any) { fmt.Fprintf(r.log, format, arguments...) },
	}
	failed := 0
	for _, way := range []struct {
		name   string
		signal syscall.Signal
		rounds int
	}{{"kill", syscall.SIGKILL, w.Rounds}, {"handover", syscall.SIGTERM, w.Handovers}} {
		if r.short {
			way.rounds = min(way.rounds, 5)
		}
		var losses []loss
		for round := range way.rounds {
			one, err := f.round(ctx, way.signal)
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", way.name, round+1, err)
			}
			f.log("%s %d: elected after %.3f s, granted after %.3f s, all hosts after %.3f s, longest call %.3f s, failed calls %d\n",
				way.name, round+1, one.elected, one.granted, one.fleet, one.longest, one.failed)
			losses = append(losses, one)
		}
		failed += r.losses("failover/"+way.name, losses)
	}
	if failed > 0 { // a slow machine is no excuse
		return fmt.Errorf("%d calls failed: want none", failed)
	}
	return nil
}

// losses prints the results of all rounds of a kind, and returns the number of failed calls.
func (r *run) losses(name string, losses []loss) (failed int) {
	column := func(of func(loss) float64) (list []float64) {
		for _, one := range losses {
			list = append(list, of(one))
		}
		return list
	}
	granted := column(func(l loss) float64 { return l.granted })
	r.line(name+"-max", slices.Max(granted), "s", 0)
	r.line(name+"-median", median(granted), "s", 0)
	elected := column(func(l loss) float64 { return l.elected })
	r.line(name+"-elected-median", median(elected), "s", 0)
	r.line(name+"-elected-max", slices.Max(elected), "s", 0)
	r.line(name+"-hosts-median", median(column(func(l loss) float64 { return l.fleet })), "s", 0)
	r.line(name+"-longest-call", slices.Max(column(func(l loss) float64 { return l.longest })), "s", 0)
	for _, one := range losses {
		failed += one.failed
	}
	r.line(name+"-failed-calls", float64(failed), "calls", 0)
	return failed
}

// round ends the leader and measures the effect on the launchers.
func (f *failover) round(ctx context.Context, signal syscall.Signal) (one loss, err error) {
	leader, _, err := f.leader(ctx, nil)
	if err != nil {
		return one, err
	}
	asking, rest := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { pace(asking, f.workload.Every, func() { f.launchers.ask(ctx) }) })
	defer group.Wait()
	defer rest()
	if !pause.For(time.Duration(float64(f.workload.RunIn)*(0.5+f.random.Float64())), ctx.Done(), nil) {
		return one, err
	}
	ended := time.Now()
	if err := leader.command.Process.Signal(signal); err != nil {
		return one, fmt.Errorf("end the leader: %w", err)
	}
	successor, seen, err := f.leader(ctx, leader)
	if err != nil {
		return one, err
	}
	one.elected = seen.Sub(ended).Seconds()
	granted, err := f.launchers.answeredAfter(ctx, seen)
	if err != nil {
		return one, err
	}
	one.granted = granted.Sub(ended).Seconds()
	if err := f.healthy(ctx, successor); err != nil {
		return one, err
	}
	one.fleet = time.Since(ended).Seconds()
	if !pause.For(f.workload.RunOut, ctx.Done(), nil) {
		return one, err
	}
	rest()
	group.Wait()
	calls := f.launchers.take()
	for _, c := range calls {
		one.longest = max(one.longest, c.ended.Sub(c.began).Seconds())
	}
	if one.failed, err = f.launchers.retryFailed(ctx, calls); err != nil {
		return one, err
	}
	return one, errors.Join(f.verify(ctx, successor, calls), f.launchers.release(ctx, calls), f.revive(ctx, leader))
}

// healthy waits until the new leader has a report of every host.
func (f *failover) healthy(ctx context.Context, leader *member) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return await(ctx, 20*time.Millisecond, func(ctx context.Context) error {
		status, err := leader.client.Cluster().Status(ctx, &bursarv1.StatusRequest{})
		if err == nil && status.GetHostsHealthy() != int64(f.hosts) {
			err = fmt.Errorf("%d hosts are healthy: want %d", status.GetHostsHealthy(), f.hosts)
		}
		return err
	})
}

// verify compares the grants of the launchers, and the allocations from before, with the ledger of
// the new leader.
func (f *failover) verify(ctx context.Context, leader *member, calls []call) error {
	status, err := leader.client.Cluster().Status(ctx, &bursarv1.StatusRequest{})
	if err != nil {
		return fmt.Errorf("status: %w", err)
	}
	if status.GetActive() != int64(f.live) {
		err = fmt.Errorf("%d active allocations: want the %d that were there", status.GetActive(), f.live)
	}
	audit, auditErr := leader.client.Cluster().Audit(ctx, &bursarv1.AuditRequest{})
	if found := audit.GetViolations(); len(found) > 0 {
		auditErr = fmt.Errorf("%d violations of the ledger, the first: %s", len(found), found[0].GetMessage())
	}
	return errors.Join(err, auditErr, f.launchers.compare(ctx, leader.client, calls))
}

// revive restarts a coordinator after its end, and waits until it has a copy or leads.
func (f *failover) revive(ctx context.Context, m *member) error {
	_ = m.command.Wait() // how it ended is known
	m.daemon = nil
	if err := f.start(ctx, m); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return await(ctx, 100*time.Millisecond, func(ctx context.Context) error {
		copied, copyErr := metric(ctx, m.address, "bursar_standby_copy")
		leads, leadErr := metric(ctx, m.address, "bursar_leading")
		if copied+leads == 0 {
			return errors.Join(errors.New("it neither leads nor has a copy of the ledger"), copyErr, leadErr)
		}
		return nil
	})
}
