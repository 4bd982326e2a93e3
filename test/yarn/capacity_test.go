package yarn_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bursar/bursar/test/yarn"
)

// percent is a tree of three levels. On one node of 64 GiB and 64 cores, all shares are whole
// except those of b1 and b2.
var percent = map[string]string{
	"root.queues":           "default,a,b",
	"root.default.capacity": "25",
	"root.a.capacity":       "50", "root.a.maximum-capacity": "75", "root.a.queues": "a1,a2",
	"root.a.a1.capacity": "25", "root.a.a1.maximum-capacity": "50",
	"root.a.a2.capacity": "75",
	"root.b.capacity":    "25", "root.b.queues": "b1,b2",
	"root.b.b1.capacity": "30", "root.b.b2.capacity": "70", "root.b.b2.maximum-capacity": "70",
}

// withTemplate is percent, but half of root.default belongs to a queue that creates queues for
// users from a template when applications are submitted to root.default.
func withTemplate() map[string]string {
	queues := maps.Clone(percent)
	maps.Copy(queues, map[string]string{
		"root.queues": "default,a,b,t", "root.default.capacity": "12.5", "root.t.capacity": "12.5", "root.t.auto-create-child-queue.enabled": "true",
		"root.t.leaf-queue-template.capacity": "25", "root.t.leaf-queue-template.maximum-capacity": "50",
		"queue-mappings": "u:%user:root.t.%user",
	})
	return queues
}

const percentIdle = `
root limit 65536/64 used 0/0 guaranteed 65536/64 apps 0=0+0
root.a limit 49152/48 used 0/0 guaranteed 32768/32 apps 0=0+0 RUNNING
root.a.a1 limit 24576/24 used 0/0 guaranteed 8192/8 apps 0=0+0 RUNNING
root.a.a2 limit 49152/48 used 0/0 guaranteed 24576/24 apps 0=0+0 RUNNING
root.b limit 65536/64 used 0/0 guaranteed 16384/16 apps 0=0+0 RUNNING
root.b.b1 limit 65536/64 used 0/0 guaranteed 4915/4 apps 0=0+0 RUNNING
root.b.b2 limit 45875/44 used 0/0 guaranteed 11468/11 apps 0=0+0 RUNNING
root.default limit 65536/64 used 0/0 guaranteed 16384/16 apps 0=0+0 RUNNING
`

const percentUsed = `
root limit 65536/64 used 7168/7 guaranteed 65536/64 apps 4=3+1
root.a limit 49152/48 used 3072/3 guaranteed 32768/32 apps 3=2+1 RUNNING
root.a.a1 limit 24576/24 used 3072/3 guaranteed 8192/8 apps 3=2+1 RUNNING
root.a.a2 limit 49152/48 used 0/0 guaranteed 24576/24 apps 0=0+0 RUNNING
root.b limit 65536/64 used 4096/4 guaranteed 16384/16 apps 1=1+0 RUNNING
root.b.b1 limit 65536/64 used 4096/4 guaranteed 4915/4 apps 1=1+0 RUNNING
root.b.b2 limit 45875/44 used 0/0 guaranteed 11468/11 apps 0=0+0 RUNNING
root.default limit 65536/64 used 0/0 guaranteed 16384/16 apps 0=0+0 RUNNING
`

const percentOver = `
root limit 65536/64 used 4096/4 guaranteed 65536/64 apps 1=1+0
root.a limit 49152/48 used 0/0 guaranteed 32768/32 apps 0=0+0 RUNNING
root.a.a1 limit 24576/24 used 0/0 guaranteed 8192/8 apps 0=0+0 RUNNING
root.a.a2 limit 49152/48 used 0/0 guaranteed 24576/24 apps 0=0+0 RUNNING
root.b limit 65536/64 used 4096/4 guaranteed 16384/16 apps 1=1+0 RUNNING
root.b.b1 limit 65536/64 used 4096/4 guaranteed 4915/4 apps 1=1+0 RUNNING
root.b.b2 limit 45875/44 used 0/0 guaranteed 11468/11 apps 0=0+0 RUNNING
root.default limit 65536/64 used 0/0 guaranteed 16384/16 apps 0=0+0 RUNNING
`

// templated reports whether this package tests queues from a template with a version.
func templated(version string) bool { return version == yarn.Hadoop33 || version == yarn.Hadoop34 }

