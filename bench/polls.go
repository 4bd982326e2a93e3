package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
	"github.com/bursar/bursar/resource"
)

// polling is a coordinator with a ResourceManager to read.
type polling struct {
	*run

	workload    *workload
	coordinator *daemon
	manager     *child
	load        *caller
}

// afterwards is how long the coordinator may still work on an answer after its end.
const afterwards = 100 * time.Millisecond

// polls measures the cost of reading a cluster for a coordinator, and for callers of other
// requests.
func (r *run) polls(ctx context.Context, w *workload) (err error) {
	p := &polling{run: r, workload: w}
	if p.coordinator, err = r.startCoordinator(ctx, filepath.Join(r.dir, "queues"), never); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.coordinator.stop()) }()
	if p.manager, err = r.startChild(ctx, "resourcemanager", order{Queues: w.Polled}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.manager.stop()) }()
	if p.load, err = newCaller(p.coordinator.address, w); err != nil {
		return err
	}
	defer p.load.client.Close()
	if err := populate(ctx, p.load.client, w); err != nil {
		return err
	}
	for _, clients := range w.Clients {
		if err := p.besides(ctx, clients); err != nil {
			return err
		}
	}
	if err := p.idle(ctx); err != nil {
		return err
	}
	for _, clients := range w.Clients {
		if err := p.parts(ctx, clients); err != nil {
			return err
		}
	}
	if err := p.read(ctx, 0); err != nil { // before the ResourceManager ends
		return err
	}
	return p.load.audit(ctx)
}

