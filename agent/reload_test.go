package agent

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/agent/policy"
	"github.com/bursar/bursar/agent/socket"
	"github.com/bursar/bursar/agent/statefile"
	"github.com/bursar/bursar/agent/tracker"
	"github.com/bursar/bursar/internal/identity"
	"github.com/bursar/bursar/internal/reload"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers/host"
)

// effects has a test of every field that a reload changes, by what the agent does afterwards: how
// to change it, and what is seen of that.
func effects() map[string]struct {
	change func(c *Config)
	seen   func(a *Agent, h *watching) any
	want   any
} {
	return map[string]struct {
		change func(c *Config)
		seen   func(a *Agent, h *watching) any
		want   any
	}{
		"labels": {
			func(c *Config) { c.Labels = map[string]string{"zone": "b"} },
			func(_ *Agent, h *watching) any { return h.registered.GetLabels()["zone"] }, "b",
		},
		"protected": {
			func(c *Config) { c.Protected = map[string]string{"memory": "1MiB"} },
			func(_ *Agent, h *watching) any { return h.registered.GetProtected().GetMemoryBytes() }, int64(1 << 20),
		},
		"capacity": {
			func(c *Config) { c.Capacity = map[string]string{"memory": "2MiB"} },
			func(a *Agent, _ *watching) any { return known(a).Host().Capacity.GetMemoryBytes() }, int64(2 << 20),
		},
		"safety": {
			func(c *Config) { c.Safety = "3MiB" },
			func(a *Agent, _ *watching) any { return known(a).Sample().GetMemorySafetyBytes() }, int64(3 << 20),
		},
		"trustedUsers": {
			func(c *Config) { c.TrustedUsers = []string{"4711"} },
			func(a *Agent, _ *watching) any {
				c, err := a.socket.Peers.Caller(context.Background(), 4711)
				return err == nil && c.Trusted
			}, true,
		},
		"callers": {
			func(c *Config) { c.Callers.Burst = 7 },
			func(a *Agent, _ *watching) any { return granted(a, someone(1), 100) }, 7,
		},
		"patience": {
			func(c *Config) { c.Patience = time.Minute },
			func(a *Agent, _ *watching) any {
				return a.forCallers().Patience
			}, time.Minute,
		},
		"tick": {
			func(c *Config) { c.Tick = time.Second },
			func(_ *Agent, h *watching) any {
				h.measured.Store(0)
				time.Sleep(10 * time.Second)
				synctest.Wait() // for the last, which is due now
				return h.measured.Load()
			}, int64(10),
		},
		"engines.policies": {
			func(c *Config) { c.Engines.Policies = []PolicyConfig{{OnOverUse: "kill"}} },
			func(a *Agent, _ *watching) any { return a.settings().policies.For(nil).Action == policy.Kill }, true,
		},
		"engines.minUserId": {
			func(c *Config) { c.Engines.MinUserID = 2000 },
			func(a *Agent, _ *watching) any { return a.settings().Engines.MinUserID }, int64(2000),
		},
		"engines.systemUsers": {
			func(c *Config) { c.Engines.SystemUsers = []string{"hadoop"} },
			func(a *Agent, _ *watching) any { return len(a.settings().Engines.SystemUsers) }, 1,
		},
		"engines.bannedUsers": {
			func(c *Config) { c.Engines.BannedUsers = []string{"nobody"} },
			func(a *Agent, _ *watching) any { return a.settings().Engines.BannedUsers[0] }, "nobody",
		},
		"engines.remote.accounts": {
			func(c *Config) { c.Engines.Remote.Accounts = []string{"etl"} },
			func(a *Agent, _ *watching) any { p := a.forOrders(); return len(p.Accounts) }, 1,
		},
		"engines.remote.minUserId": {
			func(c *Config) { c.Engines.Remote.MinUserID = 2000 },
			func(a *Agent, _ *watching) any { return a.forOrders().MinUID }, uint32(2000),
		},
		"engines.remote.deniedGroups": {
			func(c *Config) { c.Engines.Remote.DeniedGroups = []string{"games"} },
			func(a *Agent, _ *watching) any { return a.settings().Engines.Remote.DeniedGroups[0] }, "games",
		},
		"engines.remote.programs": {
			func(c *Config) { c.Engines.Remote.Programs = []string{"/bin/true"} },
			func(a *Agent, _ *watching) any { p := a.forOrders(); return len(p.Programs) }, 1,
		},
		"engines.remote.environment.allowed": {
			func(c *Config) { c.Engines.Remote.Environment.Allowed = []string{"LC_*"} },
			func(a *Agent, _ *watching) any { p := a.forOrders(); return len(p.Variables) }, 1,
		},
		"engines.remote.environment.set": {
			func(c *Config) { c.Engines.Remote.Environment.Set = map[string]string{"SPARK_HOME": "/opt/spark"} },
			func(a *Agent, _ *watching) any { return a.forOrders().Set["SPARK_HOME"] }, "/opt/spark",
		},
		"workDirs": {
			func(c *Config) { c.WorkDirs = []WorkDir{{Path: "/", MinFree: "100%", MinFreeInodes: "100%"}} },
			func(a *Agent, _ *watching) any { return known(a).Sample().GetRefusal() != "" }, true,
		},
		"countables": {
			func(c *Config) {
				c.Countables = map[string]CountableConfig{"gpu": {Command: []string{"/bin/echo", "5"}}}
			},
			func(a *Agent, _ *watching) any { amounts, _ := a.countables.Counts(time.Now()); return len(amounts) }, 1,
		},
		"healthCommand": {
			func(c *Config) { c.HealthCommand = HealthCommand{Command: []string{"/bin/false"}} },
			func(a *Agent, _ *watching) any { return a.health.Problem() != "" }, true,
		},
		"logLevel": { // that of the logger, which is the program's
			func(c *Config) { c.LogLevel = "debug" },
			func(a *Agent, _ *watching) any { return a.settings().LogLevel }, "debug",
		},
	}
}

