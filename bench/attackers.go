package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/identity"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/bursar/v1/bursarv1connect"
	"github.com/bursar/bursar/proto/convert"
)

// attack is a kind of load on a coordinator.
type attack struct {
	name string
	run  func(a *attackers, ctx context.Context) error
}

func attacks() []attack {
	return []attack{
		{"big", func(a *attackers, ctx context.Context) error { return a.flood(ctx, false) }},
		{"compressed", func(a *attackers, ctx context.Context) error { return a.flood(ctx, true) }},
		{"audits", (*attackers).audits},
		{"watches", (*attackers).watches},
		{"kinds", (*attackers).kinds},
		{"resizes", (*attackers).resizes},
		{"churn", (*attackers).churn},
		{"resets", (*attackers).resets},
		{"outputs", (*attackers).outputs},
	}
}

// attackersChild is a process with attackers. The first order has their kind and the server that
// they call; the next one ends them.
type attackersChild struct{ running *attackers }

func (c *attackersChild) do(ctx context.Context, o order) (answer, error) {
	if c.running == nil {
		var err error
		c.running, err = startAttackers(ctx, o)
		return answer{}, err
	}
	return answer{Reports: int(c.running.counted.Load())}, c.running.end()
}

// attackers are many clients of one user.
type attackers struct {
	*client.Client

	workload *workload
	short    bool
	server   string
	http     *http.Client
	resource *bursarv1.Resource
	group    sync.WaitGroup
	stop     context.CancelFunc
	counted  counter
	// cleanup removes obstacles to the next attack; nil: there are none.
	cleanup func() error
}

// counter counts calls since it was started.
type counter struct{ calls, from atomic.Int64 }

func (c *counter) Load() int64 { return c.calls.Load() - c.from.Load() }

// attackTime is how long attackers run before the measurement.
const attackTime = 500 * time.Millisecond

// mallory is the user that all attackers act as.
const mallory = "mallory"

func startAttackers(ctx context.Context, o order) (*attackers, error) {
	w, err := readWorkload("neighbours")
	if err != nil {
		return nil, err
	}
	request, err := w.request()
	if err != nil {
		return nil, err
	}
	a := &attackers{workload: w, short: o.Short, server: o.Servers[0], resource: convert.ResourceToProto(request)}
	if a.Client, err = client.New(a.server, client.WithoutRetries(), client.WithActor(actorOf(mallory))); err != nil {
		return nil, err
	}
	a.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4096}}
	ctx, a.stop = context.WithCancel(ctx)
	for _, attack := range attacks() {
		if attack.name != o.Attack {
			continue
		}
		if err := attack.run(a, ctx); err != nil {
			return nil, errors.Join(err, a.end())
		}
		<-time.After(attackTime)
		a.counted.from.Store(a.counted.calls.Load())
		return a, nil
	}
	return nil, errors.Join(fmt.Errorf("no such attack: %q", o.Attack), a.end())
}

// end ends the attack and waits for the attackers.
func (a *attackers) end() error {
	a.stop()
	a.group.Wait()
	var err error
	if a.cleanup != nil {
		err = a.cleanup()
	}
	a.Close()
	a.http.CloseIdleConnections()
	return err
}

// size returns a number of the workload, reduced if the run is short.
func (a *attackers) size(n int) int { return (&run{short: a.short}).size(n) }

// again starts so many attackers that make calls until the attack ends, and ignores their errors.
func (a *attackers) again(ctx context.Context, number int, call func(n int) error) {
	for n := range number {
		a.group.Go(func() {
			for ctx.Err() == nil {
				_ = call(n)
				a.counted.calls.Add(1)
			}
		})
	}
}

func (a *attackers) request() *bursarv1.AllocateRequest {
	return &bursarv1.AllocateRequest{Labels: map[string]string{"user": mallory, "creator": "creator-0", "engineType": "engineType-0"}, Resource: a.resource}
}

// flood sends requests of 64 KiB that can never fit.
func (a *attackers) flood(ctx context.Context, compressed bool) error {
	message := a.request()
	message.Resource = &bursarv1.Resource{MemoryBytes: proto.Int64(1 << 52)}
	message.Host = new(bursarv1.HostWishes)
	for i := range 256 {
		message.Host.Avoid = append(message.Host.Avoid, strings.Repeat("x", 240)+strconv.Itoa(i))
	}
	options := []connect.ClientOption{connect.WithInterceptors(asMallory())}
	if compressed {
		options = append(options, connect.WithSendGzip())
	}
	allocations := bursarv1connect.NewAllocationServiceClient(a.http, "http://"+a.server, options...)
	a.again(ctx, a.size(a.workload.Clients[0]), func(int) error {
		_, err := allocations.Allocate(ctx, message)
		return err
	})
	return nil
}

// asMallory sets the actor of each call.
func asMallory() connect.Interceptor {
	value := actorOf(mallory).Encode()
	return connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			req.Header().Set(identity.Header, value)
			return next(ctx, req)
		}
	})
}

