package peers

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// patience bounds the wait of a run for the next grant.
const patience = 2 * time.Minute

// run is a scheduler under load, with the receivers of grants.
type run struct {
	scheduler Scheduler

	turn int // number of the order, so that names are unique

	mu      sync.Mutex
	waiting map[string]chan<- int // guarded by mu; by the name of the request
}

func newRun(s Scheduler) *run {
	return &run{scheduler: s, waiting: make(map[string]chan<- int)}
}

func (r *run) do(o Order) (Answer, error) {
	r.turn++
	switch {
	case o.Open != nil:
		version, err := r.scheduler.Open(*o.Open, r.granted)
		return Answer{Version: version}, err
	case o.Wait != nil:
		return Answer{}, r.wait(*o.Wait)
	case o.Closed != nil:
		return r.closed(*o.Closed)
	case o.Burst != nil:
		return r.burst(*o.Burst)
	}
	return Answer{}, errors.New("an order without content: want Open, Wait, Closed or Burst")
}

// granted is called by the scheduler.
func (r *run) granted(name string, allocations int) {
	r.mu.Lock()
	grants := r.waiting[name]
	r.mu.Unlock()
	if grants != nil {
		grants <- allocations
	}
}

// expect sends the grants of these requests to the channel, which must have room for them.
func (r *run) expect(requests []Request, grants chan<- int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range requests {
		r.waiting[requests[i].Name] = grants
	}
}

func (r *run) forget(requests []Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range requests {
		delete(r.waiting, requests[i].Name)
	}
}

// closed runs one turn of the closed loop.
func (r *run) closed(o Closed) (Answer, error) {
	var over atomic.Bool
	timer := time.AfterFunc(o.Lasts, func() { over.Store(true) })
	defer timer.Stop()
	latencies := make([][]time.Duration, o.Clients)
	failures := make([]error, o.Clients)
	var clients sync.WaitGroup
	start := time.Now()
	for n := range o.Clients {
		clients.Go(func() {
			for i := 0; !over.Load() && failures[n] == nil; i++ {
				var took time.Duration
				took, failures[n] = r.pair(Request{Name: r.name(n, i), App: n, Count: 1, Quantity: o.Request})
				latencies[n] = append(latencies[n], took)
			}
		})
	}
	clients.Wait()
	took := time.Since(start)
	all := slices.Concat(latencies...)
	slices.Sort(all)
	return Answer{Pairs: len(all), Took: took, P50: percentile(all, 0.5), P99: percentile(all, 0.99)}, errors.Join(failures...)
}

func (r *run) name(app, number int) string {
	return "r" + strconv.Itoa(r.turn) + "-" + strconv.Itoa(app) + "-" + strconv.Itoa(number)
}

// pair waits for the grant of a request, and ends it. It returns the duration of the grant.
func (r *run) pair(request Request) (time.Duration, error) {
	grants := make(chan int, 1)
	requests := []Request{request}
	r.expect(requests, grants)
	defer r.forget(requests)
	began := time.Now()
	if err := r.scheduler.Submit(requests); err != nil {
		return 0, err
	}
	if _, err := receive(grants, 1, nil); err != nil {
		return 0, fmt.Errorf("request %s: %w", request.Name, err)
	}
	return time.Since(began), r.scheduler.Release(request)
}

// receive returns when n allocations were granted, or when late fires. It returns the number of
// granted allocations.
func receive(grants <-chan int, n int, late <-chan time.Time) (granted int, err error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for granted < n {
		select {
		case more := <-grants:
			granted += more
			timer.Reset(patience)
		case <-late:
			return granted, nil
		case <-timer.C:
			return granted, fmt.Errorf("%d of %d allocations were granted, and none for %s", granted, n, patience)
		}
	}
	return granted, nil
}

// requests returns the requests of application number app, one for each size.
func (r *run) requests(b Batch, app int) []Request {
	list := make([]Request, min(b.Sizes, b.Requests))
	for i := range list {
		list[i] = Request{Name: r.name(app, i), App: app, Count: (b.Requests + b.Sizes - 1 - i) / b.Sizes, Quantity: b.Request}
		list[i].Quantity.Memory *= int64(1 + i)
	}
	return list
}

// burst submits all requests as fast as one goroutine can, and waits for the last grant. If it is
// cut off, both end.
func (r *run) burst(b Batch) (Answer, error) {
	grants := make(chan int, b.Apps*b.Requests)
	all := make([][]Request, b.Apps)
	for n := range all {
		all[n] = r.requests(b, b.From+n)
		r.expect(all[n], grants)
		defer r.forget(all[n])
	}
	var late <-chan time.Time
	start := time.Now()
	if b.Within > 0 {
		late = time.After(b.Within)
	}
	for _, requests := range all {
		if b.Within > 0 && time.Since(start) > b.Within {
			break
		}
		if err := r.scheduler.Submit(requests); err != nil {
			return Answer{}, err
		}
	}
	granted, err := receive(grants, b.Apps*b.Requests, late)
	return Answer{Pairs: granted, Took: time.Since(start)}, err
}

// wait submits requests that stay.
func (r *run) wait(b Batch) error {
	for n := range b.Apps {
		requests := r.requests(b, b.From+n)
		for i := range requests {
			requests[i].Waits = true
		}
		if err := r.scheduler.Submit(requests); err != nil {
			return err
		}
	}
	return nil
}

// percentile returns a percentile of sorted durations, in microseconds.
func percentile(sorted []time.Duration, share float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := min(len(sorted)-1, int(share*float64(len(sorted))))
	return float64(sorted[at].Nanoseconds()) / 1000
}