// watching is a coordinator that keeps what it was told last, and a machine that counts how often
// it was measured.
type watching struct {
	still
	*heartbeatServer

	registered *bursarv1.RegisterRequest
	measured   atomic.Int64
}

func (h *watching) Register(ctx context.Context, q *bursarv1.RegisterRequest) (*bursarv1.RegisterResponse, error) {
	h.registered = q
	return h.heartbeatServer.Register(ctx, q)
}

func (h *watching) Sample(ctx context.Context) host.Sample {
	h.measured.Add(1)
	return h.still.Sample(ctx)
}

func TestEveryFieldSaysWhetherAReloadChangesIt(t *testing.T) {
	if left := reload.Untagged(Config{}); left != nil {
		t.Errorf("want reload:\"live\" or reload:\"start\" at %v", left)
	}
	tested := effects()
	for _, field := range reload.Live(Config{}) {
		if _, found := tested[field]; !found {
			t.Errorf("%s: nothing tests that a reload changes it", field)
		}
		delete(tested, field)
	}
	for field := range tested {
		t.Errorf("%s: a reload does not change it", field)
	}
}

func TestReloadHasEffects(t *testing.T) {
	for field, test := range effects() {
		t.Run(field, func(t *testing.T) {
			h := &watching{heartbeatServer: &heartbeatServer{interval: 5 * time.Second}}
			reloading(t, h, func(a *Agent, config Config) {
				if got := test.seen(a, h); cmp.Equal(got, test.want) {
					t.Fatalf("it is %v already", got)
				}
				synctest.Wait()
				test.change(&config)
				changes, err := a.Reload(config)
				if err != nil || len(changes.Taken) != 1 || !changes.Has(field) && field != "callers" {
					t.Errorf("%+v, %v", changes, err)
				}
				time.Sleep(10 * time.Second) // two heartbeats
				synctest.Wait()
				if diff := cmp.Diff(test.want, test.seen(a, h)); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// reloading runs the loops of an agent in a bubble, until f returns.
func reloading(t *testing.T, h *watching, f func(a *Agent, config Config)) {
	t.Helper()
	dir, err := statefile.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	synctest.Test(t, func(t *testing.T) {
		config := Config{HostID: "h1", Address: "h1", Tick: 5 * time.Second}
		a, err := New(config, Deps{Allocations: &patient{}, Hosts: h, Meter: h})
		if err != nil {
			t.Fatal(err)
		}
		a.ownMeter = true // it does what that one does
		a.state.Open(dir, "boot-1", 1)
		a.state.Begin(tracker.New(time.Now(), tracker.Host{ID: "h1", BootID: "boot-1", Incarnation: 1}, tracker.Snapshot{}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() { ended <- a.measureLoop(ctx) }()
		go func() { ended <- a.reports.Loop(ctx) }()
		time.Sleep(12 * time.Second)
		synctest.Wait()
		f(a, config)
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestReloadOfWhatIsWrongOrNeedsARestartChangesNothing(t *testing.T) {
	h := &watching{heartbeatServer: &heartbeatServer{interval: 5 * time.Second}}
	reloading(t, h, func(a *Agent, config Config) {
		before := *a.settings()
		wrong := config
		wrong.Labels, wrong.Tick = map[string]string{"zone": "b"}, time.Hour
		_, err := a.Reload(wrong)
		var named *ConfigError
		if !errors.As(err, &named) || named.Field != "tick" {
			t.Errorf("%v", err)
		}
		other := config
		other.HostID, other.StateDir, other.Engines.LogDir = "h2", "/elsewhere", "/elsewhere"
		changes, err := a.Reload(other)
		if diff := cmp.Diff(reload.Changes{Kept: []string{"hostId", "stateDir", "engines.logDir"}}, changes); err != nil || diff != "" {
			t.Error(diff, err)
		}
		if diff := cmp.Diff(before.Config, a.settings().Config); diff != "" {
			t.Error(diff)
		}
	})
}

func someone(uid uint32) *socket.Caller {
	return socket.NewCaller(identity.Actor{Name: "someone@h1"}, uid, strconv.FormatUint(uint64(uid), 10))
}

// granted is how many of n requests a user is admitted with at once.
func granted(a *Agent, c *socket.Caller, n int) (number int) {
	for range n {
		if ended, err := a.socket.Admitted.Begin(c.Counted()); err == nil {
			ended()
			number++
		}
	}
	return number
}
