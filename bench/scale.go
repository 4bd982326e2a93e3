package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/pause"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

// scale is one coordinator with the largest fleet.
type scale struct {
	*run
	*daemon

	setup    setup
	workload *workload
	hosts    int
	load     *caller
	fleet    *child
	aloneP99 float64 // of Allocate without reports, in microseconds
}

// scaleSuite measures one coordinator with the largest fleet that it is designed for.
func scaleSuite(ctx context.Context, r *run) (err error) {
	w, err := readWorkload("scale")
	if err != nil {
		return err
	}
	s := &scale{run: r, workload: w, hosts: r.size(w.Hosts), setup: setup{dir: filepath.Join(r.dir, "scale"), patient: true}}
	if r.short {
		s.setup.interval = time.Second
	}
	live := r.size(w.Live)
	w.Hosts = s.hosts
	if err := writeStore(ctx, w, live, 0, filepath.Join(s.setup.dir, "bursar.db")); err != nil {
		return err
	}
	address, err := proc.FreeAddress()
	if err != nil {
		return err
	}
	if err := errors.Join(s.steps(live), s.starts(ctx, address, live)); err != nil {
		return err
	}
	if s.daemon, err = r.startAt(ctx, s.setup, address); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if s.load, err = newCaller(address, w); err != nil {
		return err
	}
	defer s.load.client.Close()
	s.fleet, err = r.startChild(ctx, "scale", order{
		Workload: "scale", Hosts: s.hosts, Servers: []string{"http://" + address}, Connections: r.size(w.Many), Own: r.size(w.Members),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.fleet.stop()) }()
	if s.fleet.first.Engines != live {
		return fmt.Errorf("the fleet has %d engines: want %d", s.fleet.first.Engines, live)
	}
	bytes, err := memoryOf(s.pid())
	if err != nil {
		return err
	}
	r.line("scale/reported-rss", float64(bytes)/(1<<20), "MiB", 0)
	for _, step := range []func(context.Context) error{s.audits, s.slices, s.changes, s.load.audit} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// starts measures starts on the store.
func (s *scale) starts(ctx context.Context, address string, live int) error {
	var took, memory, cpu []float64
	for range s.rounds(s.workload.Window) {
		d, err := s.startAt(ctx, s.setup, address)
		if err != nil {
			return err
		}
		bytes, err := memoryOf(d.pid())
		used, cpuErr := cpuTimeOf(d.pid())
		if err = errors.Join(err, cpuErr); err == nil {
			err = expect(ctx, address, live)
		}
		if err := errors.Join(err, d.stop()); err != nil {
			return err
		}
		took, memory, cpu = append(took, d.took.Seconds()), append(memory, float64(bytes)/(1<<20)), append(cpu, used.Seconds())
	}
	s.line("scale/serving", median(took), "s", 0)
	s.line("scale/serving-cpu", median(cpu), "s", 0)
	s.line("scale/rss", median(memory), "MiB", 0)
	return nil
}

// steps measures the longest step of an audit of the ledger alone, in CPU time, which other load on
// the machine hardly changes.
func (s *scale) steps(live int) error {
	w := *s.workload
	w.Batch = 1000
	filled, err := newFilledLedger(&w, s.hosts)
	if err == nil {
		err = filled.fill(live)
	}
	if err != nil {
		return err
	}
	var longest []float64
	for range s.rounds(s.workload.Window) {
		one, err := longestStep(filled.ledger)
		if err != nil {
			return err
		}
		longest = append(longest, one.Seconds()*1000)
	}
	s.line("scale/audit-step-cpu", median(longest), "ms", 0)
	return nil
}

// longestStep returns the CPU time of the longest step of an audit.
func longestStep(l *ledger.Ledger) (longest time.Duration, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := threadTime()
	for range l.AuditSteps() {
		now, failed := threadTime()
		err = errors.Join(err, failed)
		longest, before = max(longest, now-before), now
	}
	return longest, err
}

// audits measures the longest steps of audits.
func (s *scale) audits(ctx context.Context) error {
	var alone, beside, took []float64
	one := func(steps *[]float64) error {
		began := time.Now()
		if err := s.load.audit(ctx); err != nil {
			return err
		}
		took = append(took, time.Since(began).Seconds())
		seconds, err := metric(ctx, s.address, "bursar_audit_longest_step_seconds")
		*steps = append(*steps, 1000*seconds)
		return err
	}
	for range s.rounds(s.workload.Window) {
		if err := one(&alone); err != nil {
			return err
		}
		done := make(chan error, 1)
		go func() {
			_, err := s.fleet.do(order{Beat: s.period(2 * time.Second)})
			done <- err
		}()
		if err := errors.Join(one(&beside), <-done); err != nil {
			return err
		}
	}
	s.line("scale/audit-step", median(alone), "ms", 0)
	s.line("scale/audit-step-max", slices.Max(alone), "ms", 0)
	s.line("scale/audit-step-beside", median(beside), "ms", 0)
	s.line("scale/audit-took", median(took), "s", 0)
	return nil
}

// metric reads one metric without labels.
func metric(ctx context.Context, address, name string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return 0, fmt.Errorf("metrics: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, fmt.Errorf("metrics: %w", err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if text, found := strings.CutPrefix(lines.Text(), name+" "); found {
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return 0, fmt.Errorf("metrics: %s: %w", name, err)
			}
			return value, nil
		}
	}
	return 0, errors.Join(fmt.Errorf("metrics: there is no %s", name), lines.Err())
}