// read makes the coordinator read the cluster with so many queues, or none with 0, and returns
// after the first read.
func (p *polling) read(ctx context.Context, queues int) error {
	service, name := p.load.client.Queues(), yarnBench()
	if queues == 0 {
		list, err := service.ListProviders(ctx, &bursarv1.ListProvidersRequest{})
		if err != nil || len(list.GetProviders()) == 0 {
			return err
		}
		_, err = service.DeleteProvider(ctx, &bursarv1.DeleteProviderRequest{Kind: name.Kind, Cluster: name.Cluster})
		return err
	}
	if _, err := service.PutProvider(ctx, &bursarv1.PutProviderRequest{Provider: &bursarv1.Provider{
		Kind: name.Kind, Cluster: name.Cluster, Settings: map[string]string{
			"addresses": "http://" + p.manager.first.Address, "basePath": basePath(queues), "interval": p.workload.Every.String(),
		},
	}}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return await(ctx, 10*time.Millisecond, func(ctx context.Context) error {
		list, err := service.ListProviders(ctx, &bursarv1.ListProvidersRequest{})
		if err != nil {
			return err
		}
		health := list.GetProviders()[0].GetHealth()
		if n := int(health.GetQueues()); health.GetState() != bursarv1.ProviderHealth_STATE_KNOWN || n != queues+1 {
			return fmt.Errorf("the cluster is %s, with %d queues: %s", health.GetState(), n, health.GetMessage())
		}
		return nil
	})
}

// watched has the results of the slices with the same cluster, by slice.
type watched struct {
	queues int

	contestant

	// during is the p99 of the Allocates that began during a poll, in microseconds.
	during []float64
	median []float64 // the median of these
	share  []float64 // the share of the Allocates that began during a poll
	polls  []float64
	cpu    []float64 // of the coordinator, in percent of a core
}

// slice makes so many clients, or none, run pairs for a time.
func (p *polling) slice(ctx context.Context, w *watched, clients int, keep bool) error {
	if err := p.read(ctx, w.queues); err != nil {
		return err
	}
	if _, err := p.manager.do(order{}); err != nil { // polls before this slice
		return err
	}
	before, err := cpuTimeOf(p.coordinator.pid())
	if err != nil {
		return err
	}
	began := time.Now()
	turn := &result{}
	if clients > 0 {
		turn, err = p.load.turn(ctx, clients, 0, p.period(p.workload.Duration))
	} else {
		err = rest(ctx, p.idleFor())
	}
	if err != nil {
		return err
	}
	elapsed := time.Since(began)
	after, err := cpuTimeOf(p.coordinator.pid())
	if err != nil {
		return err
	}
	managed, err := p.manager.do(order{})
	if err != nil || !keep {
		return err
	}
	w.cpu = append(w.cpu, 100*(after-before).Seconds()/elapsed.Seconds())
	w.polls = append(w.polls, float64(len(managed.Polls)))
	if clients == 0 {
		return nil
	}
	w.rates = append(w.rates, 2*turn.rate())
	w.p50, w.p99 = append(w.p50, percentile(turn.latencies, 0.5)), append(w.p99, percentile(turn.latencies, 0.99))
	if begun := turn.begun(managed.Polls); len(begun) > 0 {
		w.during, w.median = append(w.during, percentile(begun, 0.99)), append(w.median, percentile(begun, 0.5))
		w.share = append(w.share, float64(len(begun))/float64(len(turn.latencies)))
	}
	return nil
}

// idleFor returns the duration of a slice without load, which must include a poll.
func (p *polling) idleFor() time.Duration {
	return max(p.period(p.workload.Duration), p.workload.Every*5/4)
}

// rest waits for a time.
func rest(ctx context.Context, lasts time.Duration) error {
	timer := time.NewTimer(lasts)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begun returns the latencies of the Allocates that began during a poll, shortest first. Others
// that overlap a poll are not counted: a long call overlaps more often, for any reason.
func (r *result) begun(polls []poll) []time.Duration {
	var list []time.Duration
	for _, c := range r.calls {
		began := c.began.UnixNano()
		if slices.ContainsFunc(polls, func(p poll) bool { return p.Began <= began && began <= p.Ended+afterwards.Nanoseconds() }) {
			list = append(list, c.took)
		}
	}
	slices.Sort(list)
	return list
}

// besides makes so many clients run pairs of plain requests while each cluster, or none, is read in
// turn.
func (p *polling) besides(ctx context.Context, clients int) error {
	alone, again := &watched{}, &watched{}
	few, many := &watched{queues: p.workload.Polled[0]}, &watched{queues: p.workload.Polled[1]}
	for round := range p.rounds(p.workload.Rounds) {
		for _, w := range []*watched{alone, few, again, many} {
			if err := p.slice(ctx, w, clients, round > 0); err != nil {
				return err
			}
		}
	}
	name := "queues/" + strconv.Itoa(clients)
	none := contestant{means(alone.rates, again.rates), means(alone.p50, again.p50), means(alone.p99, again.p99)}
	p.compare(name+"-alone", &alone.contestant, again.contestant)
	p.compare(name+"-again", &again.contestant, alone.contestant)
	for _, w := range []*watched{few, many} {
		name := fmt.Sprintf("%s-beside-%d", name, w.queues)
		p.compare(name, &w.contestant, none)
		p.line(name+"-polls", median(w.polls), "in a slice", 0)
		if len(w.during) > 0 {
			p.line(name+"-during", 100*median(w.share), "% of the calls", 0)
			p.line(name+"-during-p50", median(w.median), "µs", median(w.median)/median(none.p50))
			p.line(name+"-during-p99", median(w.during), "µs", median(w.during)/median(none.p99))
		}
	}
	return nil
}

// compare prints the results of one contestant relative to another.
func (r *report) compare(name string, of *contestant, to contestant) {
	r.line(name+"-calls", median(of.rates), "calls/s", median(ratios(of.rates, to.rates)))
	r.line(name+"-p50", median(of.p50), "µs", median(ratios(of.p50, to.p50)))
	r.line(name+"-p99", median(of.p99), "µs", median(ratios(of.p99, to.p99)))
}

// means returns the means of consecutive turns.
func means(a, b []float64) []float64 {
	list := make([]float64, min(len(a), len(b)))
	for i := range list {
		list[i] = (a[i] + b[i]) / 2
	}
	return list
}

// idle measures the cost of a poll for an idle coordinator.
func (p *polling) idle(ctx context.Context) error {
	none := &watched{}
	sides := []*watched{none}
	for _, queues := range p.workload.Polled {
		sides = append(sides, &watched{queues: queues})
	}
	for range p.rounds(3) {
		for _, w := range sides {
			if err := p.slice(ctx, w, 0, true); err != nil {
				return err
			}
		}
	}
	seconds := p.idleFor().Seconds()
	for _, w := range sides[1:] {
		polls, used := 0.0, 0.0
		for i := range w.polls {
			polls += w.polls[i]
			used += (w.cpu[i] - none.cpu[i]) / 100 * seconds
		}
		if polls > 0 {
			p.line(fmt.Sprintf("queues/poll-%d-cpu", w.queues), 1e3*used/polls, "ms", 0)
		}
	}
	bytes, err := memoryOf(p.coordinator.pid())
	if err != nil {
		return err
	}
	p.line("queues/poll-rss", float64(bytes)/(1<<20), "MiB", 0)
	return nil
}

// parts compares calls with a part in a queue with plain ones, over the wire.
func (p *polling) parts(ctx context.Context, clients int) error {
	queues := p.workload.Polled[0]
	if err := p.read(ctx, queues); err != nil {
		return err
	}
	parts, err := p.workload.partsIn(queues)
	if err != nil {
		return err
	}
	with, err := newCaller(p.coordinator.address, p.workload)
	if err != nil {
		return err
	}
	defer with.client.Close()
	request, err := p.workload.request()
	if err != nil {
		return err
	}
	with.resources = with.resources[:0]
	for _, part := range parts {
		with.resources = append(with.resources, convert.ResourceToProto(resource.NewResource(request.Vector, part)))
	}
	a, b, err := contest{with, p.load}.run(ctx, p.rounds(min(6, p.workload.Rounds)), clients, 0, p.period(p.workload.Duration)/2)
	if err != nil {
		return err
	}
	name := "queues/" + strconv.Itoa(clients)
	p.compare(name+"-parts", &a, b)
	p.compare(name+"-plain", &b, a)
	return nil
}