// inPercent has queues with shares in percent, one of which is closed; in some versions also one
// that creates others from a template.
func inPercent(version string) scenario {
	s := scenario{name: "capacity in percent", capacity: percent, run: func(t *testing.T, c *yarn.Cluster) {
		p := open(t, c, nil)
		// made adds the queue with a template, before it has created a queue.
		made := func(queues string) string { return queues }
		if templated(version) {
			made = func(queues string) string {
				const standard = "root.default limit 65536/64 used 0/0 guaranteed "
				return strings.Replace(queues, standard+"16384/16", standard+"8192/8", 1) +
					"root.t limit 65536/64 used 0/0 guaranteed 8192/8 apps 0 RUNNING creates\n"
			}
		}
		expect(t, p, made(percentIdle))

		first := c.Submit(t, yarn.Application{Queue: "a1", MemoryMiB: 2048, VCores: 2})
		second := c.Submit(t, yarn.Application{Queue: "a1", MemoryMiB: 1024, VCores: 1, User: "bob"})
		other := c.Submit(t, yarn.Application{Queue: "b1", MemoryMiB: 4096, VCores: 4})
		c.AwaitAllocated(t, first, second, other)
		// 1 GiB more than is free
		waits := c.Submit(t, yarn.Application{Queue: "a1", MemoryMiB: 22528, VCores: 1})
		expect(t, p, made(percentUsed))
		keep(t, c, version+"-capacity-percent", map[string]string{
			"info": "info", "metrics": "metrics", "scheduler": "scheduler", "nodes": "nodes", "application": "apps/" + first, "application-waits": "apps/" + waits,
		})

		expectApplications(t, p, answered(version, `
known=true ended=false queue=root.a.a1 @ 2048/2
known=true ended=false queue=root.b.b1 @ 4096/4
`), first, other)
		// The closed queue keeps its applications, and takes no new ones.
		c.SetQueue(t, "root.a", map[string]string{"state": "STOPPED"})
		busy := percentUsed
		if slices.Contains([]string{yarn.Hadoop27, yarn.Hadoop210, yarn.Hadoop33}, version) {
			// After a reload the queues count an application without a container as active.
			busy = strings.NewReplacer("4=3+1", "4=4+0", "3=2+1", "3=3+0").Replace(busy)
		}
		expect(t, p, stopped(version, made(busy), "DRAINING"))
		if said := c.Refused(t, yarn.Application{Queue: "a2", MemoryMiB: 1024, VCores: 1}); !strings.Contains(said, "is STOPPED") {
			t.Errorf("refused for another reason: %s", said)
		}
		keep(t, c, version+"-capacity-stopped", map[string]string{"info": "info", "scheduler": "scheduler"})
		c.Kill(t, first, second, waits)
		expect(t, p, stopped(version, made(percentOver), "STOPPED"))
		if !templated(version) {
			return
		}
		mapped := c.Submit(t, yarn.Application{Queue: "default", MemoryMiB: 2048, VCores: 2})
		c.AwaitAllocated(t, mapped)
		expect(t, p, strings.NewReplacer(
			"used 4096/4 guaranteed 65536/64 apps 1=1+0", "used 6144/6 guaranteed 65536/64 apps 2=2+0",
			"root.t limit 65536/64 used 0/0 guaranteed 8192/8 apps 0 RUNNING creates",
			"root.t limit 65536/64 used 2048/2 guaranteed 8192/8 apps 1=1+0 RUNNING creates\n"+
				"root.t.alice limit 32768/32 used 2048/2 guaranteed 2048/2 apps 1=1+0 RUNNING",
		).Replace(stopped(version, made(percentOver), "STOPPED")))
		keep(t, c, version+"-capacity-template", map[string]string{"info": "info", "scheduler": "scheduler", "application": "apps/" + mapped})
	}}
	if templated(version) {
		s.capacity = withTemplate()
	}
	return s
}

// stopped changes the states of root.a and the queues below it. Hadoop 2.7 has no state for a
// closed queue with applications, and does not report the states of those below.
func stopped(version, queues, state string) string {
	if version == yarn.Hadoop27 {
		return regexp.MustCompile(`(?m)^(root\.a .*) RUNNING$`).ReplaceAllString(queues, "$1 STOPPED closed")
	}
	queues = regexp.MustCompile(`(?m)^(root\.a(\.a1)? .*) RUNNING$`).ReplaceAllString(queues, "$1 "+state+" closed")
	return regexp.MustCompile(`(?m)^(root\.a\.a2 .*) RUNNING$`).ReplaceAllString(queues, "$1 STOPPED closed")
}

// answered returns the expected answer for applications with resources in the default partition.
// Before 3.4 the queue has its name at the time of submission; before 2.8 there are no partitions.
func answered(version, lines string) string {
	if version == yarn.Hadoop27 {
		lines = strings.ReplaceAll(lines, " @ ", " @* ")
	}
	if slices.Contains([]string{yarn.Hadoop27, yarn.Hadoop210, yarn.Hadoop33}, version) {
		lines = regexp.MustCompile(`queue=root\.([a-z0-9]+\.)*`).ReplaceAllString(lines, "queue=")
	}
	return lines
}

