package yarn

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
)

// oldAnswer returns the answer of a CapacityScheduler of Hadoop 2.7: percentages and no total.
// labelled adds a partition as in 2.8 to 3.0.
func oldAnswer(labelled bool) string {
	capacities := ""
	if labelled {
		capacities = `,"capacities":{"queueCapacitiesByPartition":[
			{"partitionName":"","absoluteCapacity":50,"absoluteMaxCapacity":50},{"partitionName":"gpu","absoluteCapacity":100,"absoluteMaxCapacity":100}]}`
	}
	return `{"scheduler":{"schedulerInfo":{"type":"capacityScheduler","capacity":100.0,"usedCapacity":0.0,"maxCapacity":100.0,"queueName":"root","queues":{"queue":[
		{"type":"capacitySchedulerLeafQueueInfo","capacity":50.0,"usedCapacity":0.0,"maxCapacity":50.0,"absoluteCapacity":50.0,"absoluteMaxCapacity":50.0,"queueName":"a","state":"RUNNING",
		"resourcesUsed":{"memory":0,"vCores":0}` + capacities + `}]}}}}`
}

// limits returns the limits of root.a by partition.
func limits(s providers.Snapshot) map[string]string {
	list := map[string]string{}
	for _, q := range s.Queues {
		if q.Path == "root.a" {
			list[q.Partition] = text(q.Limit)
		}
	}
	return list
}

func text(v resource.Vector) string {
	var parts []string
	for dimension, quantity := range v.All() {
		switch dimension {
		case resource.Memory:
			parts = append(parts, resource.FormatMemory(quantity))
		case resource.CPU:
			parts = append(parts, resource.FormatCPU(quantity)+" cores")
		default:
			parts = append(parts, fmt.Sprintf("%d %s", quantity, dimension))
		}
	}
	return fmt.Sprint(parts)
}

func TestSizeOfTheClusterInItsOrder(t *testing.T) {
	const plain = `{"clusterMetrics":{"reservedMB":2048,"availableMB":10240,"allocatedMB":4096,"reservedVirtualCores":1,"availableVirtualCores":11,"allocatedVirtualCores":4,
		"containersReserved":7,"totalMB":14336,"totalVirtualCores":22,"activeNodes":2%s}}`
	const nodes = `{"nodes":{"node":[
		{"id":"a","state":"RUNNING","usedMemoryMB":4096,"availMemoryMB":4096,"usedVirtualCores":4,"availableVirtualCores":4},
		{"id":"b","state":"RUNNING","usedMemoryMB":0,"availMemoryMB":8192,"usedVirtualCores":0,"availableVirtualCores":8,"nodeLabels":[]%s},
		{"id":"c","state":"LOST","usedMemoryMB":0,"availMemoryMB":8192,"usedVirtualCores":0,"availableVirtualCores":8},
		{"id":"d","state":"RUNNING","usedMemoryMB":1024,"availMemoryMB":3072,"usedVirtualCores":1,"availableVirtualCores":3,"nodeLabels":["gpu"],
			"usedResource":{"memory":1024,"vCores":1,"resourceInformations":{"resourceInformation":[{"name":"yarn.io/gpu","units":"","value":1}]}},
			"availableResource":{"memory":3072,"vCores":3,"resourceInformations":{"resourceInformation":[{"name":"yarn.io/gpu","units":"","value":3}]}}}]}}`
	across := func(memory int) string {
		return fmt.Sprintf(`,"totalClusterResourcesAcrossPartition":{"memory":%d,"vCores":16,"resourceInformations":{"resourceInformation":[
			{"name":"memory-mb","units":"Mi","value":%d},{"name":"vcores","units":"","value":16},{"name":"yarn.io/gpu","units":"k","value":1}]}}`, memory, memory)
	}
	for name, c := range map[string]struct {
		labelled       bool
		metrics, nodes string
		want           map[string]string
		asked          string
	}{
		"all partitions are the default one": {
			false, fmt.Sprintf(plain, across(16<<10)), "", map[string]string{"": "[8GiB 8 cores 500 yarn.io/gpu]"}, "/metrics×1",
		},
		"all partitions are more than the default one": {
			false, fmt.Sprintf(plain, across(20<<10)), fmt.Sprintf(nodes, ""), map[string]string{"": "[8GiB 8 cores]"}, "/metrics×1 /nodes×1",
		},
		"the machines": {false, fmt.Sprintf(plain, ""), fmt.Sprintf(nodes, ""), map[string]string{"": "[8GiB 8 cores]"}, "/metrics×1 /nodes×1"},
		"the machines of each label": {
			true, fmt.Sprintf(plain, across(20<<10)), fmt.Sprintf(nodes, ""), map[string]string{"": "[8GiB 8 cores]", "gpu": "[4GiB 4 cores 4 yarn.io/gpu]"}, "/metrics×1 /nodes×1",
		},
		"a machine alone, no list": {
			false, fmt.Sprintf(plain, ""), `{"nodes":{"node":{"state":"RUNNING","usedMemoryMB":"1024","availMemoryMB":1024,"usedVirtualCores":0,"availableVirtualCores":2}}}`,
			map[string]string{"": "[1GiB 1 cores]"},
			"/metrics×1 /nodes×1",
		},
		"the machines may not be listed: the sums, not the totals": {false, fmt.Sprintf(plain, ""), "403", map[string]string{"": "[8GiB 8 cores]"}, "/metrics×1 /nodes×1"},
		"before there were cores": {
			false, `{"clusterMetrics":{"reservedMB":0,"availableMB":10240,"allocatedMB":6144,"totalMB":16384,"activeNodes":2}}`, "403", map[string]string{"": "[8GiB]"}, "/metrics×1 /nodes×1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			rm := newRM(t)
			rm.does("/scheduler", answerJSON(oldAnswer(c.labelled)))
			rm.does("/metrics", answerJSON(c.metrics))
			rm.does("/nodes", answerJSON(c.nodes))
			if c.nodes == "403" {
				rm.does("/nodes", answerWith(403, "no"))
			}
			s := snapshot(t, openAt(t, kind{}, []*fakeRM{rm}))
			if diff := cmp.Diff(c.want, limits(s)); diff != "" || s.Untrusted != "" {
				t.Errorf("untrusted %q, limits (-want +got):\n%s", s.Untrusted, diff)
			}
			asked := rm.takeAsked()
			maps.DeleteFunc(asked, func(path string, _ int) bool { return path == "/info" || path == "/scheduler" })
			if got := paths(asked); got != c.asked {
				t.Errorf("asked %s, want %s", got, c.asked)
			}
			if request := rm.request("/nodes"); request != nil && request.URL.RawQuery != "states=RUNNING" {
				t.Errorf("query of /nodes: %s", request.URL.RawQuery)
			}
		})
	}
}

