package main

import (
	"embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/internal/yamlfile"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

//go:embed workloads
var workloads embed.FS

// workload is one file of workloads/. The file itself describes its fields.
type workload struct {
	Seed    uint64         `yaml:"seed"`
	Hosts   int            `yaml:"hosts"`
	Racks   int            `yaml:"racks"` // 0: hosts have no labels
	Fleets  []int          `yaml:"fleets"`
	Clients []int          `yaml:"clients"`
	Host    quantities     `yaml:"host"`
	Quotas  []quota        `yaml:"quotas"`
	Labels  map[string]int `yaml:"labels"`
	Request quantities     `yaml:"request"`
	Sizes   int            `yaml:"sizes"`
	Bursts  []burst        `yaml:"bursts"`
	Groups  int            `yaml:"groups"`
	Depths  []int          `yaml:"depths"`
	Drain   int            `yaml:"drain"`

	Live       int `yaml:"live"`
	Waiting    int `yaml:"waiting"`
	Remembered int `yaml:"remembered"`
	History    int `yaml:"history"`
	Batch      int `yaml:"batch"`

	Engines   int `yaml:"engines"`
	Many      int `yaml:"many"`
	Processes int `yaml:"processes"`

	Connections int `yaml:"connections"`
	// Readers are the readers of output: Callers callers with Each readers each, and as many more
	// that receive nothing.
	Readers struct {
		Callers int `yaml:"callers"`
		Each    int `yaml:"each"`
	} `yaml:"readers"`

	Queues []int      `yaml:"queues"`
	Polled []int      `yaml:"polled"`
	Part   quantities `yaml:"part"`

	Members   int   `yaml:"members"`
	Handovers int   `yaml:"handovers"`
	Rows      []int `yaml:"rows"`

	Every    time.Duration `yaml:"every"`
	RunIn    time.Duration `yaml:"runIn"`
	RunOut   time.Duration `yaml:"runOut"`
	Tick     time.Duration `yaml:"tick"`
	Scaled   time.Duration `yaml:"scaled"`
	Duration time.Duration `yaml:"duration"`
	Window   int           `yaml:"window"`
	Rounds   int           `yaml:"rounds"`
}

type quantities map[string]yamlfile.Scalar

type quota struct {
	Selector map[string]yamlfile.Scalar `yaml:"selector"`
	Limit    quantities                 `yaml:"limit"`
}

type burst struct {
	Hosts    int `yaml:"hosts"`
	Groups   int `yaml:"groups"`
	Requests int `yaml:"requests"`

	Within time.Duration `yaml:"within"`
}

// readWorkload reads workloads/NAME.yaml.
func readWorkload(name string) (*workload, error) {
	path := "workloads/" + name + ".yaml"
	data, err := workloads.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	document, err := yamlfile.Parse(path, data)
	if err != nil {
		return nil, err
	}
	w := &workload{}
	return w, document.Decode(w)
}

func (q quantities) vector() (resource.Vector, error) {
	return resource.ParseVector(texts(q))
}

func texts(m map[string]yamlfile.Scalar) map[string]string {
	list := make(map[string]string, len(m))
	for key, value := range m {
		list[key] = value.String()
	}
	return list
}

// quotas returns the workload's rules.
func (w *workload) quotas() ([]ledger.Quota, error) {
	list := make([]ledger.Quota, 0, len(w.Quotas))
	for _, q := range w.Quotas {
		selector, err := label.NewSelector(texts(q.Selector))
		if err != nil {
			return nil, fmt.Errorf("workload: %w", err)
		}
		limit, err := q.Limit.vector()
		if err != nil {
			return nil, fmt.Errorf("workload: %s: %w", selector, err)
		}
		list = append(list, ledger.Quota{Selector: selector, Limit: limit})
	}
	return list, nil
}

// labels returns the labels of request number i.
func (w *workload) labels(i int) map[string]string {
	set := make(map[string]string, len(w.Labels))
	for key, values := range w.Labels {
		set[key] = key + "-" + strconv.Itoa(i%values)
	}
	return set
}

// sets returns the label sets of the requests: request number i has the set at index i modulo their
// number.
func (w *workload) sets() ([]label.Set, error) {
	n := 1
	for _, values := range slices.Sorted(maps.Values(w.Labels)) {
		n = lcm(n, values)
	}
	list := make([]label.Set, n)
	for i := range list {
		set, err := label.FromMap(w.labels(i))
		if err != nil {
			return nil, fmt.Errorf("workload: %w", err)
		}
		list[i] = set
	}
	return list, nil
}

func lcm(a, b int) int {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}

// request returns the requested resource.
func (w *workload) request() (resource.Resource, error) {
	v, err := w.Request.vector()
	return resource.Resource{Vector: v}, err
}
