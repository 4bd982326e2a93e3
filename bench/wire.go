package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// caller makes pairs of calls to one server.
type caller struct {
	client *client.Client
	labels []map[string]string
	// Request number i has the resource at index i modulo their number, as with the labels.
	resources []*bursarv1.Resource
	prefix    string
	next      atomic.Int64
}

func newCaller(server string, w *workload, options ...client.Option) (*caller, error) {
	// Each call is made once, so that a failure is noticed.
	c, err := client.New(server, append(options, client.WithoutRetries())...)
	if err != nil {
		return nil, err
	}
	request, err := w.request()
	if err != nil {
		return nil, err
	}
	sets, err := w.sets()
	if err != nil {
		return nil, err
	}
	k := &caller{client: c, prefix: "7d9f3f4e-" + strconv.FormatInt(time.Now().UnixNano(), 36) + "-"}
	k.resources = append(k.resources, convert.ResourceToProto(request))
	for i := range sets {
		k.labels = append(k.labels, w.labels(i))
	}
	return k, nil
}

// pair makes one allocation and releases it, and returns the duration of the Allocate.
func (k *caller) pair(ctx context.Context) (time.Duration, error) {
	n := k.next.Add(1)
	request := &bursarv1.AllocateRequest{
		RequestId: k.prefix + strconv.FormatInt(n, 10), Labels: k.labels[int(n)%len(k.labels)], Resource: k.resources[int(n)%len(k.resources)],
	}
	began := time.Now()
	res, err := k.client.Allocations().Allocate(ctx, request)
	took := time.Since(began)
	if err != nil {
		return took, err
	}
	_, err = k.client.Allocations().Release(ctx, &bursarv1.ReleaseRequest{Id: res.GetAllocation().GetId()})
	return took, err
}

// turn makes so many clients run pairs, for a time or, if pairs is not 0, that number each.
func (k *caller) turn(ctx context.Context, clients, pairs int, lasts time.Duration) (*result, error) {
	var over atomic.Bool
	if pairs == 0 {
		timer := time.AfterFunc(lasts, func() { over.Store(true) })
		defer timer.Stop()
	}
	calls, failures := make([][]span, clients), make([]error, clients)
	var group sync.WaitGroup
	start := time.Now()
	for n := range clients {
		group.Go(func() {
			for i := 0; (pairs == 0 || i < pairs) && !over.Load() && failures[n] == nil; i++ {
				began := time.Now()
				var took time.Duration
				took, failures[n] = k.pair(ctx)
				calls[n] = append(calls[n], span{began, took})
			}
		})
	}
	group.Wait()
	turn := &result{took: time.Since(start), calls: slices.Concat(calls...)}
	turn.pairs = len(turn.calls)
	for _, c := range turn.calls {
		turn.latencies = append(turn.latencies, c.took)
	}
	slices.Sort(turn.latencies)
	return turn, errors.Join(failures...)
}

// sample returns one allocation as answered by the server; the echo answers with it.
func (k *caller) sample(ctx context.Context) ([]byte, error) {
	res, err := k.client.Allocations().Allocate(ctx, &bursarv1.AllocateRequest{
		RequestId: k.prefix + "1000000", Labels: k.labels[0], Resource: k.resources[0],
	})
	if err != nil {
		return nil, fmt.Errorf("a sample: %w", err)
	}
	data, err := proto.Marshal(res.GetAllocation())
	if err != nil {
		return nil, fmt.Errorf("a sample: %w", err)
	}
	_, err = k.client.Allocations().Release(ctx, &bursarv1.ReleaseRequest{Id: res.GetAllocation().GetId()})
	return data, err
}

// contest is a server and an echo that take turns.
type contest struct {
	server, echo *caller
}

// contestant has the results of one of them, by turn.
type contestant struct{ rates, p50, p99 []float64 }

func (c contest) run(ctx context.Context, rounds, clients, pairs int, lasts time.Duration) (server, echo contestant, err error) {
	for round := range rounds {
		for _, side := range []struct {
			*caller
			*contestant
		}{{c.server, &server}, {c.echo, &echo}} {
			turn, err := side.turn(ctx, clients, pairs, lasts)
			if err != nil {
				return server, echo, err
			}
			if round > 0 {
				side.rates = append(side.rates, 2*turn.rate())
				side.p50 = append(side.p50, percentile(turn.latencies, 0.5))
				side.p99 = append(side.p99, percentile(turn.latencies, 0.99))
			}
		}
	}
	return server, echo, nil
}