func TestSizeThatIsNotKnownIsNotNothing(t *testing.T) {
	const metrics = `{"clusterMetrics":{"reservedMB":0,"availableMB":16384,"allocatedMB":0,"availableVirtualCores":16,"allocatedVirtualCores":0,"activeNodes":%d}}`
	rm := newRM(t)
	p := openAt(t, kind{}, []*fakeRM{rm})
	rm.does("/scheduler", answerJSON(oldAnswer(true)))
	rm.does("/metrics", answerJSON(fmt.Sprintf(metrics, 1)))
	rm.does("/nodes", answerWith(403, "no"))
	if s, err := p.Snapshot(t.Context()); err == nil {
		t.Errorf("with a partition of unknown size: %v", limits(s))
	}
	rm.does("/scheduler", answerJSON(oldAnswer(false)))
	rm.does("/nodes", answerWith(503, "not now"))
	if s, err := p.Snapshot(t.Context()); err == nil {
		t.Errorf("while the server fails: %v", limits(s))
	}
	rm.does("/metrics", answerJSON(`{}`))
	if s, err := p.Snapshot(t.Context()); err == nil {
		t.Errorf("without metrics: %v", limits(s))
	}
	// Empty lists in all their forms, and a cluster without machines.
	rm.does("/metrics", answerJSON(fmt.Sprintf(metrics, 0)))
	for _, body := range []string{`{"nodes":null}`, `{"nodes":{}}`, `{"nodes":{"node":[]}}`, `{"nodes":{"node":null}}`} {
		rm.does("/nodes", answerJSON(body))
		if s, err := p.Snapshot(t.Context()); err != nil || s.Untrusted == "" {
			t.Errorf("%s: %q, %v; want not to be trusted", body, s.Untrusted, err)
		}
	}
}

func TestMachinesAreCountedWhenTheClusterChanges(t *testing.T) {
	clock := newClock()
	rm := newRM(t)
	p := openAt(t, kind{now: clock.Now}, []*fakeRM{rm})
	metrics := func(available, active int) {
		rm.does("/metrics", answerJSON(fmt.Sprintf(`{"clusterMetrics":{"availableMB":%d,"allocatedMB":%d,"availableVirtualCores":4,"activeNodes":%d}}`, available, 4096-available, active)))
	}
	rm.does("/scheduler", answerJSON(oldAnswer(false)))
	rm.does("/nodes", answerJSON(`{"nodes":{"node":[{"state":"RUNNING","usedMemoryMB":0,"availMemoryMB":4096,"usedVirtualCores":0,"availableVirtualCores":4}]}}`))
	var counted []int
	for _, step := range []func(){
		func() { metrics(4096, 1) },
		func() { metrics(2048, 1) }, // an application starts: the same total
		func() { metrics(2048, 2) }, // a new machine
		func() { clock.advance(4 * time.Minute) },
		func() { clock.advance(time.Minute) }, // labels can change without a change of the metrics
	} {
		step()
		snapshot(t, p)
		counted = append(counted, rm.takeAsked()["/nodes"])
	}
	if want := []int{1, 0, 1, 0, 1}; !slices.Equal(counted, want) {
		t.Errorf("counted %v, want %v", counted, want)
	}
}
