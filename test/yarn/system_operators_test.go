package yarn_test

import (
	"fmt"
	"maps"
	"strings"
	"syscall"
	"testing"

	"github.com/bursar/bursar/test/yarn"
)

// operators has a queue stopped, and another one made smaller than its use. It is the only part
// that changes the cluster.
func operators(t *testing.T, c *yarn.Cluster, s *system) {
	engine := s.command(t, t.TempDir(), "run", "--external", "yarn:default:root.ops.shrinks,memory=8GiB,cpu=8", "-l", "user=alice", "--", "sleep", "600")
	s.awaitQueue(t, "root.ops.shrinks", "limit 16384/16 used 0/0 ours 8192/8 others 0/0 available 8192/8")
	changed := maps.Clone(shared)
	changed["root.ops.shrinks.maximum-capacity"], changed["root.ops.stops.state"] = "25", "STOPPED"
	c.SetQueues(t, changed, "")
	s.awaitQueue(t, "root.ops.shrinks", "limit 4096/4 used 0/0 ours 8192/8 others 0/0 available 0/0")
	if q := s.queue(t, "root.ops.shrinks"); !q.GetAccount().GetOverLimit() || !engine.running() {
		t.Errorf("over its limit: %v; and it runs: %v", q, engine.running())
	}
	s.fails(t, 75, []string{"queue yarn:default:root.ops.shrinks: memory: asked for 1GiB, available 0 of 4GiB"},
		"run", "--external", "yarn:shrinks,memory=1GiB", "--", "true")
	s.fails(t, 75, []string{"queue yarn:default:root.ops.stops: takes no applications", "STOPPED"}, "run", "--external", "yarn:stops,memory=1GiB", "--", "true")
	if got := s.ok(t, "queues", "yarn::stops"); !strings.Contains(got, "STOPPED") {
		t.Errorf("queues: %s", got)
	}

	// An operator opens the queue again.
	waits := s.command(t, t.TempDir(), "run", "--wait", "1m", "--external", "yarn:stops,memory=1GiB", "--", "echo", "it ran")
	yarn.Await(t, "it waits", func() bool { return s.queue(t, "root.ops.stops").GetAccount().GetWaiting() == 1 })
	changed["root.ops.stops.state"] = "RUNNING"
	c.SetQueues(t, changed, "")
	if got := waits.end(); got.code != 0 || got.out != "it ran\n" {
		t.Errorf("it waited, and got %s", got)
	}
	if !engine.running() {
		t.Errorf("what ran when its queue shrank has ended: %s", engine.end())
	}
	engine.stop(syscall.SIGTERM)
}

// madeByUsing requests a queue that does not exist before its first use.
func madeByUsing(t *testing.T, c *yarn.Cluster, s *system) {
	const leaf = "root.made.team.alice"
	id := strings.TrimSpace(s.ok(t, "allocate", "-l", "user=alice", "--external", "yarn:default:"+leaf+",memory=4GiB,cpu=4"))
	s.fails(t, 75, []string{"queue yarn:default:root.made: memory: asked for 14GiB, available 12GiB of 16GiB"},
		"run", "--external", "yarn:default:root.made.another,memory=14GiB", "--", "true")
	app := c.Submit(t, yarn.Application{Queue: leaf, MemoryMiB: 4096, VCores: 4})
	s.ok(t, "confirm", id, "--application", app)
	s.awaitQueue(t, leaf, "limit 16384/16 used 4096/4 ours 4096/4 others 0/0 available 12288/12")
	s.awaitQueue(t, "root.made.team", "limit 16384/16 used 4096/4 ours 4096/4 others 0/0 available 12288/12")
	c.Kill(t, app)
	s.awaitReleased(t, id)
	s.awaitQueue(t, "root.made", "limit 16384/16 used 0/0 ours 0/0 others 0/0 available 16384/16")
}