// wireSuite measures row 4 of the budgets.
func wireSuite(ctx context.Context, r *run) (err error) {
	w, err := readWorkload("wire")
	if err != nil {
		return err
	}
	coordinator, err := r.startCoordinator(ctx, filepath.Join(r.dir, "wire"), never)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, coordinator.stop()) }()
	server, err := newCaller(coordinator.address, w)
	if err != nil {
		return err
	}
	defer server.client.Close()
	if err := populate(ctx, server.client, w); err != nil {
		return err
	}
	reply, err := server.sample(ctx)
	if err != nil {
		return err
	}
	echoing, err := r.startChild(ctx, "echo", order{Echo: "127.0.0.1:0", Reply: reply})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, echoing.stop()) }()
	echo, err := newCaller(echoing.first.Address, w)
	if err != nil {
		return err
	}
	defer echo.client.Close()
	for _, clients := range w.Clients {
		before, err := cpuTimeOf(coordinator.pid())
		if err != nil {
			return err
		}
		a, b, err := contest{server, echo}.run(ctx, r.rounds(w.Rounds), clients, 0, r.period(w.Duration))
		if err != nil {
			return err
		}
		after, err := cpuTimeOf(coordinator.pid())
		if err != nil {
			return err
		}
		r.line("wire/calls", median(a.rates), "calls/s", median(ratios(a.rates, b.rates)))
		r.line("wire/p99", median(a.p99), "µs", median(ratios(a.p99, b.p99)))
		r.line("wire/p50", median(a.p50), "µs", median(ratios(a.p50, b.p50)))
		r.line("wire/echo", median(b.rates), "calls/s", 0)
		r.line("wire/coordinator-cpu", (after-before).Seconds()*1e6/float64(2*server.next.Load()), "µs/call", 0)
	}
	return server.audit(ctx)
}

// audit verifies the state after the measurement.
func (k *caller) audit(ctx context.Context) error {
	res, err := k.client.Cluster().Audit(ctx, &bursarv1.AuditRequest{})
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	if found := res.GetViolations(); len(found) > 0 {
		return fmt.Errorf("%d violations of the ledger, the first: %s", len(found), found[0].GetMessage())
	}
	return nil
}

// hopSuite measures row 5 of the budgets.
func hopSuite(ctx context.Context, r *run) (err error) {
	w, err := readWorkload("hop")
	if err != nil {
		return err
	}
	dir := filepath.Join(r.dir, "hop")
	coordinator, err := r.startCoordinator(ctx, dir, 5*time.Second)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, coordinator.stop()) }()
	agent, err := r.startAgentOf(ctx, dir, coordinator, 5*time.Second, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, agent.stop()) }()
	server, err := newCaller(agent.address, w)
	if err != nil {
		return err
	}
	defer server.client.Close()
	reply, err := server.sample(ctx)
	if err != nil {
		return err
	}
	echoing, err := r.startChild(ctx, "echo", order{Echo: filepath.Join(dir, "echo.sock"), Reply: reply})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, echoing.stop()) }()
	echo, err := newCaller(echoing.first.Address, w)
	if err != nil {
		return err
	}
	defer echo.client.Close()
	direct, err := newCaller(coordinator.address, w)
	if err != nil {
		return err
	}
	defer direct.client.Close()
	a, b, err := contest{server, echo}.run(ctx, r.rounds(w.Rounds), 1, r.size(w.Window), 0)
	if err != nil {
		return err
	}
	d, _, err := contest{direct, echo}.run(ctx, r.rounds(min(4, w.Rounds)), 1, r.size(w.Window), 0)
	if err != nil {
		return err
	}
	r.line("hop/p50", median(a.p50), "µs", median(ratios(a.p50, b.p50)))
	r.line("hop/p99", median(a.p99), "µs", median(ratios(a.p99, b.p99)))
	r.line("hop/echo-p50", median(b.p50), "µs", 0)
	r.line("hop/coordinator-alone-p50", median(d.p50), "µs", median(d.p50)/median(b.p50))
	return direct.audit(ctx)
}
