package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// launchers continuously request allocations from an agent, with the client's own retries, and keep
// their grants.
type launchers struct {
	client *client.Client
	// labels are on all their allocations and on no others.
	labels   map[string]string
	resource *bursarv1.Resource
	prefix   string

	mu    sync.Mutex
	next  int           // guarded by mu: number of the next request
	calls []call        // guarded by mu: the answered calls
	ended chan struct{} // guarded by mu: closed at the next answer
}

// call is one answered Allocate.
type call struct {
	request      string
	id           string // of the allocation
	began, ended time.Time
	err          error
}

func newLaunchers(socket string, w *workload) (*launchers, error) {
	c, err := client.New(socket)
	if err != nil {
		return nil, err
	}
	request, err := w.request()
	if err != nil {
		return nil, err
	}
	return &launchers{
		client: c, labels: map[string]string{"user": "launcher", "creator": "bench", "engineType": "failover"},
		resource: convert.ResourceToProto(request), prefix: "failover-" + strconv.FormatInt(time.Now().UnixNano(), 36) + "-",
		ended: make(chan struct{}),
	}, nil
}

// ask makes one Allocate with a unique request id.
func (l *launchers) ask(ctx context.Context) {
	l.mu.Lock()
	c := call{request: l.prefix + strconv.Itoa(l.next), began: time.Now()}
	l.next++
	l.mu.Unlock()
	c.id, c.err = l.allocate(ctx, c.request)
	c.ended = time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, c)
	close(l.ended)
	l.ended = make(chan struct{})
}

func (l *launchers) allocate(ctx context.Context, request string) (id string, err error) {
	res, err := l.client.Allocations().Allocate(ctx, &bursarv1.AllocateRequest{RequestId: request, Labels: l.labels, Resource: l.resource})
	return res.GetAllocation().GetId(), err
}

// answeredAfter waits for the first Allocate that is granted after a moment, and returns its time.
func (l *launchers) answeredAfter(ctx context.Context, moment time.Time) (time.Time, error) {
	for {
		l.mu.Lock()
		first, ended := time.Time{}, l.ended
		for _, c := range l.calls {
			if c.err == nil && c.ended.After(moment) && (first.IsZero() || c.ended.Before(first)) {
				first = c.ended
			}
		}
		l.mu.Unlock()
		if !first.IsZero() {
			return first, nil
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("no Allocate is granted any more: %w", ctx.Err())
		}
	}
}

// take returns the calls that were answered since the last take. No launcher may make a call at the
// same time.
func (l *launchers) take() []call {
	l.mu.Lock()
	defer l.mu.Unlock()
	calls := l.calls
	l.calls = nil
	return calls
}

// retryFailed repeats the failed calls with their request ids, so that the outcome of all is known.
// It returns their number.
func (l *launchers) retryFailed(ctx context.Context, calls []call) (failed int, err error) {
	for i := range calls {
		if calls[i].err == nil {
			continue
		}
		failed++
		id, err := l.allocate(ctx, calls[i].request)
		if err != nil {
			return failed, fmt.Errorf("request %s failed (%w), and again: %w", calls[i].request, calls[i].err, err)
		}
		calls[i].id = id
	}
	return failed, nil
}

// compare checks that the ledger has each grant, and no other allocation.
func (l *launchers) compare(ctx context.Context, coordinator *client.Client, calls []call) error {
	live := make(map[string]string) // request ids, by id
	for token := ""; ; {
		page, err := coordinator.Allocations().List(ctx, &bursarv1.AllocationServiceListRequest{Labels: l.labels, PageSize: 1000, PageToken: token})
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		for _, a := range page.GetAllocations() {
			live[a.GetId()] = a.GetRequestId()
		}
		if token = page.GetNextPageToken(); token == "" {
			break
		}
	}
	var errs []error
	for _, c := range calls {
		if live[c.id] != c.request {
			errs = append(errs, fmt.Errorf("allocation %s was granted to request %s and is lost", c.id, c.request))
		}
		got, err := coordinator.Allocations().Get(ctx, &bursarv1.AllocationServiceGetRequest{Id: c.id})
		if err != nil {
			errs = append(errs, fmt.Errorf("get allocation %s: %w", c.id, err))
		} else if state := got.GetAllocation().GetState(); state != bursarv1.AllocationState_ALLOCATION_STATE_RESERVED {
			errs = append(errs, fmt.Errorf("allocation %s is %s: want it reserved", c.id, state))
		}
		delete(live, c.id)
	}
	for id, request := range live {
		errs = append(errs, fmt.Errorf("allocation %s of request %s is in the ledger, and nobody got it", id, request))
	}
	return errors.Join(errs...)
}

// release releases the grants.
func (l *launchers) release(ctx context.Context, calls []call) error {
	for _, c := range calls {
		if _, err := l.client.Allocations().Release(ctx, &bursarv1.ReleaseRequest{Id: c.id}); err != nil {
			return fmt.Errorf("release: %w", err)
		}
	}
	return nil
}