// slices measures the cost of reports, for the coordinator and for callers that allocate.
func (s *scale) slices(ctx context.Context) (err error) {
	alone, beside := &slice{load: true}, &slice{load: true, fleet: true}
	changed, quiet := &slice{fleet: true}, &slice{fleet: true, how: order{Quiet: true}}
	own := &slice{fleet: true, how: order{OverOwn: true, Every: s.workload.Tick}}
	echoing, err := s.startChild(ctx, "echo", order{Echo: "127.0.0.1:0", Every: cmp.Or(s.setup.interval, 10*time.Second)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, echoing.stop()) }()
	aside := order{Aside: true, Echo: echoing.first.Address}
	apart, echoed := &slice{load: true, fleet: true, how: aside}, &slice{fleet: true, how: aside}
	coordinator, echo := s.pid(), echoing.command.Process.Pid
	rounds := s.rounds(s.workload.Rounds)
	if s.short {
		rounds = 1
	}
	for round := range rounds {
		for _, one := range []struct {
			*slice
			server int
		}{{alone, coordinator}, {beside, coordinator}, {apart, coordinator}, {changed, coordinator}, {echoed, echo}, {quiet, coordinator}, {own, coordinator}} {
			if err := one.run(ctx, one.server, s.load, s.fleet, s.workload.Every, s.period(s.workload.Duration), round > 0 || rounds == 1); err != nil {
				return err
			}
		}
	}
	for _, one := range []struct {
		name string
		*slice
	}{{"report", changed}, {"quiet", quiet}, {"own", own}, {"echo", echoed}} {
		s.line("scale/"+one.name+"-cpu", median(one.each()), "µs", median(ratios(one.each(), echoed.each())))
		s.line("scale/"+one.name+"-p50", median(one.syncs), "µs", 0)
	}
	s.line("scale/failed-reports", float64(beside.failed+changed.failed+quiet.failed+own.failed+echoed.failed+apart.failed), "reports", 0)
	s.line("scale/cpu", median(changed.cpu), "% of a core", 0)
	s.line("scale/reports", median(changed.reports), "1/s", 0)
	s.line("scale/report-p99", median(changed.slowest), "µs", 0)
	s.line("scale/p50", median(beside.p50), "µs", median(ratios(beside.p50, alone.p50)))
	s.line("scale/p99", median(beside.p99), "µs", median(ratios(beside.p99, alone.p99)))
	s.line("scale/beside-p50", median(beside.p50), "µs", median(ratios(beside.p50, apart.p50)))
	s.line("scale/beside-p99", median(beside.p99), "µs", median(ratios(beside.p99, apart.p99)))
	s.aloneP99 = median(alone.p99)
	s.line("scale/alone-p50", median(alone.p50), "µs", 0)
	s.line("scale/alone-p99", median(alone.p99), "µs", 0)
	s.line("scale/agents-own-cpu", median(changed.agents), "% of a core", 0)
	return nil
}

