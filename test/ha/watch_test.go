//go:build linux

package ha

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// observer follows the cluster's watch over all faults, and asks every coordinator for the epoch
// it leads in.
type observer struct {
	*cluster
	running sync.WaitGroup

	mu     sync.Mutex
	faults []string // guarded by mu
	// grants are those that were seen one by one; begins how often the observer had to begin with
	// a list. Guarded by mu.
	grants, begins int
	epochs         []uint64 // guarded by mu; in the order they were seen, each once
}

// observe starts an observer, which ends with the context.
func (c *cluster) observe(ctx context.Context) *observer {
	o := &observer{cluster: c}
	o.running.Go(func() {
		for ctx.Err() == nil {
			o.follow(ctx)
			o.rest(ctx)
		}
	})
	for _, m := range c.members {
		o.running.Go(func() {
			for last := uint64(0); ctx.Err() == nil; o.rest(ctx) {
				last = o.epoch(ctx, m, last)
			}
		})
	}
	return o
}

func (o *observer) rest(ctx context.Context) {
	timer := time.NewTimer(pollEvery)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

func (o *observer) faultf(format string, arguments ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.faults = append(o.faults, fmt.Sprintf(format, arguments...))
}

// follow reads the live allocations and then each transition, until the watch ends. When a leader
// ends, its memory of past transitions ends, too.
func (o *observer) follow(ctx context.Context) {
	var listed []*bursarv1.Allocation
	revision := uint64(0)
	for page, err := range o.admin.ListAllocations(ctx, &bursarv1.AllocationServiceListRequest{PageSize: 1000}) {
		if err != nil {
			return
		}
		if revision == 0 {
			revision = page.GetRevision()
		}
		listed = append(listed, page.GetAllocations()...)
	}
	if revision == 0 {
		return
	}
	seen := newReplay(listed)
	stream := o.admin.With(client.WithoutRetries())
	for message, err := range stream.WatchCluster(ctx, &bursarv1.ClusterServiceWatchRequest{AfterRevision: revision}) {
		if err != nil {
			break
		}
		if a := message.GetAllocation(); a != nil {
			if message.GetRevision() < revision {
				o.faultf("the watch goes back from revision %d to %d", revision, message.GetRevision())
			}
			revision = message.GetRevision()
			seen.transition(a)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.faults = append(o.faults, seen.faults...)
	o.grants += seen.grants
	o.begins++
}

// epoch asks a coordinator for the epoch: by its own word that only rises.
func (o *observer) epoch(ctx context.Context, m *member, last uint64) uint64 {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	status, err := m.direct.Cluster().Status(ctx, &bursarv1.StatusRequest{})
	// A coordinator that has just lost the lead speaks only for itself.
	if err != nil || !status.GetIsLeader() {
		return last
	}
	if status.GetEpoch() < last {
		o.faultf("%s answers for epoch %d after %d", m.Name, status.GetEpoch(), last)
	}
	if status.GetEpoch() > last {
		o.mu.Lock()
		defer o.mu.Unlock()
		if len(o.epochs) == 0 || o.epochs[len(o.epochs)-1] < status.GetEpoch() {
			o.epochs = append(o.epochs, status.GetEpoch())
		}
	}
	return status.GetEpoch()
}

// found returns what was wrong so far.
func (o *observer) found() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all error
	for _, fault := range o.faults[:min(len(o.faults), 5)] {
		all = errors.Join(all, errors.New(fault))
	}
	return all
}