// audits requests audits of some thousand allocations.
func (a *attackers) audits(ctx context.Context) error {
	if err := a.hold(ctx, a.size(a.workload.Waiting)); err != nil {
		return err
	}
	a.again(ctx, a.size(a.workload.Many), func(int) error {
		_, err := a.Cluster().Audit(ctx, &bursarv1.AuditRequest{})
		return err
	})
	return nil
}

// hold makes allocations that stay. Every attack has the same number of them.
func (a *attackers) hold(ctx context.Context, number int) error {
	for i := range number {
		message := a.request()
		message.RequestId = "held-" + strconv.Itoa(i)
		message.ReservationTtl = durationpb.New(24 * time.Hour)
		message.Resource = &bursarv1.Resource{MemoryBytes: proto.Int64(1 << 20)}
		if _, err := a.Allocations().Allocate(ctx, message); err != nil {
			return fmt.Errorf("hold: %w", err)
		}
	}
	return nil
}

// watches opens streams, opens them again after a refusal or a break, and makes events.
func (a *attackers) watches(ctx context.Context) error {
	a.again(ctx, a.size(3*a.workload.Many), func(int) error {
		stream, err := a.Allocations().Watch(ctx, &bursarv1.AllocationServiceWatchRequest{})
		if err != nil {
			return err
		}
		for stream.Receive() {
			continue
		}
		return errors.Join(stream.Err(), stream.Close())
	})
	a.again(ctx, a.size(a.workload.Clients[0])/8+1, func(int) error { return a.pair(ctx) })
	return nil
}

// kinds makes many requests wait for any host, each of its own kind, and replaces them.
func (a *attackers) kinds(ctx context.Context) error {
	for i := range a.workload.Hosts { // no host is completely free
		message := a.request()
		message.RequestId, message.ReservationTtl = "holder-"+strconv.Itoa(i), durationpb.New(24*time.Hour)
		message.Host = &bursarv1.HostWishes{Id: hostName(i)}
		if _, err := a.Allocations().Allocate(ctx, message); err != nil {
			return fmt.Errorf("hold a host: %w", err)
		}
	}
	all, err := a.workload.Host.vector()
	if err != nil {
		return err
	}
	wait := func(kind int) (string, error) {
		message := a.request()
		message.Labels["job"] = strconv.Itoa(kind)
		message.Resource = &bursarv1.Resource{MemoryBytes: new(all.Memory())}
		message.Wait, message.Async = durationpb.New(time.Hour), true
		res, err := a.Allocations().Allocate(ctx, message)
		return res.GetAllocation().GetId(), err
	}
	clients := a.size(a.workload.Clients[0])
	ids := make([][]string, clients)
	for i := range a.size(a.workload.Waiting) {
		id, err := wait(i)
		if err != nil {
			return fmt.Errorf("wait: %w", err)
		}
		ids[i%clients] = append(ids[i%clients], id)
	}
	a.cleanup = func() error { return a.cancel(ids) } //nolint:contextcheck // when its context has ended
	next := make([]int, clients)
	a.again(ctx, clients, func(n int) error {
		at := next[n] % len(ids[n])
		next[n]++
		_, canceled := a.Allocations().Cancel(ctx, &bursarv1.CancelRequest{Id: ids[n][at]})
		id, err := wait(next[n]*clients + n)
		if err == nil {
			ids[n][at] = id
		}
		return errors.Join(canceled, err)
	})
	return nil
}

// cancel cancels waiting requests. Some no longer exist: they were replaced when the attack ended.
func (a *attackers) cancel(ids [][]string) error {
	failures := make([]error, len(ids))
	var group sync.WaitGroup
	for n, list := range ids {
		group.Go(func() {
			for _, id := range list {
				_, err := a.Allocations().Cancel(context.Background(), &bursarv1.CancelRequest{Id: id})
				failures[n] = errors.Join(failures[n], err)
			}
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

// resizes makes allocations larger and smaller.
func (a *attackers) resizes(ctx context.Context) error {
	clients := a.size(a.workload.Clients[0])
	ids := make([]string, clients)
	for n := range clients {
		message := a.request()
		message.ReservationTtl = durationpb.New(24 * time.Hour)
		res, err := a.Allocations().Allocate(ctx, message)
		if err != nil {
			return fmt.Errorf("allocate: %w", err)
		}
		ids[n] = res.GetAllocation().GetId()
	}
	sizes := make([]int64, clients)
	a.again(ctx, clients, func(n int) error {
		sizes[n]++
		entitled := proto.CloneOf(a.resource)
		entitled.MemoryBytes = new((1 + sizes[n]%8) << 30)
		_, err := a.Allocations().Resize(ctx, &bursarv1.ResizeRequest{Id: ids[n], Entitled: entitled})
		return err
	})
	return nil
}

// churn makes pairs of calls.
func (a *attackers) churn(ctx context.Context) error {
	a.again(ctx, a.size(a.workload.Clients[0]), func(int) error { return a.pair(ctx) })
	return nil
}

func (a *attackers) pair(ctx context.Context) error {
	res, err := a.Allocations().Allocate(ctx, a.request())
	if err != nil {
		return err
	}
	_, err = a.Allocations().Release(ctx, &bursarv1.ReleaseRequest{Id: res.GetAllocation().GetId()})
	return err
}
