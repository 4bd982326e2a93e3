package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"
)

// callbacks receives the calls of the core: it allows every placement and forwards grants.
type callbacks struct {
	granted  func(name string, allocations int)
	answered chan error // for each host and application; nil: it was accepted
}

func newCallbacks(granted func(string, int)) *callbacks {
	return &callbacks{granted: granted, answered: make(chan error, 1<<20)}
}

// accepted waits until n hosts or applications were accepted.
func (c *callbacks) accepted(n int, what string) error {
	timer := time.NewTimer(time.Minute)
	defer timer.Stop()
	for i := range n {
		select {
		case err := <-c.answered:
			if err != nil {
				return err
			}
		case <-timer.C:
			return fmt.Errorf("%d of %d %s were accepted after a minute", i, n, what)
		}
	}
	return nil
}

func (c *callbacks) UpdateAllocation(response *si.AllocationResponse) error {
	for _, a := range response.New {
		request, _, _ := strings.Cut(a.AllocationKey, "/")
		c.granted(request, 1)
	}
	return nil
}

func (c *callbacks) UpdateApplication(response *si.ApplicationResponse) error {
	for range response.Accepted {
		c.answered <- nil
	}
	for _, r := range response.Rejected {
		c.answered <- fmt.Errorf("application %s: %s", r.ApplicationID, r.Reason)
	}
	return nil
}

func (c *callbacks) UpdateNode(response *si.NodeResponse) error {
	for range response.Accepted {
		c.answered <- nil
	}
	for _, r := range response.Rejected {
		c.answered <- fmt.Errorf("host %s: %s", r.NodeID, r.Reason)
	}
	return nil
}

func (c *callbacks) Predicates(*si.PredicatesArgs) error { return nil }

// PreemptionPredicates is not called in these workloads: nothing is preempted.
func (c *callbacks) PreemptionPredicates(*si.PreemptionPredicatesArgs) *si.PreemptionPredicatesResponse {
	return &si.PreemptionPredicatesResponse{Success: false, Index: -1}
}

func (c *callbacks) SendEvent([]*si.EventRecord) {}

func (c *callbacks) UpdateContainerSchedulingState(*si.UpdateContainerSchedulingStateRequest) {}