// inAbsoluteResources has queues whose shares are quantities.
func inAbsoluteResources(version string) scenario {
	return scenario{name: "absolute resources", capacity: map[string]string{
		"root.queues":     "a,b",
		"root.a.capacity": "[memory=32768,vcores=32]", "root.a.maximum-capacity": "[memory=49152,vcores=40]", "root.a.queues": "a1,a2",
		"root.a.a1.capacity": "[memory=8192,vcores=8]", "root.a.a1.maximum-capacity": "[memory=16384,vcores=10]",
		"root.a.a2.capacity": "[memory=24576,vcores=24]",
		"root.b.capacity":    "[memory=32768,vcores=32]",
	}, run: func(t *testing.T, c *yarn.Cluster) {
		p := open(t, c, nil)
		id := c.Submit(t, yarn.Application{Queue: "a1", MemoryMiB: 10240, VCores: 9})
		c.AwaitAllocated(t, id)
		// One core more than is free.
		waits := c.Submit(t, yarn.Application{Queue: "a1", MemoryMiB: 1024, VCores: 2})
		expect(t, p, `
root limit 65536/64 used 10240/9 guaranteed 65536/64 apps 2=1+1
root.a limit 49152/40 used 10240/9 guaranteed 32768/32 apps 2=1+1 RUNNING
root.a.a1 limit 16384/10 used 10240/9 guaranteed 8192/8 apps 2=1+1 RUNNING
root.a.a2 limit 49152/40 used 0/0 guaranteed 24576/24 apps 0=0+0 RUNNING
root.b limit 65536/64 used 0/0 guaranteed 32768/32 apps 0=0+0 RUNNING
`)
		keep(t, c, version+"-capacity-absolute", map[string]string{
			"info": "info", "scheduler": "scheduler", "application": "apps/" + id, "application-waits": "apps/" + waits,
		})
	}}
}

// inWeights has queues with weights, which are created on first use.
func inWeights(version string) scenario {
	return scenario{name: "weights", capacity: map[string]string{
		"root.queues":     "a,b",
		"root.a.capacity": "3w", "root.a.queues": "a1", "root.a.auto-queue-creation-v2.enabled": "true",
		"root.a.a1.capacity": "1w",
		"root.b.capacity":    "1w", "root.b.maximum-capacity": "50",
	}, run: func(t *testing.T, c *yarn.Cluster) {
		p := open(t, c, nil)
		expect(t, p, `
root limit 65536/64 used 0/0 guaranteed 65536/64 apps 0=0+0
root.a limit 65536/64 used 0/0 guaranteed 49152/48 apps 0=0+0 RUNNING creates
root.a.a1 limit 65536/64 used 0/0 guaranteed 49152/48 apps 0=0+0 RUNNING
root.b limit 32768/32 used 0/0 guaranteed 16384/16 apps 0=0+0 RUNNING
`)
		id := c.Submit(t, yarn.Application{Queue: "root.a.made.here", MemoryMiB: 2048, VCores: 2})
		c.AwaitAllocated(t, id)
		expect(t, p, `
root limit 65536/64 used 2048/2 guaranteed 65536/64 apps 1=1+0
root.a limit 65536/64 used 2048/2 guaranteed 49152/48 apps 1=1+0 RUNNING creates
root.a.a1 limit 65536/64 used 0/0 guaranteed 24576/24 apps 0=0+0 RUNNING
root.a.made limit 65536/64 used 2048/2 guaranteed 24576/24 apps 1=1+0 RUNNING creates
root.a.made.here limit 65536/64 used 2048/2 guaranteed 24576/24 apps 1=1+0 RUNNING
root.b limit 32768/32 used 0/0 guaranteed 16384/16 apps 0=0+0 RUNNING
`)
		keep(t, c, version+"-capacity-weight", map[string]string{"info": "info", "scheduler": "scheduler", "application": "apps/" + id})
	}}
}

