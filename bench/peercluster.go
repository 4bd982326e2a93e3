package main

import (
	"fmt"

	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

// loopApps returns the applications of so many clients of a closed loop: client number i has the
// labels of request number i.
func (w *workload) loopApps(clients int) []peerApp {
	list := make([]peerApp, clients)
	for i := range list {
		labels := w.labels(i)
		list[i] = peerApp{labels["queue"], labels["user"]}
	}
	return list
}

// burstApps returns one application for each group of a burst.
func burstApps(groups int) []peerApp {
	list := make([]peerApp, groups)
	for i := range list {
		list[i] = peerApp{fmt.Sprint("queue-", i), fmt.Sprint("user-", i)}
	}
	return list
}

// cluster returns the cluster for a peer: the hosts, and each queue that an application names. The
// rule that names a queue applies to it, else the rule for all queues.
func (w *workload) cluster(hosts int, apps []peerApp) (*peerCluster, error) {
	capacity, err := w.Host.vector()
	if err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	quotas, err := w.quotas()
	if err != nil {
		return nil, err
	}
	c := &peerCluster{Hosts: hosts, Host: peerAmounts(capacity), Apps: apps}
	known := make(map[string]bool)
	for _, app := range apps {
		if known[app.Queue] {
			continue
		}
		known[app.Queue] = true
		q := peerQueue{Name: app.Queue}
		for _, rule := range quotas {
			queue, user := rule.Selector.Labels().Value("queue"), rule.Selector.Labels().Value("user")
			switch {
			case queue == label.Any && user == label.Any:
				q.PerUser = peerAmounts(rule.Limit)
			case user == "" && (queue == app.Queue || queue == label.Any && q.Limit == peerQuantities{}):
				q.Limit = peerAmounts(rule.Limit)
			}
		}
		c.Queues = append(c.Queues, q)
	}
	return c, nil
}

func peerAmounts(v resource.Vector) peerQuantities { return peerQuantities{v.Memory(), v.CPU()} }
