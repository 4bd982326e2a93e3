package yarn_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
	"github.com/bursar/bursar/test/yarn"
)

// twoManagers has two ResourceManagers fail over and go down, while users request queues and a
// coordinator restarts.
func twoManagers(t *testing.T, binary string) {
	c := yarn.Start(t, yarn.Options{Pair: true, Nodes: []yarn.Node{{MemoryMiB: 16384, VCores: 16}}, Capacity: map[string]string{
		"root.queues": "a", "root.a.capacity": "100", "root.a.queues": "a1", "root.a.a1.capacity": "100",
	}})
	s, coordinate := startApart(t, binary, providersFile(t, [2]string{"default", `addresses: "` + c.Addresses() + `", interval: 2s, maxAge: 4s`}))
	coordinator := coordinate()
	yarn.Await(t, "the host is there", func() bool { return strings.Contains(s.ok(t, "hosts"), "host-1") })

	// Both are standby.
	s.awaitUnknown(t)
	first := s.waits(t)
	check := s.bursar(t, "provider", "check", "yarn:default")
	if check.code != 69 || strings.Count(check.out, "standby") < 2 {
		t.Errorf("provider check of two that stand by: %s", check)
	}
	c.MakeActive(t, "rm1")
	first.granted()
	s.awaitQueue(t, "root.a.a1", "limit 16384/16 used 0/0 ours 4096/4 others 0/0 available 12288/12")
	if got := s.ok(t, "provider", "check", "yarn:default"); !strings.Contains(got, "active") || !strings.Contains(got, "standby") {
		t.Errorf("provider check: %s", got)
	}
	engine := s.command(t, t.TempDir(), "run", "--external", "yarn:a1,memory=4GiB,cpu=4", "-l", "user=carol", "--", "sleep", "600")
	own := c.Submit(t, yarn.Application{Queue: "root.a.a1", MemoryMiB: 2048, VCores: 2})
	c.AwaitAllocated(t, own)
	s.awaitQueue(t, "root.a.a1", "limit 16384/16 used 2048/2 ours 8192/8 others 2048/2 available 6144/6")

	// One hands over to the other, and the coordinator is down in between.
	c.MakeStandby(t, "rm1")
	s.awaitUnknown(t)
	second := s.waits(t)
	coordinator.stop(syscall.SIGTERM)
	coordinator = coordinate()
	s.awaitUnknown(t)
	c.MakeActive(t, "rm2")
	second.granted()
	if got := s.ok(t, "providers"); !strings.Contains(got, c.Managers[1].URL) {
		t.Errorf("want that %s is read: %s", c.Managers[1].URL, got)
	}
	c.AwaitNodes(t)
	s.awaitQueue(t, "root.a.a1", "limit 16384/16 used 2048/2 ours 12288/12 others 2048/2 available 2048/2")

	// The active one crashes together with the coordinator. The other one takes over before a
	// coordinator is up again.
	c.KillManager(t, "rm2")
	s.awaitUnknown(t)
	third := s.waits(t)
	coordinator.stop(syscall.SIGKILL)
	c.MakeActive(t, "rm1")
	coordinate()
	if !engine.running() {
		t.Errorf("an engine that ran has ended: %s", engine.end())
	}
	c.AwaitNodes(t)
	s.awaitQueue(t, "root.a.a1", "limit 16384/16 used 2048/2 ours 12288/12 others 2048/2 available 2048/2")
	c.Kill(t, own)
	third.granted()
	s.awaitQueue(t, "root.a.a1", "limit 16384/16 used 0/0 ours 16384/16 others 0/0 available 0/0")
	engine.stop(syscall.SIGTERM)
	s.ok(t, "release", first.id(), second.id(), third.id())
	s.awaitQueue(t, "root", "limit 16384/16 used 0/0 ours 0/0 others 0/0 available 16384/16")
	s.audit(t)
}

// startApart prepares a coordinator and an agent as separate processes. It starts the agent, and
// returns a function that starts the coordinator.
func startApart(t *testing.T, binary, providers string) (*system, func() *command) {
	t.Helper()
	dir := shortDir(t)
	address := proc.Address(t)
	s := &system{binary: binary, agent: filepath.Join(dir, "agent.sock"), address: "http://" + address}
	configs := map[string]string{
		"coordinator": fmt.Sprintf("listen: %s\ndataDir: %s/data\nprovidersFile: %s\ntimes: {interval: 1s, suspectAfter: 10}\n", address, dir, providers),
		"agent":       fmt.Sprintf("hostId: host-1\nsocket: %s\nstateDir: %s/agent\ntick: 1s\ncoordinators: [%s]\n", s.agent, dir, s.address),
	}
	for name, config := range configs {
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.connect(t)
	s.serve(t, dir, "agent", "--config", filepath.Join(dir, "agent.yaml"))
	return s, func() *command {
		t.Helper()
		coordinator := s.serve(t, dir, "coordinator", "--config", filepath.Join(dir, "coordinator.yaml"))
		yarn.Await(t, "the coordinator leads", func() bool {
			if !coordinator.running() {
				t.Fatalf("the coordinator has ended: %s", coordinator.end())
			}
			return s.bursar(t, "status").code == 0
		})
		return coordinator
	}
}

// awaitUnknown waits until the cluster is no longer known because no ResourceManager is active, and
// checks the messages about it.
func (s *system) awaitUnknown(t *testing.T) {
	t.Helper()
	const why = "no active server"
	yarn.Await(t, "the cluster is not known: "+why, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		list, err := s.api.Queues().ListProviders(ctx, &bursarv1.ListProvidersRequest{})
		if err != nil || len(list.GetProviders()) != 1 {
			t.Fatalf("providers: %v, %v", list, err)
		}
		health := list.GetProviders()[0].GetHealth()
		return health.GetState() == bursarv1.ProviderHealth_STATE_UNKNOWN && strings.Contains(health.GetMessage(), why)
	})
	for _, command := range []string{"providers", "status"} {
		if got := s.ok(t, command); !strings.Contains(got, why) {
			t.Errorf("bursar %s does not say why: %s", command, got)
		}
	}
	refused := s.bursar(t, "allocate", "--external", "yarn:default:root.a.a1,memory=1GiB", "-l", "user=bob")
	if refused.code != 75 && refused.code != 69 || !strings.Contains(refused.errors, why) {
		t.Errorf("want that it is refused for %q, got %s", why, refused)
	}
}

// waiter is a command that requests a part of the queue and waits for it.
type waiter struct{ *command }

// waits starts a waiter, and waits until the coordinator has queued it.
func (s *system) waits(t *testing.T) waiter {
	t.Helper()
	waiting := func() int {
		list := s.ok(t, "allocations", "--state", "waiting", "-o", "json")
		return strings.Count(list, `"requestId"`)
	}
	before := waiting()
	one := s.command(t, t.TempDir(), "allocate", "--wait", "2m", "--ttl", "10m", "--external", "yarn:default:root.a.a1,memory=4GiB,cpu=4", "-l", "user=alice")
	yarn.Await(t, "it waits", func() bool {
		if !one.running() {
			t.Fatalf("it did not wait: %s", one.end())
		}
		return waiting() > before
	})
	return waiter{one}
}

// granted waits until it has its grant.
func (w waiter) granted() {
	w.t.Helper()
	if got := w.end(); got.code != 0 {
		w.t.Fatalf("it waited, and got %s", got)
	}
}

func (w waiter) id() string { return strings.TrimSpace(w.out.String()) }
