package contain

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/policy"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers/host"
)

// left is a driver with one cgroup from an earlier incarnation.
type left struct {
	cgroup.Driver

	removed, thawed []string
}

func (l *left) Name() string { return "left" }

func (l *left) Find(context.Context) ([]cgroup.Found, error) {
	return []cgroup.Found{{ID: "a", Path: "/bursar-engines/a"}}, nil
}

func (l *left) Facts(context.Context, string) (cgroup.Facts, error) {
	return cgroup.Facts{OOMKills: 2, AtLimit: true, MemoryMax: 40 << 20}, nil
}

func (l *left) Remove(_ context.Context, id string) error {
	l.removed = append(l.removed, id)
	return nil
}

func (l *left) Guarded(string) bool { return true }

func (l *left) Thaw(name string) error {
	l.thawed = append(l.thawed, name)
	return nil
}

func (l *left) Close() error { return nil }

// newCgroups returns the Cgroups of an agent without engines; the setting Way is way.
func newCgroups(t *testing.T, way string, driver cgroup.Driver) *Cgroups {
	t.Helper()
	var mu sync.Mutex
	books := tracker.New(time.Now(), tracker.Host{ID: "h1"}, tracker.Snapshot{})
	books.Measure(time.Now(), tracker.Measurement{Sample: &bursarv1.HostSample{}})
	c, err := New(Options{
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Proc: t.TempDir(), Driver: driver, Direct: &launch.Direct{},
		Settings: func() Settings { return Settings{Way: way} },
		Locked: func(f func(*tracker.Tracker)) {
			mu.Lock()
			defer mu.Unlock()
			f(books)
		},
		ScheduleSave: func() {}, Launching: func(string) bool { return false }, Stopped: func(string) bool { return false },
		Identify: func(int32) (host.Identity, error) { return host.Identity{}, host.ErrNoProcess },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// killsCounted returns the value of the metric of kills.
func killsCounted(t *testing.T, c *Cgroups) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	if err := registry.Register(c.kills); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatal(families, err)
	}
	return families[0].GetMetric()[0].GetCounter().GetValue()
}

func TestAnAgentWithoutCgroupsStartsKeepersItself(t *testing.T) {
	c := newCgroups(t, None, &left{})
	if by, limits := c.Spawner(t.Context(), nil, nil, false); by != c.options.Direct || limits != nil {
		t.Errorf("%v, %v", by, limits)
	}
	if c.Guarded(t.Context(), "a", "/bursar-engines/a") {
		t.Error("a cgroup is the agent's, though it makes none")
	}
}

// An agent may end between freezing a cgroup and thawing it.
func TestACgroupThatAnEarlierIncarnationLeftIsThawed(t *testing.T) {
	driver := &left{}
	c := newCgroups(t, Auto, driver)
	c.pass(t.Context())
	if len(driver.thawed) != 1 || driver.thawed[0] != "/bursar-engines/a" {
		t.Errorf("thawed: %q", driver.thawed)
	}
	if c.pass(t.Context()); len(driver.thawed) != 1 {
		t.Errorf("thawed while it may be frozen for a Stop: %q", driver.thawed)
	}
	if c.Freezer(t.Context(), "a", "/bursar-engines/a") == nil || c.Freezer(t.Context(), "a", "/elsewhere") != nil {
		t.Error("want a freezer for the agent's own cgroup, and for no other")
	}
}

// Another agent of this machine may be about to use it.
func TestACgroupThatNobodyKnowsStaysForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := &left{}
		c := newCgroups(t, Auto, driver)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Loop(ctx) }()
		c.ScheduleAll()
		synctest.Wait()
		if len(driver.removed) > 0 {
			t.Errorf("removed at once: %v", driver.removed)
		}
		time.Sleep(unknownPatience + time.Second)
		c.ScheduleAll()
		synctest.Wait()
		if len(driver.removed) != 1 {
			t.Errorf("removed: %v", driver.removed)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// The launcher of an engine and the agent may see at the same time that it has ended.
func TestTheSameKillIsCountedOnce(t *testing.T) {
	c := newCgroups(t, Auto, &left{})
	for range 2 {
		exit, lack := c.LackOfMemory(t.Context(), host.Engine{ID: "a"}, &bursarv1.ExitStatus{Signal: 9})
		if !exit.GetOutOfMemory() || !lack.Killed || lack.Words != ": its cgroup's limit of 40MiB" {
			t.Errorf("%v, %+v", exit, lack)
		}
	}
	if got := killsCounted(t, c); got != 2 {
		t.Errorf("%v kills are counted, want 2, as the kernel has", got)
	}
	for range 2 {
		c.countOnce("of no cgroup")
	}
	if got := killsCounted(t, c); got != 3 {
		t.Errorf("%v kills are counted, want one more", got)
	}
}

func TestLimitsAreThoseOfThePolicy(t *testing.T) {
	entitled := &bursarv1.Resource{MemoryBytes: new(int64(100 << 20)), CpuMillis: new(int64(1500))}
	all := cgroup.Limits{MemoryMax: 100 << 20, CPUMillis: 1500, CPUWeight: 150}
	for name, test := range map[string]struct {
		policy   policy.Policy
		limit    bool // the launcher has requested a limit
		entitled *bursarv1.Resource
		want     cgroup.Limits
	}{
		"observed":         {policy.Policy{}, false, entitled, cgroup.Limits{CPUWeight: 150}},
		"limited":          {policy.Policy{Action: policy.Limit}, false, entitled, all},
		"by its launcher":  {policy.Policy{Action: policy.Warn, Tolerance: 100}, true, entitled, all},
		"by both":          {policy.Policy{Action: policy.Limit, Tolerance: 100}, true, entitled, all},
		"and killed":       {policy.Policy{Action: policy.Kill, Tolerance: 100}, true, entitled, all},
		"the least weight": {policy.Policy{}, false, &bursarv1.Resource{CpuMillis: new(int64(1))}, cgroup.Limits{CPUWeight: 1}},
		"nothing":          {policy.Policy{}, false, nil, cgroup.Limits{}},
	} {
		if got := limitsOf(test.policy, test.limit, test.entitled); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestWhoseMemoryLackedIsSaidIfItIsKnown(t *testing.T) {
	own := cgroup.Facts{AtLimit: true, MemoryMax: 40 << 20}
	for name, test := range map[string]struct {
		kill   cgroup.Kill
		logged bool
		facts  cgroup.Facts
		want   string
	}{
		"nobody knows":              {want: ""},
		"its own, by its cgroup":    {facts: own, want: ": its cgroup's limit of 40MiB"},
		"its own, by the log":       {kill: cgroup.Kill{Limit: true, Cgroup: "/a"}, logged: true, facts: own, want: ": its cgroup's limit of 40MiB"},
		"another's, by the log":     {kill: cgroup.Kill{Limit: true, Cgroup: "/b"}, logged: true, facts: own, want: ": the limit of cgroup /b"},
		"the machine's, by the log": {logged: true, facts: own, want: ": the machine's"},
	} {
		if got := whoseMemory(test.kill, test.logged, "/a", test.facts); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