// each returns the CPU time per report, in microseconds.
func (s *slice) each() (list []float64) {
	for i := range s.cpu {
		list = append(list, s.cpu[i]*1e4/s.reports[i])
	}
	return list
}

// comeback is the result of one change of leader.
type comeback struct {
	took     float64 // seconds until all hosts were healthy
	full     float64 // full reports in the busiest second
	calls    float64 // all reports in the busiest second
	p50, p99 float64 // of Allocate, in microseconds
}

// changes measures changes of leader.
func (s *scale) changes(ctx context.Context) error {
	var list []comeback
	rounds := s.rounds(s.workload.Handovers)
	if s.short {
		rounds = 1
	}
	for range rounds {
		one, err := s.change(ctx)
		if err != nil {
			return err
		}
		list = append(list, one)
	}
	column := func(of func(comeback) float64) (column []float64) {
		for _, one := range list {
			column = append(column, of(one))
		}
		return column
	}
	s.line("scale/back-all", median(column(func(c comeback) float64 { return c.took })), "s", 0)
	s.line("scale/back-full-most", slices.Max(column(func(c comeback) float64 { return c.full })), "1/s", 0)
	s.line("scale/back-calls-most", slices.Max(column(func(c comeback) float64 { return c.calls })), "1/s", 0)
	s.line("scale/back-p50", median(column(func(c comeback) float64 { return c.p50 })), "µs", 0)
	p99 := median(column(func(c comeback) float64 { return c.p99 }))
	s.line("scale/back-p99", p99, "µs", ratioTo(p99, s.aloneP99))
	return nil
}

// change restarts the coordinator while the fleet reports.
func (s *scale) change(ctx context.Context) (one comeback, err error) {
	if _, err := s.fleet.do(order{Ride: true}); err != nil {
		return one, err
	}
	if !pause.For(s.period(10*time.Second), ctx.Done(), nil) { // they report to the leader first
		return one, ctx.Err()
	}
	stopped := time.Now()
	if err := s.stop(); err != nil {
		return one, err
	}
	if s.daemon, err = s.startAt(ctx, s.setup, s.address); err != nil {
		return one, err
	}
	began := time.Now()
	if err := s.back(ctx, s.hosts/10); err != nil {
		return one, err
	}
	var pairs stopwatch
	var group sync.WaitGroup
	period, cancel := context.WithCancel(ctx)
	group.Go(func() { pace(period, s.workload.Every, func() { pairs.add(s.load.pair(ctx)) }) })
	err = s.back(ctx, s.hosts)
	one.took = time.Since(began).Seconds()
	cancel()
	group.Wait()
	took, failed := pairs.sorted()
	rode, rideErr := s.fleet.do(order{})
	for _, second := range rode.Seconds {
		if second.At.After(stopped) { // no answers came before the next leader
			one.full, one.calls = max(one.full, float64(second.Full)), max(one.calls, float64(second.Reports))
		}
	}
	one.p50, one.p99 = percentile(took, 0.5), percentile(took, 0.99)
	return one, errors.Join(err, failed, rideErr)
}

// back waits until so many hosts are healthy.
func (s *scale) back(ctx context.Context, hosts int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*startTimeout)
	defer cancel()
	return await(ctx, 100*time.Millisecond, func(ctx context.Context) error {
		status, err := s.load.client.Cluster().Status(ctx, &bursarv1.StatusRequest{})
		if err == nil && status.GetHostsHealthy() < int64(hosts) {
			err = fmt.Errorf("%d hosts are healthy: want %d", status.GetHostsHealthy(), hosts)
		}
		return err
	})
}
