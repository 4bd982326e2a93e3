package contain

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/agent/policy"
	"github.com/bursar/bursar/agent/tracker"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers/host"
)

// limited is a driver whose kernel sometimes refuses or changes a limit.
type limited struct {
	cgroup.Driver

	mu    sync.Mutex
	busy  bool  // a limit is refused
	other int64 // the kernel has this limit instead of the one that was set; 0: the one that was set
	has   int64
	tries []time.Time
}

func (l *limited) Name() string { return "limited" }

func (l *limited) Find(context.Context) ([]cgroup.Found, error) { return nil, nil }

func (l *limited) Adopt(_ context.Context, _ string, limits cgroup.Limits, _ cgroup.Members) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tries = append(l.tries, time.Now())
	if l.busy {
		return "/bursar-engines/a.adopted", cgroup.ErrInUse
	}
	if l.has = limits.MemoryMax; l.other > 0 {
		l.has = l.other
	}
	return "/bursar-engines/a.adopted", nil
}

func (l *limited) Facts(context.Context, string) (cgroup.Facts, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return cgroup.Facts{MemoryMax: l.has}, nil
}

func (l *limited) Close() error { return nil }

// limitedEngine starts an engine that its policy limits to 100 MiB. It also returns the tracker's
// view of the limit.
func limitedEngine(t *testing.T, driver cgroup.Driver) (c *Cgroups, holds func() int64) {
	t.Helper()
	c = newCgroups(t, Auto, driver)
	limit := policy.Default()
	limit.Action, limit.Cgroup = policy.Limit, policy.CgroupAlways
	policies := policy.Set{limit}
	c.options.Settings = func() Settings { return Settings{Way: Auto, Policies: policies} }
	c.options.Identify = func(int32) (host.Identity, error) { return host.Identity{}, nil }
	books := tracker.New(time.Now(), tracker.Host{ID: "h1", BootID: "b"}, tracker.Snapshot{BootID: "b", Engines: []*bursarv1.Allocation{{
		Id: "a", HostId: "h1", State: bursarv1.AllocationState_ALLOCATION_STATE_ACTIVE,
		Process:  &bursarv1.Process{Pid: 77, StartTime: 9, BootId: "b", Uid: new(uint32(1))},
		Entitled: &bursarv1.Resource{MemoryBytes: new(int64(100 << 20))},
	}}})
	books.Measure(time.Now(), tracker.Measurement{Sample: &bursarv1.HostSample{}, Usages: []tracker.Usage{{ID: "a", PID: 77, StartTime: 9}}})
	var mu sync.Mutex
	c.options.Locked = func(f func(*tracker.Tracker)) {
		mu.Lock()
		defer mu.Unlock()
		f(books)
	}
	return c, func() int64 {
		mu.Lock()
		defer mu.Unlock()
		return books.All()[0].GetMemoryLimitBytes()
	}
}

func TestALimitThatTheKernelRefusesIsTriedAgainWithinSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := &limited{busy: true}
		c, holds := limitedEngine(t, driver)
		for range 30 { // ticks of a second
			c.ScheduleAll()
			c.pass(t.Context())
			time.Sleep(time.Second)
		}
		if n := len(driver.tries); n < 4 || n > 8 {
			t.Errorf("it was tried %d times in 30 s; want a few, further and further apart: %v", n, driver.tries)
		}
		if got := holds(); got != 0 {
			t.Errorf("a limit of %d holds that the kernel has refused", got)
		}
		driver.mu.Lock()
		driver.busy = false
		driver.mu.Unlock()
		for range 60 {
			c.ScheduleAll()
			c.pass(t.Context())
			time.Sleep(time.Second)
		}
		if got := holds(); got == 0 || got != driver.has {
			t.Errorf("a limit of %d holds; want that of the kernel, %d", got, driver.has)
		}
	})
}

func TestALimitThatTheKernelChangedIsSetAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := &limited{}
		c, holds := limitedEngine(t, driver)
		tick := func(n int) {
			for range n {
				c.ScheduleAll()
				c.pass(t.Context())
				time.Sleep(time.Second)
			}
		}
		tick(2)
		want := driver.has
		if got := holds(); got == 0 || got != want {
			t.Fatalf("a limit of %d holds; want %d", got, want)
		}
		driver.has = 0 // somebody has lifted it
		tick(70)
		if got := holds(); got != want || driver.has != want {
			t.Errorf("a minute later %d holds, and the kernel has %d; want %d", got, driver.has, want)
		}
		driver.other, driver.has = want*2, 0
		tick(70)
		if got := holds(); got != want*2 {
			t.Errorf("%d is said to hold; the kernel has %d", got, want*2)
		}
	})
}

// A call waits for the loop, but not for one that is held.
func TestSettleWaitsForTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := &limited{}
		c, holds := limitedEngine(t, driver)
		began := time.Now()
		c.Settle(t.Context(), "a") // no loop runs
		if took := time.Since(began); took != settlePatience {
			t.Errorf("it waits for %v without a loop; want %v", took, settlePatience)
		}
		c.Settle(t.Context(), "unknown")
		if took := time.Since(began); took != settlePatience {
			t.Error("it waits for an engine that there is none of")
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Loop(ctx) }()
		c.Settle(t.Context(), "a")
		if holds() == 0 {
			t.Error("the engine is not in its cgroup once it has settled")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