// partition requests machines with a label, which have other resources than the rest.
func partition(t *testing.T, c *yarn.Cluster, s *system) {
	const parts = "yarn:default:root.parts@gpu"
	id := strings.TrimSpace(s.ok(t, "allocate", "-l", "user=alice", "--external", parts+",memory=4GiB,cpu=4,yarn.io/gpu=3"))
	s.fails(t, 75, []string{"queue " + parts + ": yarn.io/gpu: asked for 2, available 1 of 4"}, "run", "--external", parts+",yarn.io/gpu=2", "--", "true")
	s.fails(t, 65, []string{"queue yarn:default:root.parts: yarn.io/gpu: asked for 1, available 0 of 0", "never fit"},
		"run", "--external", "yarn:default:root.parts,yarn.io/gpu=1", "--", "true")
	app := c.Submit(t, yarn.Application{Queue: "root.parts", MemoryMiB: 4096, VCores: 4, Partition: "gpu"})
	s.ok(t, "confirm", id, "--application", app)
	s.awaitQueue(t, "root.parts@gpu", "limit 16384/16 used 4096/4 ours 4096/4 others 0/0 available 12288/12")
	s.awaitQueue(t, "root.parts", "limit 16384/16 used 0/0 ours 0/0 others 0/0 available 16384/16")
	if got := fmt.Sprint(quantityOf(s.queue(t, "root.parts@gpu").GetAvailable()).Custom); got != "map[yarn.io/gpu:1]" {
		t.Errorf("available of what only these machines have: %s", got)
	}
	c.Kill(t, app)
	s.awaitReleased(t, id)
	s.awaitQueue(t, "root.parts@gpu", "limit 16384/16 used 0/0 ours 0/0 others 0/0 available 16384/16")
}

// atRunTime checks, adds and removes clusters while everything runs.
func atRunTime(t *testing.T, c *yarn.Cluster, s *system, file string) {
	right, wrong := "addresses="+c.Addresses(), "addresses=http://localhost:1"
	for _, arguments := range [][]string{
		{"provider", "check", "yarn:new", right},
		{"provider", "check", "yarn:new", "--site", c.Site()},
		{"provider", "check", "yarn:default"},
		{"queues", "check", "yarn:default"},
		{"queues", "check", "-f", file},
		{"queues", "check"},
	} {
		if got := s.ok(t, arguments...); !strings.Contains(got, "active") || !strings.Contains(got, yarn.Hadoop34) {
			t.Errorf("%v: %s", arguments, got)
		}
	}
	s.fails(t, 69, []string{"connection refused"}, "provider", "check", "yarn:new", wrong)
	s.fails(t, 69, []string{"404", "basePath"}, "provider", "check", "yarn:new", right, "basePath=/elsewhere")
	s.fails(t, 65, []string{"addresses"}, "provider", "set", "yarn:new", "addresses=ftp://localhost")
	if got := s.bursar(t, "provider", "delete", "yarn:default"); got.code == 0 {
		t.Errorf("what the file has is deleted: %s", got)
	}

	s.ok(t, "provider", "set", "yarn:new", wrong, "interval=2s")
	yarn.Await(t, "it cannot be read", func() bool {
		got := s.ok(t, "providers")
		return strings.Contains(got, "yarn:new") && strings.Contains(got, "refused")
	})
	refused := s.bursar(t, "run", "--external", "yarn:new:root.parts,memory=1GiB", "--", "true")
	if want := "queue yarn:new:root.parts: unknown: not read yet: no server answers"; !strings.Contains(refused.errors, want) ||
		refused.code != 75 && refused.code != 69 { // 69: the coordinator has just begun to lead
		t.Errorf("want that %s, got %s", want, refused)
	}
	waits := s.command(t, t.TempDir(), "allocate", "--wait", "1m", "--external", "yarn:new:root.parts,memory=1GiB", "-l", "user=alice")
	s.ok(t, "provider", "set", "yarn:new", right, "interval=2s")
	got := waits.end()
	if got.code != 0 {
		t.Fatalf("it waited, and got %s", got)
	}
	s.ok(t, "provider", "delete", "yarn:new")
	s.fails(t, 65, []string{`"new"`, "default, quick"}, "run", "--external", "yarn:new:root.parts,memory=1GiB", "--", "true")
	if got := s.ok(t, "queues", "yarn:new"); !strings.Contains(got, "1GiB") || !strings.Contains(got, "no provider is configured for it") {
		t.Errorf("what is held in a cluster that is not configured any more: %s", got)
	}
	s.ok(t, "release", strings.TrimSpace(got.out))
	s.fails(t, 66, []string{"yarn:new"}, "queues", "yarn:new")
}
