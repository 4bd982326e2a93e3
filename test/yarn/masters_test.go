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

// applicationsOf writes what limits applications in a queue: of memory and cores of the queue, and
// of those of masters, in MiB/cores.
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

// expectMasters waits until a queue is as wanted.
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

// TestMastersByTheDefaultCalculator: a CapacityScheduler as Hadoop configures it looks at memory
// alone, which its limit for masters shows. What that limit allows starts, and no more.
func TestMastersByTheDefaultCalculator(t *testing.T) {
	for version, want := range map[string][2]string{
		yarn.Hadoop27: {
			"limit 65536/64 masters 0/0 of 6656/-, a user 65536/64 masters 6656/-",
			"limit 65536/64 masters 6144/3 of 6656/-, a user 65536/64 masters 6656/-",
		},
		yarn.Hadoop34: {
			"limit 65536/- masters 0/0 of 6656/-, a user 65536/- masters 6656/-",
			"limit 65536/- masters 6144/3 of 6656/-, a user 65536/- masters 6656/-",
		},
	} {
		t.Run(version, func(t *testing.T) {
			c := yarn.Start(t, yarn.Options{Version: version, Capacity: map[string]string{
				"resource-calculator": "org.apache.hadoop.yarn.util.resource.DefaultResourceCalculator", "maximum-am-resource-percent": "0.1",
				"root.queues": "default", "root.default.capacity": "100", "root.default.user-limit-factor": "1",
			}})
			p := open(t, c, map[string]string{"smallestContainer": "memory=128MiB,cpu=1"})
			expectMasters(t, p, "root.default", want[0])
			var apps []string
			for range 3 {
				apps = append(apps, c.Submit(t, yarn.Application{Queue: "default", MemoryMiB: 2048, VCores: 30}))
			}
			c.AwaitAllocated(t, apps...)
			waits := c.Submit(t, yarn.Application{Queue: "default", MemoryMiB: 1024, VCores: 1})
			expectMasters(t, p, "root.default", want[1])
			c.Kill(t, append(apps, waits)...)
		})
	}
}

// TestMastersOfTheFairScheduler: half of a queue is for masters. The answer tells that once one was
// to start; until then it is estimated.
func TestMastersOfTheFairScheduler(t *testing.T) {
	c := yarn.Start(t, yarn.Options{Fair: `<allocations><queue name="a"><maxResources>8192 mb,8 vcores</maxResources></queue></allocations>`})
	p := open(t, c, nil)
	expectMasters(t, p, "root.a", "limit 8192/8 masters 0/0 of 4096/4, a user -/- masters -/-")
	var apps []string
	for range 4 {
		apps = append(apps, c.Submit(t, yarn.Application{Queue: "root.a", MemoryMiB: 1024, VCores: 1}))
	}
	c.AwaitAllocated(t, apps...)
	waits := c.Submit(t, yarn.Application{Queue: "root.a", MemoryMiB: 1024, VCores: 1})
	expectMasters(t, p, "root.a", "limit 8192/8 masters 4096/4 of 4096/4, a user -/- masters -/-")
	c.Kill(t, append(apps, waits)...)
}
