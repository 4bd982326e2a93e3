package main

import (
	"fmt"
	"strconv"

	"github.com/bursar/bursar/bench/peers"
)

// The parts of the core's configuration that are used, with its names.
type (
	partitions struct {
		Partitions []partition `json:"partitions"`
	}
	partition struct {
		Name   string  `json:"name"`
		Queues []queue `json:"queues"`
	}
	queue struct {
		Name      string    `json:"name"`
		SubmitACL string    `json:"submitacl,omitempty"`
		Resources resources `json:"resources,omitzero"`
		Limits    []limit   `json:"limits,omitempty"`
		Queues    []queue   `json:"queues,omitempty"`
	}
	resources struct {
		Max map[string]string `json:"max"`
	}
	limit struct {
		Limit        string            `json:"limit"`
		Users        []string          `json:"users"`
		MaxResources map[string]string `json:"maxresources"`
	}
)

// configuration returns one partition whose root queue has the queues of the workload.
func configuration(c peers.Cluster) partitions {
	root := queue{Name: "root", SubmitACL: "*"}
	for _, q := range c.Queues {
		leaf := queue{Name: q.Name}
		if q.Limit != (peers.Quantities{}) {
			leaf.Resources.Max = amounts(q.Limit)
		}
		if q.PerUser != (peers.Quantities{}) {
			leaf.Limits = []limit{{Limit: "each user", Users: []string{"*"}, MaxResources: amounts(q.PerUser)}}
		}
		root.Queues = append(root.Queues, leaf)
	}
	return partitions{Partitions: []partition{{Name: "default", Queues: []queue{root}}}}
}

// amounts omits quantities without a limit.
func amounts(q peers.Quantities) map[string]string {
	m := make(map[string]string)
	if q.Memory > 0 {
		m["memory"] = strconv.FormatInt(q.Memory, 10)
	}
	if q.CPU > 0 {
		m["vcore"] = fmt.Sprintf("%dm", q.CPU)
	}
	return m
}
