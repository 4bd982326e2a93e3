package yarn_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/resource"
	"github.com/bursar/bursar/test/yarn"
)

// applicationsOf formats the limits on applications in a queue: memory and cores of the queue, and
// of masters, in MiB/cores.
func applicationsOf(q *providers.Queue) string {
	of := func(v resource.Vector, memory, cpu string) string {
		text := ""
		for _, d := range []struct {
			dimension string
			unit      int64
		}{{memory, 1 << 20}, {cpu, 1000}} {
			if n, set := v.Get(d.dimension); set {
				text += fmt.Sprintf("/%d", n/d.unit)
			} else {
				text += "/-"
			}
		}
		return text[1:]
	}
	return fmt.Sprintf("limit %s masters %s of %s, a user %s masters %s", of(q.Limit, resource.Memory, resource.CPU),
		of(q.Used, resource.AMMemory, resource.AMCPU), of(q.Limit, resource.AMMemory, resource.AMCPU),
		of(q.UserLimit, resource.Memory, resource.CPU), of(q.UserLimit, resource.AMMemory, resource.AMCPU))
}

// expectMasters waits until a queue is as expected.
func expectMasters(t *testing.T, p providers.Provider, path, want string) {
	t.Helper()
	got := ""
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("want %s\nlast %s", want, got)
		}
	})
	yarn.Await(t, path+": "+want, func() bool {
		s, err := p.Snapshot(context.WithoutCancel(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(s.Queues, func(q providers.Queue) bool { return q.Path == path })
		if i < 0 {
			return false
		}
		got = applicationsOf(&s.Queues[i])
		return s.Untrusted == "" && got == want
	})
}

// byTheDefaultCalculator has a CapacityScheduler with Hadoop's default: it compares only memory, as
// its limit for masters shows. Exactly the applications within that limit start.
func byTheDefaultCalculator(version string) scenario {
	cores := "-"
	if version == yarn.Hadoop27 { // its answer does not show it
		cores = "64"
	}
	return scenario{name: "the default calculator", capacity: map[string]string{
		"resource-calculator": "org.apache.hadoop.yarn.util.resource.DefaultResourceCalculator", "maximum-am-resource-percent": "0.1",
		"root.queues": "default", "root.default.capacity": "100", "root.default.user-limit-factor": "1",
	}, run: func(t *testing.T, c *yarn.Cluster) {
		p := open(t, c, map[string]string{"smallestContainer": "memory=128MiB,cpu=1"})
		const limits = "limit 65536/%[1]s masters %[2]s of 6656/-, a user 65536/%[1]s masters 6656/-"
		expectMasters(t, p, "root.default", fmt.Sprintf(limits, cores, "0/0"))
		var apps []string
		for range 3 {
			apps = append(apps, c.Submit(t, yarn.Application{Queue: "default", MemoryMiB: 2048, VCores: 30}))
		}
		c.AwaitAllocated(t, apps...)
		waits := c.Submit(t, yarn.Application{Queue: "default", MemoryMiB: 1024, VCores: 1})
		expectMasters(t, p, "root.default", fmt.Sprintf(limits, cores, "6144/3"))
		c.Kill(t, append(apps, waits)...)
	}}
}
