package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
)

// watchersSuite measures the cost of watchers for callers that allocate.
func watchersSuite(ctx context.Context, r *run) (err error) {
	w, err := readWorkload("watchers")
	if err != nil {
		return err
	}
	coordinator, err := r.startAttacked(ctx, filepath.Join(r.dir, "watchers"), w)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, coordinator.stop()) }()
	clients, err := newCaller(coordinator.address, w)
	if err != nil {
		return err
	}
	defer clients.client.Close()
	sides := []*watchedSide{
		{name: "one", order: order{Watchers: 1}},
		{name: "many", order: order{Watchers: r.size(w.Many)}},
		{name: "many-of-one-host", order: order{Watchers: r.size(w.Many), PerHost: true}},
		{name: "none"},
	}
	for range r.rounds(w.Rounds) {
		for _, side := range sides {
			if err := r.watchedTurn(ctx, w, coordinator, clients, side); err != nil {
				return fmt.Errorf("%s: %w", side.name, err)
			}
		}
	}
	for _, side := range sides {
		r.line("watchers/"+side.name, median(side.rates), "pairs/s", median(ratios(side.rates, sides[0].rates)))
		r.line("watchers/"+side.name+"-p99", median(side.p99), "µs", median(ratios(side.p99, sides[0].p99)))
		if side.order.Watchers > 0 {
			r.line("watchers/"+side.name+"-read", median(side.read), "MB/s", 0)
		}
	}
	return clients.audit(ctx)
}

// watchedSide has the results with a number of watchers, by turn.
type watchedSide struct {
	name             string
	order            order
	rates, p99, read []float64
}

// watchedTurn makes pairs of calls beside watchers in a new process.
func (r *run) watchedTurn(ctx context.Context, w *workload, coordinator *daemon, clients *caller, side *watchedSide) (err error) {
	var watchers *child
	if side.order.Watchers > 0 {
		first := side.order
		first.Servers = []string{coordinator.address}
		if watchers, err = r.startChild(ctx, "watchers", first); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, watchers.stop()) }()
	}
	turn, err := clients.turn(ctx, w.Clients[0], 0, r.period(w.Duration))
	if err != nil {
		return err
	}
	side.rates = append(side.rates, turn.rate())
	side.p99 = append(side.p99, percentile(turn.latencies, 0.99))
	if watchers == nil {
		return nil
	}
	a, err := watchers.do(order{})
	side.read = append(side.read, float64(a.Read)/1e6/turn.took.Seconds())
	return err
}

// watchersChild is a process with watchers. The first order has their number and the server; the
// next one ends them.
type watchersChild struct {
	read  atomic.Int64
	stop  context.CancelFunc
	group sync.WaitGroup
	ended chan error // has the end of each watch
}

func (c *watchersChild) do(ctx context.Context, o order) (answer, error) {
	if c.stop != nil {
		return c.end()
	}
	ctx, c.stop = context.WithCancel(ctx)
	c.ended = make(chan error, o.Watchers)
	transport := &http.Transport{ReadBufferSize: 64 << 10}
	begun := make(chan struct{}, o.Watchers)
	for n := range o.Watchers {
		request := new(bursarv1.AllocationServiceWatchRequest)
		if o.PerHost {
			request.HostId = hostName(n)
		}
		c.group.Go(func() {
			c.ended <- c.watch(ctx, &http.Client{Transport: transport}, o.Servers[0], n, request, begun)
		})
	}
	for range o.Watchers {
		select {
		case <-begun:
		case err := <-c.ended:
			c.stop()
			return answer{}, err
		}
	}
	c.read.Store(0)
	return answer{}, nil
}

// end ends the watches. The answer has the bytes that they read.
func (c *watchersChild) end() (answer, error) {
	a := answer{Read: c.read.Load()}
	select {
	case err := <-c.ended:
		return a, fmt.Errorf("a watch ended by itself: %w", err)
	default:
	}
	c.stop()
	c.group.Wait()
	return a, nil
}

// watch reads the messages of a watch, and discards them.
func (c *watchersChild) watch(ctx context.Context, client *http.Client, server string, n int, message *bursarv1.AllocationServiceWatchRequest, begun chan<- struct{}) error {
	text, err := proto.Marshal(message)
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	body := append([]byte{0, 0, 0, 0, byte(len(text))}, text...) //nolint:gosec // it names a host at most
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+server+bursarv1connect.AllocationServiceWatchProcedure, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	request.Header.Set("Content-Type", "application/connect+proto")
	request.Header.Set(identity.Header, identity.Actor{Name: "watcher-" + strconv.Itoa(n), Role: identity.Reader}.Encode())
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer response.Body.Close()
	buffer := make([]byte, 64<<10)
	first := true
	for {
		read, err := response.Body.Read(buffer)
		c.read.Add(int64(read))
		if first && read > 0 {
			begun <- struct{}{}
			first = false
		}
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("watch: the end of it, %q", buffer[:read])
		}
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
	}
}
