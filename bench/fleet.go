package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"
)

// slice is the result of a part of the time: with only the load, with only the fleet, or with both.
type slice struct {
	load, fleet bool
	how         order // the order of the fleet's reports, without their duration

	cpu      []float64 // of the server, in percent of a core
	p50, p99 []float64 // of Allocate, in microseconds
	// own is the load's CPU time in this process, in percent of a core.
	own     []float64
	agents  []float64 // CPU time of the fleet's process, in percent of a core
	reports []float64 // per second
	failed  int       // failed reports of all rounds
	syncs   []float64 // p50 of a report, in microseconds
	slowest []float64 // p99 of a report
}

// fleetSuite measures the cost of many hosts' reports for a coordinator, and for callers that
// allocate at the same time.
func fleetSuite(ctx context.Context, r *run) (err error) {
	w, err := readWorkload("fleet")
	if err != nil {
		return err
	}
	coordinator, err := r.startAlone(ctx, setup{dir: filepath.Join(r.dir, "fleet")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, coordinator.stop()) }()
	load, err := newCaller(coordinator.address, w)
	if err != nil {
		return err
	}
	defer load.client.Close()
	if err := setRules(ctx, load.client, w); err != nil {
		return err
	}
	fleet, err := r.startChild(ctx, "fleet", order{Workload: "fleet", Hosts: r.size(w.Hosts), Servers: []string{"http://" + coordinator.address}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fleet.stop()) }()
	alone, beside, idle := &slice{load: true}, &slice{load: true, fleet: true}, &slice{fleet: true}
	for round := range r.rounds(w.Rounds) {
		for _, s := range []*slice{alone, beside, idle} {
			if err := s.run(ctx, coordinator.pid(), load, fleet, w.Every, r.period(w.Duration), round > 0); err != nil {
				return err
			}
		}
	}
	bytes, err := memoryOf(coordinator.pid())
	if err != nil {
		return err
	}
	r.line("fleet/cpu", median(idle.cpu), "% of a core", 0)
	r.line("fleet/rss", float64(bytes)/(1<<20), "MiB", 0)
	r.line("fleet/reports", median(idle.reports), "1/s", 0)
	r.line("fleet/report-p50", median(idle.syncs), "µs", 0)
	r.line("fleet/report-p99", median(idle.slowest), "µs", 0)
	r.line("fleet/p50", median(beside.p50), "µs", median(ratios(beside.p50, alone.p50)))
	r.line("fleet/p99", median(beside.p99), "µs", median(ratios(beside.p99, alone.p99)))
	r.line("fleet/alone-p50", median(alone.p50), "µs", 0)
	r.line("fleet/alone-p99", median(alone.p99), "µs", 0)
	r.line("fleet/alone-cpu", median(alone.cpu), "% of a core", 0)
	r.line("fleet/beside-cpu", median(beside.cpu), "% of a core", 0)
	r.line("fleet/load-own-cpu", median(beside.own), "% of a core", 0)
	r.line("fleet/agents-own-cpu", median(beside.agents), "% of a core", 0)
	return load.audit(ctx)
}

// run measures a slice, including the CPU time of the server with this pid. It keeps the result
// unless the slice is a warm-up.
func (s *slice) run(ctx context.Context, server int, load *caller, fleet *child, every, lasts time.Duration, keep bool) error {
	before, err := cpuTimeOf(server)
	if err != nil {
		return err
	}
	own, err := cpuTime()
	if err != nil {
		return err
	}
	began := time.Now()
	period, cancel := context.WithTimeout(ctx, lasts)
	defer cancel()
	var pairs stopwatch
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		if s.load {
			pace(period, every, func() { pairs.add(load.pair(ctx)) })
		} else {
			<-period.Done()
		}
	}()
	var reported answer
	if s.fleet {
		how := s.how
		how.Beat = lasts
		reported, err = fleet.do(how)
	}
	<-loaded
	took, failed := pairs.sorted()
	if err := errors.Join(err, failed, ctx.Err()); err != nil {
		return err
	}
	elapsed := time.Since(began).Seconds()
	s.failed += reported.Failed
	after, err := cpuTimeOf(server)
	if err != nil {
		return err
	}
	ownAfter, err := cpuTime()
	if err != nil || !keep {
		return err
	}
	s.cpu = append(s.cpu, 100*(after-before).Seconds()/elapsed)
	s.p50, s.p99 = append(s.p50, percentile(took, 0.5)), append(s.p99, percentile(took, 0.99))
	s.own = append(s.own, 100*(ownAfter-own).Seconds()/elapsed)
	s.agents = append(s.agents, 100*reported.CPU.Seconds()/elapsed)
	s.reports = append(s.reports, float64(reported.Reports)/elapsed)
	s.syncs, s.slowest = append(s.syncs, reported.P50), append(s.slowest, reported.P99)
	return nil
}