func TestPartitions(t *testing.T) {
	t.Parallel()
	for _, version := range []string{yarn.Hadoop210, yarn.Hadoop33, yarn.Hadoop34, yarn.Hadoop35} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := yarn.Start(t, yarn.Options{
				Version: version,
				Nodes:   []yarn.Node{{MemoryMiB: 32768, VCores: 32}, {MemoryMiB: 16384, VCores: 16, Partition: "gpu"}},
				Capacity: map[string]string{
					"root.queues": "a,b", "root.accessible-node-labels": "gpu", "root.accessible-node-labels.gpu.capacity": "100",
					"root.a.capacity": "50", "root.a.accessible-node-labels": "gpu",
					"root.a.accessible-node-labels.gpu.capacity": "25", "root.a.accessible-node-labels.gpu.maximum-capacity": "50",
					"root.b.capacity": "50", "root.b.maximum-capacity": "75", "root.b.accessible-node-labels": "gpu",
					"root.b.accessible-node-labels.gpu.capacity": "75", "root.b.default-node-label-expression": "gpu",
				},
			})
			p := open(t, c, nil)
			plain := c.Submit(t, yarn.Application{Queue: "a", MemoryMiB: 1024, VCores: 1})
			labelled := c.Submit(t, yarn.Application{Queue: "a", MemoryMiB: 2048, VCores: 2, Partition: "gpu"})
			// Without a partition in the request, the REST API uses none: the queue's default
			// applies only to other clients.
			other := c.Submit(t, yarn.Application{Queue: "b", MemoryMiB: 4096, VCores: 4})
			c.AwaitAllocated(t, plain, labelled, other)
			expect(t, p, `
root limit 32768/32 used 5120/5 guaranteed 32768/32 apps 3=3+0
root@gpu limit 16384/16 used 2048/2 guaranteed 16384/16 apps 3=3+0
root.a limit 32768/32 used 1024/1 guaranteed 16384/16 apps 2=2+0 RUNNING
root.a@gpu limit 8192/8 used 2048/2 guaranteed 4096/4 apps 2=2+0 RUNNING
root.b limit 24576/24 used 4096/4 guaranteed 16384/16 apps 1=1+0 RUNNING default@gpu
root.b@gpu limit 16384/16 used 0/0 guaranteed 12288/12 apps 1=1+0 RUNNING default@gpu
`)
			expectApplications(t, p, answered(version, `
known=true ended=false queue=root.a @ 1024/1
known=true ended=false queue=root.a @ 0/0 @gpu 2048/2
known=true ended=false queue=root.b @ 4096/4
`), plain, labelled, other)
			keep(t, c, version+"-capacity-partition", map[string]string{
				"info": "info", "metrics": "metrics", "scheduler": "scheduler", "nodes": "nodes",
				"application": "apps/" + labelled, "application-plain": "apps/" + plain,
			})
		})
	}
}

func TestCustomResourcesAndReservations(t *testing.T) {
	t.Parallel()
	c := yarn.Start(t, yarn.Options{
		Nodes:    []yarn.Node{{MemoryMiB: 8192, VCores: 8, Custom: map[string]int{"yarn.io/gpu": 4}}, {MemoryMiB: 8192, VCores: 8}},
		Capacity: map[string]string{"root.queues": "a,b", "root.a.capacity": "50", "root.b.capacity": "50"},
	})
	p := open(t, c, nil)
	id := c.SubmitShell(t, yarn.Shell{Queue: "root.b", Containers: 2, MemoryMiB: 256, VCores: 1, Custom: map[string]int{"yarn.io/gpu": 1}})
	expect(t, p, `
root limit 16384/16/yarn.io/gpu=4 used 1024/3/yarn.io/gpu=2 guaranteed 16384/16/yarn.io/gpu=4 apps 1=1+0
root.a limit 16384/16/yarn.io/gpu=4 used 0/0/yarn.io/gpu=0 guaranteed 8192/8/yarn.io/gpu=2 apps 0=0+0 RUNNING
root.b limit 16384/16/yarn.io/gpu=4 used 1024/3/yarn.io/gpu=2 guaranteed 8192/8/yarn.io/gpu=2 apps 1=1+0 RUNNING
`)
	keep(t, c, yarn.Hadoop34+"-capacity-gpu", map[string]string{
		"info": "info", "scheduler": "scheduler", "application": "apps/" + id,
	})
	c.Kill(t, id)
	// Two applications fill more than half of each node. The third would fit into the rest of both
	// together, and is reserved on one.
	one := c.Submit(t, yarn.Application{Queue: "root.a", MemoryMiB: 5120, VCores: 1})
	two := c.Submit(t, yarn.Application{Queue: "root.a", MemoryMiB: 5120, VCores: 1})
	c.AwaitAllocated(t, one, two)
	c.Submit(t, yarn.Application{Queue: "root.a", MemoryMiB: 4096, VCores: 1})
	expect(t, p, `
root limit 16384/16/yarn.io/gpu=4 used 14336/3/yarn.io/gpu=0 guaranteed 16384/16/yarn.io/gpu=4 apps 3=3+0
root.a limit 16384/16/yarn.io/gpu=4 used 14336/3/yarn.io/gpu=0 guaranteed 8192/8/yarn.io/gpu=2 apps 3=3+0 RUNNING
root.b limit 16384/16/yarn.io/gpu=4 used 0/0/yarn.io/gpu=0 guaranteed 8192/8/yarn.io/gpu=2 apps 0=0+0 RUNNING
`)
	keep(t, c, yarn.Hadoop34+"-capacity-reserved", map[string]string{"info": "info", "scheduler": "scheduler"})
}
