package yarn_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bursar/bursar/providers"
	"github.com/bursar/bursar/test/yarn"
)

const fair = `<allocations>
<queueMaxAMShareDefault>-1.0</queueMaxAMShareDefault>
<queue name="default"><maxResources>16384 mb,16 vcores</maxResources></queue>
<queue name="a">
  <maxResources>32768 mb,32 vcores</maxResources>
  <queue name="a1"><minResources>4096 mb,4 vcores</minResources><maxResources>16384 mb,16 vcores</maxResources></queue>
  <queue name="a2"><queue name="deep"/><queue name="low"/></queue>
</queue>
<queue name="b"><maxRunningApps>1</maxRunningApps></queue>
<queue name="c"><maxResources>8192 mb,8 vcores</maxResources><maxAMShare>0.5</maxAMShare></queue>
</allocations>`

const fairUsed = `
root limit 65536/64 used 6144/6 guaranteed 0/0 apps 4=3+1
root.a limit 32768/32 used 5120/5 guaranteed 0/0 apps 2=2+0
root.a.a1 limit 16384/16 used 2048/2 guaranteed 4096/4 apps 1=1+0
root.a.a2 limit 65536/64 used 3072/3 guaranteed 0/0 apps 1=1+0
root.a.a2.deep limit 65536/64 used 3072/3 guaranteed 0/0 apps 1=1+0
root.a.a2.low limit 65536/64 used 0/0 guaranteed 0/0 apps 0=0+0
root.b limit 65536/64 used 1024/1 guaranteed 0/0 apps 2=1+1
root.c limit 8192/8 used 0/0 guaranteed 0/0 apps 0=0+0
root.default limit 16384/16 used 0/0 guaranteed 0/0 apps 0=0+0
`

// fairScheduler has queues of the FairScheduler. In one of them half is for masters. The answer
// shows that after the first attempt to start one; until then it is estimated.
func fairScheduler(version string) scenario {
	return scenario{name: "fair", fair: fair, run: func(t *testing.T, c *yarn.Cluster) {
		p := open(t, c, map[string]string{"undeclaredQueues": "none"})
		first := c.Submit(t, yarn.Application{Queue: "root.a.a1", MemoryMiB: 2048, VCores: 2})
		deep := c.Submit(t, yarn.Application{Queue: "root.a.a2.deep", MemoryMiB: 3072, VCores: 3, User: "bob"})
		only := c.Submit(t, yarn.Application{Queue: "root.b", MemoryMiB: 1024, VCores: 1})
		c.AwaitAllocated(t, first, deep, only)
		waits := c.Submit(t, yarn.Application{Queue: "root.b", MemoryMiB: 1024, VCores: 1})
		expectTheSameFromAList(t, p, first, deep, only, waits)
		want := fairUsed
		if version == yarn.Hadoop27 { // it gives a master one core, whatever was requested
			want = strings.NewReplacer("6144/6", "6144/3", "5120/5", "5120/2", "2048/2", "2048/1", "3072/3", "3072/1").Replace(want)
		}
		expect(t, p, want)
		held := `
known=true ended=false queue=root.a.a1 @* 2048/2
known=true ended=false queue=root.a.a2.deep @* 3072/3
known=true ended=false queue=root.b @* 0/0
`
		if version == yarn.Hadoop27 {
			held = strings.NewReplacer("2048/2", "2048/1", "3072/3", "3072/1").Replace(held)
		}
		expectApplications(t, p, held, first, deep, waits)
		keep(t, c, version+"-fair", map[string]string{
			"info": "info", "metrics": "metrics", "scheduler": "scheduler", "application": "apps/" + deep, "application-waits": "apps/" + waits,
		})
		c.Kill(t, first, deep, only, waits)
		expectApplications(t, p, `
known=true ended=true queue=root.a.a1
known=false ended=false queue=
`, first, "application_1_0001")

		idle, full := "limit 8192/8 masters 0/0 of 4096/4, a user -/- masters -/-", "limit 8192/8 masters 4096/4 of 4096/4, a user -/- masters -/-"
		if version == yarn.Hadoop27 { // not in its answer
			idle = "limit 8192/8 masters -/- of -/-, a user -/- masters -/-"
			full = idle
		}
		expectMasters(t, p, "root.c", idle)
		var apps []string
		for range 4 {
			apps = append(apps, c.Submit(t, yarn.Application{Queue: "root.c", MemoryMiB: 1024, VCores: 1}))
		}
		c.AwaitAllocated(t, apps...)
		waits = c.Submit(t, yarn.Application{Queue: "root.c", MemoryMiB: 1024, VCores: 1})
		expectMasters(t, p, "root.c", full)
		c.Kill(t, append(apps, waits)...)
	}}
}

// expectTheSameFromAList asks for applications one by one and then for many, which takes one
// request for all live ones. The answers must be the same.
func expectTheSameFromAList(t *testing.T, p providers.Provider, live ...string) {
	t.Helper()
	counted, is := p.(providers.Counted)
	if !is {
		t.Fatalf("a %T", p)
	}
	ask := func(ids []string, requests int64) []providers.Application {
		t.Helper()
		before := counted.Requests()
		list, err := p.Applications(t.Context(), ids)
		if sent := counted.Requests() - before; err != nil || sent != requests {
			t.Errorf("%d requests for %d applications, %v; want %d", sent, len(ids), err, requests)
		}
		return list
	}
	if _, err := p.Snapshot(t.Context()); err != nil { // to count the live applications
		t.Fatal(err)
	}
	one := ask(live, int64(len(live)))
	many := slices.Clone(live)
	for i := range live {
		many = append(many, fmt.Sprintf("application_1_000%d", i+1))
	}
	all := ask(many, 1+int64(len(live)))
	all = slices.DeleteFunc(all, func(a providers.Application) bool { return !a.Known })
	if fmt.Sprint(all) != fmt.Sprint(one) {
		t.Errorf("in a list they are %v, and one by one %v", all, one)
	}
}
